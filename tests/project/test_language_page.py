"""The code of docs/language-reference.md runs from its first line to its last, and its functions exist."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "language-reference.md").read_text()


@pytest.mark.thorough
def test_code(tmp_path, monkeypatch):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.+?)```", TEXT, re.DOTALL)
    names: dict[str, object] = {}
    exec("\n".join(code), names)
    assert len(code) >= 5 and {path.name for path in tmp_path.iterdir()} == {"small", "merged", "talker"}


def test_functions_that_the_page_says_are_shared_exist():
    table = TEXT[TEXT.index("<!-- shared") : TEXT.index("<!-- end of shared")]
    rows = re.findall(r"^\| `(forage[\w.]+)` \| (.+) \|$", table, re.MULTILINE)
    assert len(rows) > 5
    for module, names in rows:
        for name in re.findall(r"`([\w.]+)`", names):
            found = importlib.import_module(module)
            for part in name.split("."):
                found = inspect.getattr_static(found, part)
    shared = {f"{module}.{name}" for module, names in rows for name in re.findall(r"`([\w.]+)`", names)}
    assert {"forage.loop.learner.Learner.learn", "forage.ops.optimiser.Optimiser.step"} <= shared
