"""The core of the grid worlds: levels, states, actions, rewards and observations, MiniGrid's step for step.

Chevalier-Boisvert et al. (2023), "Minigrid & Miniworld: Modular & Customizable Reinforcement Learning Environments for
Goal-Oriented Tasks", arXiv 2306.13831.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import ForageError, Step
from forage.environments.grid import missions, view
from forage.environments.grid.cells import (
    CARRIED,
    DOOR,
    EMPTY,
    ENTERED,
    GOAL,
    KEY,
    LAVA,
    LOCKED_DOOR,
    TOGGLED,
    WALL_CELL,
    encode_cells,
    look_up,
)

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
"""The actions: turn left, turn right, move forward, pick up, drop, toggle (doors and boxes), done."""

MOST = 10
"""The largest number in an image: the agent's own code."""

VIEWS = ("image", "full", "direction", "mission")
"""The names that `observe` may contain."""

Number = Int[Array, ""]
Cell = UInt8[Array, ""]


class Level(NamedTuple):
    """The beginning of an episode. Arrays only, so a batch of levels is one `vmap` and a list of them one stack.

    `grid` holds a byte for each cell (see `cells.py`), the contents of boxes among them. `target` and `places` (cells
    numbered `y * width + x`) are what a family's rules ask for; where they ask for nothing, 0 and no places.
    """

    grid: UInt8[Array, "height width"]
    x: Number  # of the agent
    y: Number
    direction: Number  # 0 right, 1 down, 2 left, 3 up
    target: Cell
    places: Int[Array, " places"]


class GridState(NamedTuple):
    grid: UInt8[Array, "height width"]
    x: Number
    y: Number
    direction: Number
    carrying: Cell  # what is carried; `EMPTY` for nothing
    target: Cell
    places: Int[Array, " places"]
    time: Number  # steps taken


class Aim(NamedTuple):
    """The condition of success: to face a place, `(x, y)`, and act there. Any place will do; doors go one by one."""

    action: int
    places: tuple[tuple[int, int], ...]
    wants: str = "a goal"  # in words
    avoid: tuple[tuple[int, int], ...] = ()  # cells that must not be entered or opened
    absent: tuple[int, ...] = ()  # cells that come and go


