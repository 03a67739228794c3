"""States on the ways through grid worlds that the grid's own search finds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from forage.core import prng
from forage.core.ports import Environment
from forage.core.types import ForageError
from forage.environments.grid.core import GridWorld
from forage.environments.grid.solve import solve
from forage.environments.wrappers.base import Wrapper
from forage_papers.starts.cell_archive import flatten_rows
from forage_papers.starts.snapshot import Snapshot, Snapshots, play_teacher


def solution_states(environment: Environment, starts: Snapshot) -> Snapshots:
    """States on the ways that the grid's own search finds through as many levels as the teacher plays episodes."""
    if not isinstance(environment, GridWorld):
        name = type(environment.environment if isinstance(environment, Wrapper) else environment).__name__
        raise ForageError(
            f"There is a solver for grid worlds as they are, such as grid:MultiRoom-N4-S5, and none for {name}; "
            f"a run's directory is a teacher anywhere."
        )
    keys = jax.random.split(prng.key(prng.SOLVED_LEVELS), starts.episodes)
    states, observations = jax.jit(jax.vmap(environment.reset))(keys)
    plans = [solve(environment, jax.tree.map(lambda x, i=i: np.asarray(x[i]), states)) for i in range(len(keys))]
    found = np.array([i for i, plan in enumerate(plans) if plan])
    if not len(found):
        raise ForageError(f"The solver found no way through {len(keys)} levels of {type(environment).__name__}.")
    steps = max(len(plan or ()) for plan in plans)
    actions = np.zeros((len(found), steps), np.int32)
    for row, i in enumerate(found):
        actions[row, : len(plans[i] or ())] = plans[i]

    @jax.jit
    def replay(start: tuple, actions: jax.Array, keys: jax.Array) -> Snapshots:
        def one(start: tuple, actions: jax.Array, key: jax.Array) -> Snapshots:
            def act(time, observation, key):
                return actions[time], time + 1

            return play_teacher(environment, start, act, jnp.int32(0), key, steps, starts.every, starts.discount)

        played = jax.vmap(one)(start, actions, keys)
        return flatten_rows(played)

    start = jax.tree.map(lambda x: x[found], (states, observations))
    return replay(start, jnp.asarray(actions), keys[found])
