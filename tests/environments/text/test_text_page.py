"""The page of problems in text agrees with the families."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_what_the_families_say(capsys):
    spec = importlib.util.spec_from_file_location("make_text_page", DOCS / "make" / "text.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    text = (DOCS / "environments" / "text.md").read_text()
    assert text == maker.page(), "run python docs/make/text.py"
    code = text.partition("```python\n")[2].partition("```")[0]
    exec(code, {})
    assert "Verdict(format=True, truth=0.0" in capsys.readouterr().out