class GridWorld(Environment):
    """A grid of walls, doors, keys, balls, boxes, lava and goals, and an agent that sees the 7 x 7 cells before it.

    Equal to the `minigrid` package step for step from the same state; levels are drawn by the same rules, from other
    random numbers.

    - Observation, as `observe` names it: `"image"` is the view `uint8[7, 7, 3]`, each cell its object, colour and
      state, zeros where walls or closed doors hide it (unless `see_through_walls`); `"full"` the whole grid
      `uint8[width, height, 3]`, the agent in it; `"direction"` 0 to 3 for right, down, left, up; `"mission"` its
      tokens `int32[16]` (see `missions.py`). One name gives that alone, several a dictionary.
    - Action: 0 turn left, 1 turn right, 2 forward, 3 pick up, 4 drop, 5 toggle, 6 done.
    - Reward: `1 - 0.9 * steps / max_steps` for success, otherwise 0.
    - Terminated: on success, in lava, and where a family says so. Truncated: after `max_steps` steps.

    With `level` set, every episode begins there; otherwise `generate` draws one. `level` is a traced field like any
    other, so copies of the environment with levels of their own are one batch.
    """

    frames_per_second: ClassVar[float] = 10.0
    ranges: ClassVar[Ranges] = {"max_steps": Range(1)}

    max_steps: int | None = equinox.field(default=None, kw_only=True)  # None: as many as the package allows
    level: Level | None = equinox.field(default=None, kw_only=True)
    observe: tuple[str, ...] = equinox.field(default=("image",), static=True, converter=tuple, kw_only=True)
    see_through_walls: bool = equinox.field(default=False, static=True, kw_only=True)

    mission: ClassVar[str]
    """The task in words; `{colour}` stands for the target's colour."""

    num_places: ClassVar[int] = 0
    """The number of cells that a level of this family names in `places`."""

    def __post_init__(self) -> None:
        if self.max_steps is None:
            self.max_steps = self.usual_max_steps
        if isinstance(self.max_steps, int) and self.max_steps < 1:
            raise ForageError(f"max_steps is {self.max_steps}; give at least 1.")
        wrong = [name for name in self.observe if name not in VIEWS]
        if wrong or not self.observe or len(set(self.observe)) < len(self.observe):
            what = repr(wrong[0]) if wrong else "nothing" if not self.observe else "the same thing twice"
            raise ForageError(f"observe cannot name {what}; it takes one or more of {', '.join(VIEWS)}, each once.")
        if self.level is not None:
            self.check_shape(self.level)

    def check_shape(self, level: Level) -> None:
        """Raise `ForageError` for a level with arrays of shapes that do not fit this environment."""
        places = (self.num_places,)
        if np.shape(level.grid) != (self.height, self.width) or np.shape(level.places) != places:
            raise ForageError(
                f"The level has a grid of shape {np.shape(level.grid)} and places of shape {np.shape(level.places)}; "
                f"{type(self).__name__} needs {(self.height, self.width)} and {places}."
            )

    @property
    @abc.abstractmethod
    def height(self) -> int: ...

    @property
    @abc.abstractmethod
    def width(self) -> int: ...

    @property
    @abc.abstractmethod
    def usual_max_steps(self) -> int:
        """Return the package's limit of this family."""

    @abc.abstractmethod
    def generate(self, key: Key[Array, ""]) -> Level:
        """Draw a level."""

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        box = gymnasium.spaces.Box
        shapes = {"image": (view.VIEW, view.VIEW, 3), "full": (self.width, self.height, 3)}
        every: dict[str, gymnasium.Space[Any]] = {name: box(0, MOST, shape, np.uint8) for name, shape in shapes.items()}
        every["direction"] = gymnasium.spaces.Discrete(4)
        every["mission"] = Tokens(missions.LENGTH, len(missions.VOCABULARY))
        if len(self.observe) == 1:
            return every[self.observe[0]]
        return gymnasium.spaces.Dict({name: every[name] for name in self.observe})

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(7)

    @property
    def return_range(self) -> tuple[float, float]:
        """Return the range of an episode's only reward, the one for success."""
        return 0.0, 1.0

    @property
    def horizon(self) -> int | None:
        return self.max_steps

    @property
    def map_shape(self) -> tuple[int, int]:
        return self.height, self.width

    def map_position(self, state: GridState) -> Number:
        """Return the cell that the agent stands on."""
        return state.y * self.width + state.x

    def reachable(self) -> np.ndarray:
        """Return all cells but walls: the level's walls, or only the outer wall if levels are drawn."""
        if self.level is not None and np.ndim(self.level.grid) == 2:
            return np.asarray(self.level.grid) != WALL_CELL
        inside = np.zeros((self.height, self.width), bool)
        inside[1:-1, 1:-1] = True
        return inside

    def reset(self, key: Key[Array, ""]) -> tuple[GridState, PyTree[Array]]:
        state = initial_state(self.generate(key) if self.level is None else self.level)
        return state, self.observation(state)

    def step(self, state: GridState, action: Number, key: Key[Array, ""]) -> tuple[GridState, Step]:
        return self.advance(state, action, self.draw(key))

    def draw(self, key: Key[Array, ""]) -> Any:
        """Return the random numbers of one step; empty for deterministic steps."""
        return ()

    def advance(self, state: GridState, action: Number, draws: Any = ()) -> tuple[GridState, Step]:
        """Take one step with given random numbers."""
        after, cell = act(state, action)
        success, over = self.judge(state, after, action, cell)
        return after, self.outcome(after, success, over)

    def judge(
        self, before: GridState, after: GridState, action: Number, cell: Cell
    ) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        """Return whether the step succeeded, and whether the task is over. `cell` is the cell that was in front."""
        success = (action == FORWARD) & (cell & 0x8F == GOAL)
        return success, success | ((action == FORWARD) & (cell & 0x8F == LAVA))

    def outcome(self, state: GridState, success: Bool[Array, ""], over: Bool[Array, ""]) -> Step:
        """Return the `Step` of a transition into `state`."""
        reward = jnp.where(success, self.worth(state.time), jnp.float32(0))
        truncated = (state.time >= jnp.asarray(self.max_steps)) & ~over
        return Step(self.observation(state), reward, over, truncated, {})

    def worth(self, time: Number) -> Float[Array, ""]:
        """Return the reward for success after `time` steps."""
        return 1 - 0.9 * (time / jnp.asarray(self.max_steps, jnp.float32))

    def observation(self, state: GridState) -> PyTree[Array]:
        """Return the parts of the observation named by `observe`."""
        seen = {name: getattr(self, f"_{name}")(state) for name in self.observe}
        return seen if len(seen) > 1 else seen[self.observe[0]]

    def _image(self, state: GridState) -> UInt8[Array, "7 7 3"]:
        place = state.x, state.y, state.direction
        return encode_cells(view.visible_cells(state.grid, *place, state.carrying, self.see_through_walls))

    def _full(self, state: GridState) -> UInt8[Array, "width height 3"]:
        return view.full_view(state.grid, state.x, state.y, state.direction)

    def _direction(self, state: GridState) -> Number:
        return state.direction

    def _mission(self, state: GridState) -> Int[Array, " length"]:
        return missions.fill_colour(self.mission, state.target >> 4 & 7)

    def aim(self, state: GridState) -> Aim:
        """Return the conditions of success from a state, for `solve`. On the host."""
        return Aim(FORWARD, places_of(state.grid, GOAL))

    def text(self, state: GridState) -> str:
        """Return the mission of a state, in words: MiniGrid's own string."""
        return missions.mission_text(np.asarray(self._mission(state)))

    def render(self, state: GridState) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the grid, lighter in the agent's view, with the carried object in the agent's hand."""
        from forage.environments.grid.picture import draw_grid

        return draw_grid(state, self.see_through_walls)


def initial_state(level: Level) -> GridState:
    """Return the state at the start of a level."""
    grid, x, y, direction, target, places = (jnp.asarray(leaf) for leaf in level)
    return GridState(grid, x, y, direction, jnp.uint8(EMPTY), target, places, jnp.int32(0))


def act(state: GridState, action: Number) -> tuple[GridState, Cell]:
    """Apply the effects of an action common to all families. Return the next state and the cell that was in front."""
    step_x, step_y = view.heading(state.direction)
    front = (state.y + step_y) * state.grid.shape[1] + state.x + step_x
    cell = state.grid.reshape(-1).at[front].get(mode="clip")

    moves = (action == FORWARD) & look_up(ENTERED, cell)
    turn = jnp.where(action == LEFT, 3, jnp.where(action == RIGHT, 1, 0))

    nothing = state.carrying == EMPTY
    picks_up = (action == PICKUP) & nothing & look_up(CARRIED, cell)
    drops = (action == DROP) & ~nothing & (cell == EMPTY)
    fits = (cell & 0x8F == LOCKED_DOOR) & (state.carrying == (cell & 0x70 | KEY))
    toggled = jnp.where(fits, cell & 0x70 | DOOR, look_up(TOGGLED, cell))
    new = jnp.where(action == TOGGLE, toggled, cell)
    new = jnp.where(picks_up, jnp.uint8(EMPTY), jnp.where(drops, state.carrying, new))

    cells = jnp.arange(state.grid.size, dtype=jnp.int32).reshape(state.grid.shape)
    after = state._replace(
        grid=jnp.where(cells == front, new, state.grid),
        x=jnp.where(moves, state.x + step_x, state.x),
        y=jnp.where(moves, state.y + step_y, state.y),
        direction=(state.direction + turn) & 3,
        carrying=jnp.where(picks_up, cell, jnp.where(drops, jnp.uint8(EMPTY), state.carrying)),
        time=state.time + 1,
    )
    return after, cell


def places_of(grid: UInt8[Array, "height width"], kind: int) -> tuple[tuple[int, int], ...]:
    """Return the `(x, y)` of every cell of a kind. On the host."""
    rows, columns = np.nonzero((np.asarray(grid) & 0x8F) == kind)
    return tuple((int(x), int(y)) for x, y in zip(columns, rows, strict=True))


def named_places(state: GridState) -> tuple[tuple[int, int], ...]:
    """Return the `(x, y)` of the places that a state names. On the host."""
    width = state.grid.shape[1]
    return tuple((int(place) % width, int(place) // width) for place in np.asarray(state.places))


def is_open(grid: UInt8[Array, "height width"], place: Number) -> Bool[Array, ""]:
    """Return whether an open door is at a place."""
    return grid.reshape(-1).at[place].get(mode="clip") & 0x8F == DOOR
