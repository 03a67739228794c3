"""Agents that learn from recorded answers with rewards: rows, weights and residuals by hand, and whole runs."""

from __future__ import annotations

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recorded_helpers import WORDS, check_recorded, rows_of

from forage.core.errors import ForageError
from forage.data.text.rows import read_rows
from forage.data.text.tokens import RowEncoder, encode_rows
from forage_papers.agents.language.oreo import path_residuals
from forage_papers.agents.language.reward_weighted import RewardWeighted


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
def test_resumed_is_as_if_never_stopped(name: str, tmp_path: Path) -> None:
    last = check_recorded(name, "scored", tmp_path)
    assert {"loss", "reward"} <= last.keys()
