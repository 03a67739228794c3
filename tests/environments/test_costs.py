"""Environments with a cost in addition to the reward: costs, ends, and an unchanged reward."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.environments import make
from forage.environments.classic.pendulum import PendulumState
from forage.environments.grid.cells import EMPTY, GOAL_CELL, LAVA_CELL, WALL_CELL
from forage.environments.grid.core import FORWARD, LEFT
from forage.environments.grid.layout import level

KEY = jax.random.key(0)


def test_a_strong_torque_costs_and_the_reward_is_the_pendulums():
    ours, plain = make("Pendulum-cost"), make("Pendulum-v1")
    assert ours.reward_names == ("reward", "cost")
    state = PendulumState(jnp.array([2.0, -1.0]), jnp.int32(0))
    for torque, cost in ((-1.5, 1), (0.9, 0), (9.0, 1), (1.0, 0)):
        action = jnp.array([torque])
        (after, step), (same, expected) = (
            small.compute(lambda a, e=e: e.step(state, a, KEY), action) for e in (ours, plain)
        )
        np.testing.assert_array_equal(step.reward, [expected.reward, cost])
        assert small.differing(after, same) == []


@pytest.mark.thorough
def test_lava_costs_and_ends_nothing():
    grid = np.full((5, 5), WALL_CELL, np.uint8)
    grid[1:4, 1:4] = EMPTY
    grid[1, 3], grid[1:3, 2] = GOAL_CELL, LAVA_CELL
    world = make("grid:LavaToll-S5", level=level(jnp.asarray(grid), 1, 1, 0))
    state, _ = world.reset(KEY)
    said = []
    for action in (FORWARD, LEFT, LEFT + 1, FORWARD):
        state, step = small.compute(lambda s, a: world.step(s, a, KEY), state, jnp.int32(action))
        said.append((float(step.reward[1]), bool(step.terminated)))
    assert said == [(1.0, False), (1.0, False), (1.0, False), (0.0, True)]
    np.testing.assert_allclose(step.reward[0], 1 - 0.9 * 4 / 40, rtol=1e-6)


@pytest.mark.thorough
def test_the_gap_is_anywhere():
    world = make("grid:LavaToll-S5")
    grids = jax.vmap(lambda key: world.generate(key).grid)(jax.random.split(KEY, 64))
    lava = np.asarray(grids)[:, 1:4, 2] == LAVA_CELL
    assert (lava.sum(1) == 2).all() and set(np.argmin(lava, 1)) == {0, 1, 2}
