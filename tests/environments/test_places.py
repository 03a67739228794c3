"""Maps: the positions of states, for environments that have them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import at_once

from forage import environments
from forage.core.types import ForageError
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers.time import TimeLimit

pytestmark = pytest.mark.thorough

KEY = jax.random.key(0)


def make(name: str) -> Any:
    return environments.make(name)


KNOWN = (
    "grid:Empty-5x5",
    "grid:KeyCorridor-S3R3",
    "grid:MultiRoom-N4-S5",
    "grid:ObstructedMaze-1Dlh",
    "maze:UMaze",
    "DeepSea-4",
    "tabular:FrozenLake-4",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
)


@pytest.mark.parametrize("name", KNOWN)
def test_a_place_is_a_cell_of_the_map(name):
    environment = make(name)
    cells = int(np.prod(environment.map_shape))

    @jax.jit
    def walk(key):
        def step(state, key):
            action_key, step_key = jax.random.split(key)
            space = environment.action_space
            action = jax.random.randint(action_key, (), 0, int(getattr(space, "n", 1)))
            action = action if hasattr(space, "n") else jax.random.uniform(action_key, space.shape, minval=-1)
            state, _ = environment.step(state, action, step_key)
            return state, environment.map_position(state)

        return jax.lax.scan(step, environment.reset(key)[0], jax.random.split(key, 60))[1]

    places = np.asarray(walk(KEY))
    assert places.dtype == np.int32 and places.min() >= 0 and places.max() < cells
    assert len(np.unique(places)) > 1


def test_places_by_hand():
    grid = make("grid:Empty-5x5")
    state, _ = at_once(lambda: grid.reset(KEY))  # begins in the corner
    assert grid.map_shape == (5, 5) and grid.map_position(state) == 6
    assert grid.map_position(state._replace(x=jnp.int32(3), y=jnp.int32(2))) == 13
    sea = make("DeepSea-4")
    state, _ = at_once(lambda: sea.reset(KEY))
    assert [int(sea.map_position(state._replace(time=jnp.int32(t), column=jnp.int32(2)))) for t in (0, 2, 4)] == [
        2,
        10,
        14,
    ]
    car = make("MountainCar-v0")
    state, _ = at_once(lambda: car.reset(KEY))
    corners = [(-1.2, -0.07), (-1.2, 0.07), (0.6, -0.07), (0.6, 0.07), (-0.3, 0.001)]
    places = [int(car.map_position(state._replace(variables=jnp.array(corner)))) for corner in corners]
    assert places == [0, 19, 380, 399, 210]  # the middle is the first of the upper half
    maze = make("maze:UMaze")  # 5 x 5 cells of 1 m, y upward, from the middle
    state, _ = at_once(lambda: maze.reset(KEY))
    inner = [state.inner._replace(position=jnp.array(at)) for at in ((-1.0, 1.0), (1.0, 1.4), (1.0, -1.0))]
    assert [int(maze.map_position(state._replace(inner=each))) for each in inner] == [6, 8, 18]
    lake = make("tabular:FrozenLake-4")
    assert lake.map_shape == (16,) and lake.map_position(at_once(lambda: lake.reset(KEY))[0]) == 0


def test_wrappers_hand_the_map_on_and_others_say_there_is_none():
    wrapped = TimeLimit(make("grid:Empty-5x5"), 9)
    assert wrapped.map_shape == (5, 5) and wrapped.map_position(at_once(lambda: wrapped.reset(KEY))[0]) == 6
    assert CartPole().map_shape is None
    with pytest.raises(ForageError, match="CartPole has no map"):
        CartPole().map_position(CartPole().reset(KEY)[0])
