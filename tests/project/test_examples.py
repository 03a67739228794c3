"""Every example runs, with few steps."""

import importlib.util
from pathlib import Path

import pytest
from tiers import gate_cases

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
GATE = [path for path in EXAMPLES if path.stem == "train_and_act"]


@pytest.mark.parametrize("path", gate_cases(EXAMPLES, GATE), ids=lambda path: path.stem)
def test_example(path, tmp_path, capsys):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(steps=2048, seeds=2, directory=str(tmp_path / "run"))
    assert "return" in capsys.readouterr().out
    assert (tmp_path / "run" / "curve.png").exists()
