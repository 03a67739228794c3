"""Well-known tabular MDPs: river swim, chain, random Garnets, and grids drawn in letters."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from forage.core.types import ForageError
from forage.environments.limits import check_number
from forage.environments.tabular.mdp import Tabular

LEFT, DOWN, RIGHT, UP = range(4)
GRID_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Row and column of left, down, right, up: the order of Gymnasium's FrozenLake."""

FROZEN_LAKE_4 = ("S...", ".H.H", "...H", "H..G")
FROZEN_LAKE_8 = ("S.......", "........", "...H....", ".....H..", "...H....", ".HH...H.", ".H..H.H.", "...H...G")
"""The maps of Gymnasium's FrozenLake-v1."""
DYNA_MAZE = (".......#G", "..#....#.", "S.#....#.", "..#......", ".....#...", ".........")
"""Sutton and Barto's maze of figure 8.2; 14 steps lead to the goal."""


def river_swim(size: int = 6, small: float = 5e-4, large: float = 1.0, max_steps: int | None = 100) -> Tabular:
    """Make a river: left (0) always succeeds, with reward `small` at the left end; right (1) is against the current.

    Right moves on with probability 0.3, stays with 0.6 and falls back with 0.1. At the right end it stays with 0.3,
    with reward `large`, and falls back with 0.7; at the left end it moves on with 0.3 and stays with 0.7. Episodes
    start in state 1 or 2.

    Source: Strehl and Littman (2008), "An analysis of model-based Interval Estimation for Markov Decision Processes",
    with 6 states and rewards of 5 and 10000; here they are divided by 10000.
    """
    check_number("river_swim", "size", size, 3, whole=True)
    transition, reward = np.zeros((size, 2, size)), np.zeros((size, 2, size))
    for state in range(size):
        transition[state, 0, max(state - 1, 0)] = 1.0
        stay, on, back = (0.7, 0.3, 0.0) if state == 0 else (0.3, 0.0, 0.7) if state == size - 1 else (0.6, 0.3, 0.1)
        transition[state, 1, state] += stay
        transition[state, 1, min(state + 1, size - 1)] += on
        transition[state, 1, max(state - 1, 0)] += back
    reward[0, 0, 0], reward[-1, 1, -1] = small, large
    initial = np.isin(np.arange(size), (1, 2)) / 2
    return Tabular(transition, reward, initial, np.zeros(size, bool), max_steps, _line(size))


def chain(size: int = 5, slip: float = 0.2, max_steps: int | None = 100) -> Tabular:
    """Make a chain: forward (0) has reward 10 at the last state and stays there; back (1) has reward 2 and starts over.

    With probability `slip` the other of the two happens. With 5 states and slip 0.2, always choosing forward is optimal
    in the long run, with an average reward of 3.677.

    Source: Strens (2000), "A Bayesian Framework for Reinforcement Learning".
    """
    check_number("chain", "size", size, 2, whole=True)
    _share("chain", "slip", slip)
    transition, reward = np.zeros((size, 2, size)), np.zeros((size, 2, size))
    for state in range(size):
        on = min(state + 1, size - 1)
        transition[state, 0, on] += 1 - slip
        transition[state, 0, 0] += slip
        transition[state, 1, on] += slip
        transition[state, 1, 0] += 1 - slip
    reward[:, :, 0] = 2.0
    reward[-1, :, -1] = 10.0
    return Tabular(transition, reward, np.eye(size)[0], np.zeros(size, bool), max_steps, _line(size))


def garnet(
    key: Key[Array, ""], states: int = 20, actions: int = 4, branching: int = 3, max_steps: int | None = 100
) -> Tabular:
    """Draw a random MDP: from each state each action leads to `branching` states, with random probabilities.

    The states that follow are drawn without replacement, their probabilities by cutting the unit interval at
    `branching - 1` uniform points, and each `reward[s, a]` is uniform in [0, 1). It begins anywhere, never ends, and
    can be made under `vmap`: `jax.vmap(garnet)(keys)` is a batch of them.

    Source: Archibald, McKinnon and Thomas (1995), "On the generation of Markov decision processes".
    """
    for name, value in (("states", states), ("actions", actions), ("branching", branching)):
        check_number("garnet", name, value, 1, whole=True)
    if branching > states:
        raise ForageError(f"garnet cannot branch to {branching} of {states} states; branching up to {states} works.")
    next_key, cut_key, reward_key = jax.random.split(key, 3)
    # The places of the largest of so many random numbers are a draw without replacement.
    following = jax.lax.top_k(jax.random.uniform(next_key, (states, actions, states)), branching)[1]
    cuts = jnp.sort(jax.random.uniform(cut_key, (states, actions, branching - 1)))
    ends = jnp.concatenate([jnp.zeros((states, actions, 1)), cuts, jnp.ones((states, actions, 1))], axis=-1)
    transition = (jax.nn.one_hot(following, states) * jnp.diff(ends)[..., None]).sum(-2)
    reward = jax.random.uniform(reward_key, (states, actions))
    return Tabular(transition, reward, jnp.full(states, 1 / states), jnp.zeros(states, bool), max_steps)


