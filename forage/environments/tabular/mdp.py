"""Tabular MDPs: environments given by arrays of probabilities and rewards, so that all about them can be worked out."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.spaces import OneHot
from forage.core.types import ForageError, Step
from forage.environments import drawing
from forage.environments.limits import check_at_least


def _floats(value: Any) -> Float[Array, "..."]:
    return jnp.asarray(value, jnp.float32)


def draw_state(probabilities: Float[Array, " state"], key: Key[Array, ""]) -> Int[Array, ""]:
    """Draw a state with these probabilities from one uniform number; never a state of probability zero."""
    sums = jnp.cumsum(probabilities)
    possible = probabilities > 0
    fits = possible & (sums > jax.random.uniform(key) * sums[-1])
    # Rounding may leave the last of them just below the number that was drawn.
    last = probabilities.shape[0] - 1 - jnp.argmax(possible[::-1])
    return jnp.where(fits.any(), jnp.argmax(fits), last).astype(jnp.int32)


class TabularState(NamedTuple):
    index: Int[Array, ""]  # which state of the MDP
    time: Int[Array, ""]  # steps taken


class Tabular(Environment):
    """An MDP with S states and A actions, as arrays.

    A step from s by a leads to s' with probability `transition[s, a, s']` and pays `reward[s, a]`, or
    `reward[s, a, s']` where the array has three axes. All arrays are traced: a batch of different MDPs is one `vmap`.

    - Observation: `float32[S]`, the state, one-hot.
    - Action: 0 to A - 1.
    - Terminated: on entering a state that is `terminal`; what its own rows say is never used.
    - Truncated: after `max_steps` steps; never when it is `None`.

    `values.py` has the exact values, occupancies and best policies; `makers.py` well-known MDPs.
    Raises `ForageError` for arrays that do not fit one another and for rows that are not probabilities.
    """

    frames_per_second: ClassVar[float] = 5.0
    ranges: ClassVar[Ranges] = {"max_steps": Range(1)}

    transition: Float[Array, "state action next"] = equinox.field(converter=_floats)
    reward: Float[Array, "state action *next"] = equinox.field(converter=_floats)
    initial: Float[Array, " state"] = equinox.field(converter=_floats)  # probabilities of the first state
    terminal: Bool[Array, " state"] = equinox.field(converter=lambda value: jnp.asarray(value, bool))
    max_steps: int | None = None
    positions: tuple[tuple[float, float], ...] = equinox.field(default=(), static=True)  # x and y of each, for pictures

    def __check_init__(self):
        if self.transition.ndim != 3 or self.transition.shape[0] != self.transition.shape[2]:
            raise ForageError(
                f"transition has shape {self.transition.shape}; it should be (states, actions, states), "
                f"such as (6, 2, 6)."
            )
        states, actions, _ = self.transition.shape
        fits = {"reward": [(states, actions), (states, actions, states)], "initial": [(states,)]}
        fits["terminal"] = [(states,)]
        for name, shapes in fits.items():
            found = getattr(self, name).shape
            if found not in shapes:
                wanted = " or ".join(map(str, shapes))
                raise ForageError(f"{name} has shape {found}; with {states} states it should be {wanted}.")
        if self.positions and len(self.positions) != states:
            raise ForageError(f"positions has {len(self.positions)} entries; there are {states} states.")
        check_at_least(self, max_steps=1)
        if not any(isinstance(leaf, Tracer) for leaf in (self.transition, self.initial, self.terminal)):
            self._check_probabilities()

    def _check_probabilities(self) -> None:
        transition, initial = np.asarray(self.transition), np.asarray(self.initial)
        for name, rows in (("transition", transition), ("initial", initial)):
            wrong = ~(rows >= 0).all(-1) | ~(np.abs(rows.sum(-1) - 1) <= 1e-4)
            if wrong.any():
                at = np.argwhere(wrong)[0].tolist()
                row = rows[tuple(at)]
                raise ForageError(
                    f"{name}{at or ''} is {row.tolist()}; probabilities are at least 0 and sum to 1, not {row.sum():g}."
                )
        ended = np.flatnonzero((initial > 0) & np.asarray(self.terminal))
        if len(ended):
            raise ForageError(f"An episode would begin in state {ended[0]}, which is terminal; begin in another one.")

    @property
    def num_states(self) -> int:
        return self.transition.shape[-3]

    @property
    def num_actions(self) -> int:
        return self.transition.shape[-2]

    @property
    def observation_space(self) -> OneHot:
        return OneHot(self.num_states)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(self.num_actions)

    @property
    def horizon(self) -> int | None:
        return self.max_steps

    @property
    def map_shape(self) -> tuple[int]:
        return (self.num_states,)

    def map_position(self, state: TabularState) -> Int[Array, ""]:
        """Return the number of the state."""
        return state.index

    def reachable(self) -> np.ndarray:
        """Return the states that can be reached from the start of an episode."""
        leads = np.asarray(self.transition > 0).any(-2) & ~np.asarray(self.terminal)[:, None]  # state following
        found = np.asarray(self.initial) > 0
        for _ in range(self.num_states):
            following = found | leads[found].any(0)
            if (following == found).all():
                break
            found = following
        return found

    def reset(self, key: Key[Array, ""]) -> tuple[TabularState, Float[Array, " state"]]:
        index = draw_state(self.initial, key)
        state = TabularState(index, jnp.zeros((), jnp.int32))
        return state, self._observe(state)

    def step(self, state: TabularState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[TabularState, Step]:
        following = draw_state(self.transition[state.index, action], key)
        reward = self.reward[state.index, action]
        if reward.ndim:
            reward = reward[following]
        new_state = TabularState(following, state.time + 1)
        terminated = self.terminal[following]
        over = jnp.zeros((), bool) if self.max_steps is None else new_state.time >= self.max_steps
        return new_state, Step(self._observe(new_state), reward, terminated, over & ~terminated, {})

    def _observe(self, state: TabularState) -> Float[Array, " state"]:
        return jax.nn.one_hot(state.index, self.num_states)

    def render(self, state: TabularState) -> UInt8[np.ndarray, "height width 3"]:
        count = self.num_states
        ring = [(math.sin(2 * math.pi * i / count), math.cos(2 * math.pi * i / count)) for i in range(count)]
        places = np.array(self.positions or ring)
        apart = np.linalg.norm(places[:, None] - places, axis=-1) + np.eye(count) * 1e9
        radius = 0.36 * min(apart.min(), 1.5)
        low, high = places.min(0) - np.array([1.6, 2.0]) * radius, places.max(0) + 1.6 * radius
        width, height = high - low
        scale = min(400 / width, 400 / height)
        canvas = drawing.Canvas(round(width * scale), round(height * scale), (low[0], low[1], high[0], high[1]))

        transition, terminal = np.asarray(self.transition), np.asarray(self.terminal)
        ways = transition.max(1) * ~terminal[:, None]
        for first, second in np.argwhere(ways > 0):
            if first != second:
                colour = drawing.mix(drawing.MIST, drawing.STONE, float(ways[first, second]))
                canvas.line([tuple(places[first]), tuple(places[second])], colour, 2)
        reward = np.asarray(self.reward)
        paid = np.where(transition > 0, reward if reward.ndim == 3 else reward[..., None], -np.inf).max(1)
        paid = np.where(terminal[:, None], -np.inf, paid).max(0)  # the most that is paid on the way into each state
        best = paid.max()
        for index, (x, y) in enumerate(places):
            colour = drawing.SKY
            if terminal[index]:
                colour = drawing.INK
            if paid[index] == best > 0:
                colour = drawing.GOLD
            canvas.circle((x, y), radius, colour)
            if index == int(state.index):
                canvas.circle((x, y), 0.66 * radius, drawing.ORANGE)
            elif radius * scale > 9:
                ink = drawing.PAPER if colour == drawing.INK else drawing.INK
                canvas.text((x, y), str(index), ink, min(13.0, 0.8 * radius * scale))
        if self.max_steps is not None:  # the time that is gone
            share = min(1.0, int(state.time) / int(self.max_steps))
            left, right, y = low[0] + radius, high[0] - radius, low[1] + 0.5 * radius
            canvas.line([(left, y), (right, y)], drawing.MIST, 4)
            canvas.line([(left, y), (left + share * (right - left), y)], drawing.STONE, 4)
        return canvas.array()
