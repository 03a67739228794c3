"""DEPO: explorability and the problems of an epoch, by hand, and a run of it."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import model

from forage.agents.language.grpo import GRPO
from forage_papers.tasks.depo import Depo, ExplorationScores, explorability


def test_explorability_by_hand():
    """One right answer of three: advantages sqrt 2 and -1/sqrt 2; a wrong one of entropy 2 is above 1.5 times 1."""
    number, right = np.array([1, 1, 1, 0, 2, 2, 1]), np.array([1, 0, 0, 1, 0, 0, 1], bool)
    entropy, there = np.float32([1, 1.5, 2, 3, 4, 4, 9]), np.array([1, 1, 1, 1, 1, 1, 0], bool)
    score = jax.jit(explorability, static_argnums=4)
    found, count = score(number, right, entropy, there, 4, 1.5)
    np.testing.assert_allclose(found, [0, 2**0.5 + 1.5 / 2**0.5, 0, 0], rtol=1e-5)
    assert count.tolist() == [1, 3, 2, 0]
    np.testing.assert_allclose(score(number, right, entropy, there, 4, 2.0)[0][1], 2**0.5 + 3.5 / 2**0.5, rtol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("epoch", "slot", "out"),
    [
        (0.0, 1, []),  # the first epoch has all
        (1.0, 1, [4]),  # 0.97 of five are four, of the highest means 3, 2, 1.5 and 1, and one that never came
        (20.0, 1, [1, 3, 4]),  # not less than 0.4 of five
        (19.6, 1, [1, 3, 4]),
        (20.0, 4, [3, 4]),  # filled up to four by one that came once
    ],
)
def test_an_epoch_is_without_the_least_explorable(epoch, slot, out):
    scores = jnp.float32([[3, 9, 9], [1.5, 9, 9], [3, 0, 3], [2, 0, 9], [0, 0, 0], [0, 0, 0]])
    own = ExplorationScores(scores, jnp.array([1, 1, 3, 2, 2, 0]), jnp.float32(epoch))
    found = Depo().leaves_out(own, jax.random.key(0), SimpleNamespace(slot=slot, num_starts=6))
    assert np.flatnonzero(found).tolist() == out


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    agent = GRPO(model=model(), num_envs=8, group_size=4)
    check_resumed(
        tmp_path, agent, "text:addition", 24, 48, tasks=Depo(), environment_options={"problems": 4, "response": 12}
    )