def seeded_garnet(
    seed: int = 0, states: int = 20, actions: int = 4, branching: int = 3, max_steps: int = 100
) -> Tabular:
    """`garnet` by the number of its seed."""
    check_number("garnet", "seed", seed, 0, whole=True)
    return garnet(jax.random.key(seed), states, actions, branching, max_steps)


def grid_world(
    rows: Sequence[str],
    slip: float = 0.0,
    step_reward: float = 0.0,
    goal_reward: float = 1.0,
    hole_reward: float = 0.0,
    max_steps: int | None = 100,
) -> Tabular:
    """Make a grid drawn in letters: `S` start (any of them), `.` free, `#` wall, `G` goal, `H` hole; goal and hole end
    it.

    The states are the cells that are no walls, row by row. Actions are 0 left, 1 down, 2 right, 3 up; with probability
    `slip` the move is sideways, to either side alike; a move into a wall or off the grid stays. Every step pays
    `step_reward`, and entering a goal or hole pays its own reward besides.

    `grid_world(FROZEN_LAKE_4, slip=2/3)` is Gymnasium's FrozenLake-v1.
    """
    rows = (rows,) if isinstance(rows, str) else tuple(rows)
    _share("grid_world", "slip", slip)
    if not rows or len({len(row) for row in rows}) != 1:
        raise ForageError("A grid needs rows of one length, such as ('S..', '.#.', '..G').")
    strange = set("".join(rows)) - set("S.#GH")
    if strange:
        raise ForageError(f"A grid has no letter {sorted(strange)[0]!r}; there are S, ., #, G and H.")
    if "S" not in "".join(rows):
        raise ForageError("A grid needs a start, S, such as in ('S..', '.#.', '..G').")
    cells = [(r, c) for r, row in enumerate(rows) for c, letter in enumerate(row) if letter != "#"]
    number = {cell: index for index, cell in enumerate(cells)}
    letters = np.array([rows[r][c] for r, c in cells])

    count = len(cells)
    transition = np.zeros((count, 4, count))
    for index, (r, c) in enumerate(cells):
        for action in range(4):
            for turn, share in ((0, 1 - slip), (1, slip / 2), (3, slip / 2)):
                move = GRID_MOVES[(action + turn) % 4]
                transition[index, action, number.get((r + move[0], c + move[1]), index)] += share
    entering = step_reward + goal_reward * (letters == "G") + hole_reward * (letters == "H")
    reward = np.broadcast_to(entering, transition.shape)
    starts = letters == "S"
    positions = tuple((float(c), float(-r)) for r, c in cells)
    return Tabular(transition, reward, starts / starts.sum(), np.isin(letters, ("G", "H")), max_steps, positions)


def frozen_lake(size: int = 4, slip: float = 2 / 3, max_steps: int = 100) -> Tabular:
    """Gymnasium's FrozenLake-v1 on its map of 4 x 4 or 8 x 8; `slip=0` is `is_slippery=False`."""
    maps = {4: FROZEN_LAKE_4, 8: FROZEN_LAKE_8}
    if size not in maps:
        raise ForageError(f"FrozenLake has no map of size {size}; there are 4 and 8, and grid_world draws others.")
    return grid_world(maps[size], slip, max_steps=max_steps)


def dyna_maze(max_steps: int | None = 1000) -> Tabular:
    """Make the maze of 6 x 9 cells that shows the use of planning: a goal with reward 1, 14 deterministic steps away.

    Source: Sutton and Barto, 2018, "Reinforcement Learning: An Introduction", example 8.1; there nothing limits the
    steps.
    """
    return grid_world(DYNA_MAZE, max_steps=max_steps)


def russell_norvig(slip: float = 0.2, step_reward: float = -0.04, max_steps: int = 100) -> Tabular:
    """Make the world of 3 x 4 cells with a goal of 1 above a pit of -1, and a price of 0.04 a step.

    Source: Russell and Norvig, "Artificial Intelligence: A Modern Approach", the chapter on complex decisions.
    """
    return grid_world(("...G", ".#.H", "S..."), slip, step_reward, 1.0, -1.0, max_steps)


def _line(size: int) -> tuple[tuple[float, float], ...]:
    return tuple((float(index), 0.0) for index in range(size))


def _share(maker: str, name: str, value: float) -> None:
    check_number(maker, name, value, 0, whole=False)
    if value > 1:
        raise ForageError(f"{maker} cannot have {name} {value}; it is a probability, from 0 to 1.")
