"""Tabular agents: their plans against plain loops, and their exact regret."""

import jax
import jax.numpy as jnp
import numpy as np

from forage.core.types import GONE, Experience
from forage.environments.tabular.makers import chain
from forage.environments.tabular.values import finite_horizon_return, uniform_policy
from forage.studies.regret import expected_return
from forage_papers.agents.tabular.base import Counts

STATES, ACTIONS, HORIZON = 3, 2, 4


def experience(rows, time=None):
    """Rows of (state, action, reward, next state, terminated), one step each in one environment."""
    state, action, reward, following, terminated = (np.array(x) for x in zip(*rows, strict=True))
    column = lambda x, dtype: np.asarray(x, dtype)[:, None]  # noqa: E731
    none = column(np.zeros(len(rows)), bool)
    policy_info = column(np.arange(len(rows)) if time is None else time, jnp.int32)
    return Experience(
        column(state, jnp.int32), column(action, jnp.int32), column(reward, jnp.float32),
        column(following, jnp.int32), column(terminated, bool), none, column(0 * state, jnp.int32), policy_info,
    )  # fmt: skip


ROWS = [(0, 1, 0.0, 1, 0), (1, 1, 0.5, 1, 0), (1, 1, 1.0, 2, 0), (2, 0, 1.0, 0, 1)]


def test_counts_know_what_ended():
    counts = Counts.nothing(STATES, ACTIONS).add(experience(ROWS))
    assert counts.taken.tolist() == [[0, 1], [0, 2], [1, 0]]
    assert counts.next[1, 1].tolist() == [0, 1, 1] and counts.next[2, 0].tolist() == [0, 0, 0]
    transition, reward = counts.model()
    np.testing.assert_allclose(reward, [[0, 0], [0, 0.75], [1, 0]])
    np.testing.assert_allclose(transition[1, 1], [0, 0.5, 0.5])
    np.testing.assert_allclose(counts.square[1, 1], 1.25)


def test_nothing_is_counted_of_who_has_left():
    there = experience(ROWS)._replace(source=np.array([[0], [0], [0], [GONE]], np.int32))
    counts = Counts.nothing(STATES, ACTIONS).add(there)
    without = Counts.nothing(STATES, ACTIONS).add(experience(ROWS[:3]))
    jax.tree.map(np.testing.assert_array_equal, counts, without)


def test_the_value_of_a_policy_is_that_of_the_tables():
    mdp = chain(max_steps=10)
    uniform = jnp.broadcast_to(uniform_policy(mdp), (10, 5, 2))
    np.testing.assert_allclose(expected_return(mdp, uniform), finite_horizon_return(mdp, uniform[0], 10), rtol=1e-5)
