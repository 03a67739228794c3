"""The code of docs/language.md runs, from its first line to its last."""

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "language.md").read_text()


@pytest.mark.thorough
def test_code(tmp_path, monkeypatch):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.+?)```", TEXT, re.DOTALL)
    names: dict[str, object] = {}
    exec("\n".join(code), names)
    assert len(code) >= 5 and {path.name for path in tmp_path.iterdir()} == {"small", "merged", "talker"}
