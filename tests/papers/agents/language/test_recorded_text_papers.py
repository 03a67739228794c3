"""Relatives of DPO on recorded text: KTO by hand, and whole runs."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from recorded_helpers import WORDS, check_recorded

from forage.data.text.rows import read_rows
from forage.data.text.tokens import RowEncoder, encode_rows
from forage_papers.agents.language import kto


def test_kto_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two answers, a wanted one 2 more probable than at first and another 1 less; other answers 0.5 more: b = 0.5."""
    now = jnp.array([[-1.0, -1.5], [-4.0, -2.5]])
    monkeypatch.setattr(kto.KTO, "answer_scores", lambda self, network, rows: now)
    items: Any = SimpleNamespace(
        rows=None, reference=jnp.array([[-3.0, -2.0], [-3.0, -3.0]]), wanted=jnp.array([True, False])
    )
    agent = kto.KTO(beta=0.5, wanted_weight=2.0)
    loss, said = agent.text_loss(None, None, items)  # pyrefly: ignore[bad-argument-type]
    sigmoid = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
    each = 2 * (1 - sigmoid(0.5 * (2 - 0.5))), 1 - sigmoid(0.5 * (0.5 + 1))
    np.testing.assert_allclose(loss, sum(each) / 2, rtol=1e-6)
    assert (float(said["accuracy"]), float(said["margin"]), float(said["baseline"])) == (1.0, 1.5, 0.5)


def test_an_answer_stands_beside_its_prompt_with_the_next_rows_answer() -> None:
    rows = read_rows([{"prompt": "a", "chosen": "b", "rejected": "c"}], ("label", "preference"))
    found = encode_rows(rows, RowEncoder(WORDS), 64, others=True)
    texts = [[WORDS.decode(one[one > 0] - 1, special=True) for one in row] for row in found.text]
    assert texts == [["ab<|end|>", "ac<|end|>"], ["ac<|end|>", "ab<|end|>"]]
    assert found.label.tolist() == [1, 0]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["kto", "simpo", "cpo", "orpo"])
def test_resumed_is_as_if_never_stopped(name: str, tmp_path: Path) -> None:
    kind, learns = "label" if name == "kto" else "preference", name != "simpo"  # far from its margin at first
    last = check_recorded(name, kind, tmp_path, learns)
    assert {"accuracy", "margin", "chosen", "rejected"} <= last.keys()
