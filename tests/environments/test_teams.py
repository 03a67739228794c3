"""Games for teams, against their tables."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.environments import make
from forage.environments.checking import check_environment
from forage.environments.teams.two_step import TwoStep

KEY = jax.random.key(0)
TABLE = [  # state, both actions, paid, the state after, over
    *[(0, (a, b), 0.0, 1 + a, False) for a, b in itertools.product((0, 1), repeat=2)],
    *[(1, both, 7.0, 1, True) for both in itertools.product((0, 1), repeat=2)],
    (2, (0, 0), 0.0, 2, True),
    (2, (0, 1), 1.0, 2, True),
    (2, (1, 0), 1.0, 2, True),
    (2, (1, 1), 8.0, 2, True),
]


@pytest.mark.parametrize(("state", "both", "paid", "after", "over"), TABLE)
def test_the_two_step_game_by_its_table(state, both, paid, after, over):
    found, step = TwoStep().step(jnp.int32(state), jnp.array(both), KEY)
    assert found == after and step.reward.tolist() == [paid, paid]
    np.testing.assert_array_equal(step.observation, np.eye(3)[[after, after]])
    assert step.terminated.tolist() == [over, over] and not step.truncated.any()


def test_what_plans_earn_in_the_two_step_game():
    world = make("teams:TwoStep")
    check_environment(world, "teams:TwoStep")
    assert (world.num_agents, world.horizon) == (2, 2)
    earned = {}
    for plan in itertools.product((0, 1), repeat=4):
        state, observation = world.reset(KEY)
        assert state == 0 and observation.tolist() == [[1, 0, 0], [1, 0, 0]]
        total = 0.0
        for both in (plan[:2], plan[2:]):
            state, step = world.step(state, jnp.array(both), KEY)
            total += float(step.reward[0])
        assert step.terminated.all()
        earned[plan] = total
    assert max(earned.values()) == 8 and {p[0] for p, r in earned.items() if r == 8} == {1}
    assert np.mean(list(earned.values())) == 4.75
    assert world.render(jnp.int32(2)).shape == (160, 480, 3)
