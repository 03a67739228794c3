"""Critics of team members learn the values of all joint actions in the two-step game."""

import jax
import numpy as np
import pytest
from small import compute
from test_vdn import DISCOUNT, RIGHT, train_on_all

from forage.core.ports import ActInputs
from forage_papers.agents.actor_critic.maddpg import MADDPG


@pytest.mark.thorough
def test_critics_learn_the_values_of_the_two_step_game():
    """Each critic's value of each joint action, where policies are nearly sure of the 8 that follows."""
    agent = MADDPG(hidden_sizes=(32,), learning_rate=3e-3, discount=DISCOUNT)
    state, experience = train_on_all(agent)
    rows = jax.tree.map(lambda x: x[0], experience)
    taken = np.eye(2, dtype=np.float32)[rows.action]
    found = compute(lambda: agent.values(state.critics, rows.observation, taken, taken))
    for member in (0, 1):
        np.testing.assert_allclose(found[:, member].reshape(3, 2, 2), RIGHT, atol=0.2)
    act = lambda n, o: agent.act(state, ActInputs(np.eye(2)[n], o, jax.random.key(0), explore=False))[0]  # noqa: E731
    first, *second = compute(lambda: [act(n, np.eye(3)[s]) for n, s in ((0, 0), (0, 2), (1, 2))])
    assert first == 1 and second == [1, 1]
