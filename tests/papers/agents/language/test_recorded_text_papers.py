"""Relatives of DPO on recorded text: KTO by hand, and whole runs."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recorded_helpers import WORDS, check_recorded, rows_of

from forage.core.errors import ForageError
from forage.data.text.rows import read_rows
from forage.data.text.tokens import RowEncoder, encode_rows
from forage_papers.agents.language import kto
from forage_papers.agents.language.oreo import path_residuals
from forage_papers.agents.language.reward_weighted import RewardWeighted


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


def test_rewards_of_answers_weigh_them_or_choose_some() -> None:
    rows = read_rows(rows_of("scored", 2), ("scored", "label"))
    assert encode_rows(rows, RowEncoder(WORDS), 64).label.tolist() == [1.5, 0.5]
    labels = read_rows(rows_of("label", 2), ("scored", "label"))
    assert encode_rows(labels, RowEncoder(WORDS), 64).label.tolist() == [1, 0]
    for wrong in ("good", True, math.inf):
        with pytest.raises(ForageError, match="which is no number"):
            read_rows([{"prompt": "a", "completion": "b", "reward": wrong}], ("scored",))
    weight = RewardWeighted(beta=0.5).weights(jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(weight, [2 / (1 + math.exp(-2)), 2 / (1 + math.exp(2))], rtol=1e-5)
    assert RewardWeighted(rule="filtered", least=0.5).weights(jnp.array([1.0, 0.0, 0.5])).tolist() == [1, 0, 1]


def test_residuals_of_oreo_by_hand() -> None:
    """Ratios 1, -2 and 3 with the values 0.5, 0 and 1 and the reward 1: sums from each token on are 2, 1 and 3."""
    ratio, value = jnp.array([[1.0, -2.0, 3.0]]), jnp.array([[0.5, 0.0, 1.0]])
    of_value, of_policy = path_residuals(ratio, value, jnp.array([1.0]), 0.5)
    np.testing.assert_allclose(of_value, [[0.5 - 1 + 1, -1 + 0.5, 1.5]])
    np.testing.assert_allclose(of_policy, of_value)  # alike but for what is fixed

    def slope(which: int, argument: int) -> list[float]:
        total = lambda *given: path_residuals(*given, jnp.array([1.0]), 0.5)[which].sum()  # noqa: E731
        return jax.grad(total, argument)(ratio, value)[0].tolist()

    assert slope(0, 0) == slope(1, 1) == [0, 0, 0] and slope(0, 1) == [1, 1, 1] and slope(1, 0) == [0.5] * 3


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["reward-weighted", "oreo"])
def test_runs_from_rewards_resume(name: str, tmp_path: Path) -> None:
    last = check_recorded(name, "scored", tmp_path)
    assert {"loss", "reward"} <= last.keys()


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["kto", "simpo", "cpo", "orpo"])
def test_resumed_is_as_if_never_stopped(name: str, tmp_path: Path) -> None:
    kind, learns = "label" if name == "kto" else "preference", name != "simpo"  # far from its margin at first
    last = check_recorded(name, kind, tmp_path, learns)
    assert {"accuracy", "margin", "chosen", "rejected"} <= last.keys()
