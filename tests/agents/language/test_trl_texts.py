"""Learning from recorded text is as in TRL: ids, masks, losses and gradient norms of the same rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from recorded_helpers import WORDS
from test_benchmarks import from_benchmarks

TRL = json.loads((Path(__file__).parent / "data" / "trl_texts.json").read_text())["cases"]
"""Numbers of TRL 1.16's own trainers, and of the `PRMTrainer` of an earlier TRL; `benchmarks/recorded_text.py --write`
keeps them here.
"""


def test_ids_and_masks_are_those_of_trl(monkeypatch: pytest.MonkeyPatch) -> None:
    made = from_benchmarks("recorded_text", monkeypatch)
    for name in TRL:
        if name != "kto":  # an agent of the package of papers
            found = made.ids_and_masks(name, made.read_case(name, WORDS)[1])
            assert found == {key: TRL[name][key] for key in ("ids", "masks")}, name


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in TRL if name != "kto"])
def test_loss_and_gradient_norm_are_those_of_trl(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = from_benchmarks("recorded_text", monkeypatch)
    found = made.measure_ours(name, made.write_model(tmp_path), WORDS)
    for number in ("loss", "norm"):
        np.testing.assert_allclose(found[number], TRL[name][number], rtol=1e-5)
