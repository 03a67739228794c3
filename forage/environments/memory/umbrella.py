"""Umbrella: the first choice alone decides the last reward, with noise rewards in between."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import Step
from forage.environments import drawing
from forage.environments.limits import check_at_least


class UmbrellaState(NamedTuple):
    need: Int[Array, ""]  # the forecast: 1 when it will rain
    have: Int[Array, ""]  # 1 when the umbrella is there
    time: Int[Array, ""]  # steps taken


class Umbrella(Environment):
    """The forecast is seen, and the umbrella is taken or left, on the first day; it rains or not on the last.

    - Observation: `float32[3 + num_distractors]`: the forecast (0 or 1, all episode long), whether the umbrella is
      there (chance says so before the first step), `1 - t / chain_length`, and coins tossed anew at each step.
    - Action: 1 takes the umbrella and 0 leaves it, at the first step; later actions do nothing.
    - Reward: 1 at the last step when the umbrella is there as the forecast asked, else -1; before that 1 or -1 by the
      toss of a coin, whatever is done.
    - Terminated: after `chain_length` steps. Never truncated.

    Best return: 1 in the mean, with a standard deviation of `sqrt(chain_length - 1)`, and 0 in the mean for a blind
    policy. Memory does not help, the forecast stays in sight: what is tested is credit over `chain_length` steps.

    Source: Osband et al. (2020), "Behaviour suite for reinforcement learning" (arXiv 1908.03568): `umbrella_length` has
    20 distractors and lengths 1 to 100, `umbrella_distract` the length 20 and 1 to 100 distractors.
    """

    ranges: ClassVar[Ranges] = {"chain_length": Range(1), "num_distractors": Range(0)}

    chain_length: int = 10  # steps of an episode
    num_distractors: int = equinox.field(default=20, static=True)

    def __check_init__(self):
        check_at_least(self, chain_length=1, num_distractors=0)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0.0, 1.0, (3 + self.num_distractors,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(2)

    @property
    def horizon(self) -> int:
        return self.chain_length

    def reset(self, key: Key[Array, ""]) -> tuple[UmbrellaState, Float[Array, " observation"]]:
        state_key, key = jax.random.split(key)
        need, have = jax.random.bernoulli(state_key, shape=(2,)).astype(jnp.int32)
        state = UmbrellaState(need, have, jnp.zeros((), jnp.int32))
        return state, self._observe(state, key)

    def step(self, state: UmbrellaState, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[UmbrellaState, Step]:
        coin_key, key = jax.random.split(key)
        time = state.time + 1
        have = jnp.where(time == 1, action, state.have).astype(jnp.int32)
        terminated = time >= self.chain_length
        good = jnp.where(terminated, have == state.need, jax.random.bernoulli(coin_key))
        new_state = UmbrellaState(state.need, have, time)
        reward = jnp.where(good, 1.0, -1.0).astype(jnp.float32)
        return new_state, Step(self._observe(new_state, key), reward, terminated, jnp.zeros((), bool), {})

    def _observe(self, state: UmbrellaState, key: Key[Array, ""]) -> Float[Array, " observation"]:
        # An episode that is stepped on after its end stays within the space.
        left = jnp.maximum(self.chain_length - state.time, 0) / self.chain_length
        coins = jax.random.bernoulli(key, shape=(self.num_distractors,))
        return jnp.concatenate([jnp.stack([state.need, state.have, left]), coins]).astype(jnp.float32)

    def render(self, state: UmbrellaState) -> UInt8[np.ndarray, "height width 3"]:
        length, time = int(self.chain_length), int(state.time)
        need, have = bool(state.need), bool(state.have)
        canvas = drawing.Canvas(400, 200, background=drawing.PAPER)
        sky = drawing.mix(drawing.SKY, drawing.STONE, 0.6) if need else drawing.SKY
        canvas.rectangle((0, 0), (400, 150), sky)
        canvas.rectangle((0, 150), (400, 200), drawing.MIST)
        if need:
            for x in range(262, 390, 16):
                canvas.line([(x, 60), (x - 6, 80)], drawing.BLUE, 2)
            for x in (280, 312, 346):
                canvas.circle((x, 44), 22, drawing.STONE)
        else:
            canvas.circle((324, 46), 24, drawing.GOLD)
        canvas.line([(30, 175), (370, 175)], drawing.STONE, 2)
        x = 30 + 340 * min(time, length) / length
        canvas.line([(30, 175), (x, 175)], drawing.ORANGE, 5)
        canvas.line([(x, 112), (x, 148)], drawing.INK, 5)
        canvas.circle((x, 104), 9, drawing.ORANGE)
        if have:
            canvas.line([(x + 10, 130), (x + 10, 86)], drawing.INK, 2)
            dome = [(x + 10 + 34 * np.cos(a), 90 - 24 * np.sin(a)) for a in np.linspace(0, np.pi, 17)]
            canvas.polygon(dome, drawing.RED)
        return canvas.array()
