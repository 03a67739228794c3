"""The environment that an agent acts in."""

from __future__ import annotations

import abc
import math
from typing import Any, ClassVar, NamedTuple

import gymnasium
from jaxtyping import Array, Int, Key, PyTree

from forage.core.ports.part import Part, State
from forage.core.ranges import Ranges
from forage.core.types import ForageError, Step


class Environment(Part):
    """An environment: pure functions of a state that is a value, so returning to a state is copying it."""

    ranges: ClassVar[Ranges] = {}
    """The numbers that its fields may hold, by name; others are refused wherever a field is set."""

    reward_names: ClassVar[tuple[str, ...]] = ()
    """The names of the entries of a vector reward; empty for a scalar reward."""

    frames_per_second: ClassVar[float | None] = None
    """The steps per second that a film shows; `None` if the environment does not declare it."""

    @property
    @abc.abstractmethod
    def observation_space(self) -> gymnasium.Space[Any]: ...

    @property
    @abc.abstractmethod
    def action_space(self) -> gymnasium.Space[Any]: ...

    horizon: ClassVar[int | None] = None
    """The largest number of steps of an episode; `None` without a limit."""

    reward_range: ClassVar[tuple[float, float] | None] = None
    """The bounds of a step's reward, if both are certain; an infinite bound means no limit."""

    @property
    def return_range(self) -> tuple[float, float] | None:
        """Return the bounds of an episode's return, if both are certain; an infinite bound means no limit.

        Unless an environment says more, they follow from `reward_range` and `horizon`.
        """
        return None if self.reward_range is None else range_of_returns(self.reward_range, self.horizon)

    num_agents: ClassVar[int] = 1
    """The number of agents that act at once. Above 1, observations, actions and rewards have a leading
    axis `agent` (see `Step`).
    """

    info_names: ClassVar[tuple[str, ...]] = ()
    """The names of the entries of `Step.info` that are one number each, such as `success` or a cost.

    A run reports the mean of each over its episodes' last steps, and rewards and agents find them in
    `Experience.info`.
    """

    competitive: ClassVar[bool] = False
    """Whether its agents play against one another, so that a score is that of one agent against an
    `Opponent`.
    """

    @abc.abstractmethod
    def reset(self, key: Key[Array, ""]) -> tuple[State, PyTree[Array]]:
        """Return `(state, observation)` at the start of an episode."""

    @abc.abstractmethod
    def step(self, state: State, action: PyTree[Array], key: Key[Array, ""]) -> tuple[State, Step]:
        """Return the next state, and the observation, reward and end of the step. Never resets."""

    map_shape: ClassVar[tuple[int, ...] | None] = None
    """The shape of the environment's map; `None` if states have no position on a map."""

    def map_position(self, state: State) -> Int[Array, ""]:
        """Return the position of a state on that map, as the number of its cell in row-major order."""
        raise ForageError(f"{type(self).__name__} has no map to say where its states are.")

    def reachable(self) -> Any:
        """Return the mask of the reachable cells of the map, `bool[places]` in NumPy; `None` if it is unknown."""
        return None

    def stored_observation(self, observation: PyTree[Array]) -> PyTree[Array]:
        """Return the part of an observation that a start stores with the state: all of it, unless the state can
        restore some.
        """
        return observation

    def render(self, state: State) -> Any:
        """Draw one state: `uint8` array of shape (height, width, 3). On the host, in NumPy."""
        raise NotImplementedError


def range_of_returns(rewards: tuple[float, float], horizon: int | None) -> tuple[float, float]:
    """Compute the bounds of the return of an episode of 1 to `horizon` steps from the bounds of a reward."""
    low, high = rewards
    longest = math.inf if horizon is None else horizon
    return low if low >= 0 else low * longest, high if high <= 0 else high * longest


def return_range_within(environment: Environment, limit: int) -> tuple[float, float] | None:
    """Return the bounds of the return of an episode that is cut after `limit` steps; `None` if they are not certain."""
    whole = environment.return_range
    if environment.reward_range is None:
        return whole
    low, high = range_of_returns(environment.reward_range, limit)
    return (low, high) if whole is None else (max(whole[0], low), min(whole[1], high))


class World(NamedTuple):
    """The environment that an agent acts in, with its task, and the state it is in."""

    environment: Environment
    state: State
