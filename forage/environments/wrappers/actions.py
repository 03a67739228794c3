"""Wrappers between an agent's choice and the executed action: sticky actions, delays and other bounds."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core import arrays, spaces
from forage.core.plain import dumps
from forage.core.types import ForageError, Step
from forage.environments.wrappers.base import (
    Wrapper,
    WrapperState,
    check_least,
    check_share,
    environment_name,
    restore_spaces,
    select_tree,
    zero_action,
)


class StickyActions(Wrapper):
    """With probability `stickiness` the action before is taken again in place of the chosen one.

    The first action of an episode is always the chosen one.

    Source: Machado, Bellemare, Talvitie, Veness, Hausknecht, Bowling (2018), "Revisiting the Arcade Learning
    Environment", arXiv 1709.06009, section 5.2.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --wrap sticky-actions:0.25"

    stickiness: float = 0.25  # probability that the last action is repeated, in each step

    remembers = True

    def __check_init__(self):
        check_share(self, "stickiness", self.stickiness)

    def reset(self, key: Key[Array, ""]) -> tuple[WrapperState, PyTree[Array]]:
        inner, observation = self.environment.reset(key)
        return WrapperState(inner, (zero_action(self), jnp.zeros((), bool))), observation

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[WrapperState, Step]:
        last, moved = state.own
        sticks = moved & (jax.random.uniform(self.own_key(key)) < self.stickiness)
        action = like(select_tree(sticks, last, action), last)
        inner, step = self.environment.step(state.inner, action, key)
        return WrapperState(inner, (action, jnp.ones((), bool))), step


class Delay(Wrapper):
    """Actions take effect `action_delay` steps late, and observations are seen `observation_delay` steps late.

    In step t the environment takes the action a_(t - action_delay), which is zero (or what the bounds have nearest to
    it) until the first one arrives, and shows o_(t - observation_delay), the first one until there is another. Reward
    and the end of an episode come at once, and so does what is no observation: which actions are allowed, and who is
    there to act. `most` is how much is kept: both delays may be contexts, drawn from 0 to
    `most`; a larger one counts as `most`.

    Source: Katsikopoulos, Engelbrecht (2003), "Markov decision processes with delays and asynchronous cost
    collection", IEEE Transactions on Automatic Control 48(4).
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --wrap delay:action-delay=2"

    action_delay: int = 0  # steps until an action takes effect
    observation_delay: int = 0  # steps until an observation is seen
    most: int | None = equinox.field(static=True, default=None)  # longest delay there is room for; the larger of the
    # two where it is not given

    remembers = True

    def __post_init__(self):
        super().__post_init__()
        if self.most is None:
            delays = (self.action_delay, self.observation_delay)
            if not all(isinstance(steps, int) for steps in delays):
                raise ForageError("A delay that is not known yet needs most=N, the longest that it can be.")
            self.most = max(delays)

    def __check_init__(self):
        for name in ("action_delay", "observation_delay"):
            value = getattr(self, name)
            check_least(self, name, value, 0)
            if isinstance(value, int) and self.most is not None and value > self.most:
                raise ForageError(f"Delay keeps {self.most} steps, and {name} is {value}; most={value} keeps enough.")

    def reset(self, key: Key[Array, ""]) -> tuple[WrapperState, PyTree[Array]]:
        inner, observation = self.environment.reset(key)
        length = int(self.most or 0) + 1
        first = (zero_action(self), late(observation))
        queues = jax.tree.map(lambda x: jnp.broadcast_to(x, (length, *jnp.shape(x))), first)
        return WrapperState(inner, queues), observation

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[WrapperState, Step]:
        actions, observations = state.own
        actions = push(actions, action)
        inner, step = self.environment.step(state.inner, queue_entry(actions, self.action_delay), key)
        observations = push(observations, late(step.observation))
        shown = in_time(step.observation, queue_entry(observations, self.observation_delay))
        return WrapperState(inner, (actions, observations)), step._replace(observation=shown)


class FlatActions(Wrapper):
    """An environment whose actions are nested, or other choices than agents know, for agents: they act in one array.

    Dicts, Tuples, MultiBinary, boxes of whole numbers, and choices that do not count from 0, as `forage.core.arrays`
    has them. A run puts it around native environments that need it.
    """

    flat: str = equinox.field(static=True, init=False, repr=False)  # the spaces with the agents' actions, as JSON

    def __post_init__(self):
        inner = self.environment.action_space
        seen = spaces.to_json(self.environment.observation_space)
        acted = arrays.action_space(type(self.environment).__name__, inner)
        self.inside, self.flat = dumps([seen, spaces.actions_to_json(inner)]), dumps([seen, spaces.to_json(acted)])

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return restore_spaces(self.flat)[1]

    def step(self, state: PyTree[Array], action: PyTree[Array], key: Key[Array, ""]) -> tuple[PyTree[Array], Step]:
        inner = self.inner_spaces[1]
        if isinstance(inner, gymnasium.spaces.Discrete):
            return self.environment.step(state, action + int(inner.start), key)
        nest = arrays.ActionNesting(self.action_space, inner)
        rows = action.reshape(*action.shape[: self.num_agents > 1], -1)
        return self.environment.step(state, nest(rows), key)


class RescaleAction(Wrapper):
    """Actions from `low` to `high` in place of the environment's own bounds, by a straight line."""

    example: ClassVar[str] = "forage train sac Pendulum-v1 --wrap rescale-action:-1:1"

    low: float = equinox.field(static=True, default=-1.0)  # what stands for the environment's lower bounds
    high: float = equinox.field(static=True, default=1.0)  # what stands for its upper bounds

    def __check_init__(self):
        if not spaces.is_bounded_box(self.environment.action_space):
            raise ForageError(
                f"RescaleAction needs continuous actions with bounds; {environment_name(self.environment)} has "
                f"{spaces.describe_space(self.environment.action_space)}. Pendulum's, for one, would work."
            )
        if not self.low < self.high:
            raise ForageError(f"RescaleAction needs low < high; got {self.low} and {self.high}.")

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(self.low, self.high, self.environment.action_space.shape, dtype=np.float32)

    def step(
        self, state: PyTree[Array], action: Float[Array, "*shape"], key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Step]:
        space: Any = self.inner_spaces[1]
        share = (action - self.low) / (self.high - self.low)
        return self.environment.step(state, space.low + share * (space.high - space.low), key)


def late(observation: PyTree[Array]) -> PyTree[Array]:
    """Return the part of an observation that a delay holds back: the agent's and a central critic's view."""
    if isinstance(observation, dict) and spaces.carries_more(observation):
        return {name: part for name, part in observation.items() if name not in (spaces.MASK, spaces.PRESENT)}
    return observation


def in_time(observation: PyTree[Array], seen: PyTree[Array]) -> PyTree[Array]:
    """Return the current observation with its delayed part in place."""
    return {**observation, **seen} if isinstance(observation, dict) else seen


def push(queue: PyTree[Array], newest: PyTree[Array]) -> PyTree[Array]:
    """Return the queue with one more in front, and the oldest gone."""
    return jax.tree.map(lambda q, x: jnp.concatenate([jnp.asarray(x, q.dtype)[None], q[:-1]]), queue, newest)


def queue_entry(queue: PyTree[Array], steps: Int[Array, ""] | int) -> PyTree[Array]:
    """Return the entry that was pushed `steps` steps ago."""
    return jax.tree.map(lambda q: q[jnp.clip(steps, 0, len(q) - 1)], queue)


def like(action: PyTree[Array], example: PyTree[Array]) -> PyTree[Array]:
    """Return the action in the types that a state keeps."""
    return jax.tree.map(lambda x, y: jnp.asarray(x, y.dtype), action, example)
