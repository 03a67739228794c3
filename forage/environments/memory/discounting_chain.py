"""Discounting chain: a choice of five delays, one of them with a slightly larger reward."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Step
from forage.environments import drawing
from forage.environments.limits import check_at_least

PAYDAYS = (1, 3, 10, 30, 100)
"""The step of the reward in each of the discounting chain's five branches."""


class DiscountingChainState(NamedTuple):
    branch: Int[Array, ""]  # -1 before the first step
    time: Int[Array, ""]  # steps taken


class DiscountingChain(Environment):
    """A chain with five branches, picked by the first action, with reward 1 at step 1, 3, 10, 30 or 100; 1.1 in one
    branch.

    - Observation: `float32[2]`: the branch (-1 before the first step) and `t / 100`.
    - Action: 0 to 4; only the first one has an effect.
    - Reward: 1, or 1.1 in the branch `bonus`, at the branch's own step; 0 otherwise.
    - Terminated: after 100 steps. Never truncated.

    Best return: 1.1, and memory does not help: the branch stays in sight. An agent with discount d prefers the bonus of
    the last branch to the reward of the first only if `1.1 d^99 > 1`, that is above 0.99904.

    Source: Osband et al. (2020), "Behaviour suite for reinforcement learning" (arXiv 1908.03568): `discounting_chain`,
    whose mapping seed n puts the bonus on branch n mod 5.
    """

    ranges: ClassVar[Ranges] = {"bonus": Range(0, 4)}

    bonus: int = 4  # the branch that pays 1.1

    def __check_init__(self):
        check_at_least(self, bonus=0)
        if isinstance(self.bonus, int) and self.bonus >= len(PAYDAYS):
            raise ForageError(f"DiscountingChain has no branch {self.bonus}; bonus is one of 0 to {len(PAYDAYS) - 1}.")

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(np.array([-1, 0], np.float32), np.array([4, 1], np.float32), dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(len(PAYDAYS))

    @property
    def horizon(self) -> int:
        return PAYDAYS[-1]

    def reset(self, key: Key[Array, ""]) -> tuple[DiscountingChainState, Float[Array, "2"]]:
        state = DiscountingChainState(jnp.full((), -1, jnp.int32), jnp.zeros((), jnp.int32))
        return state, self._observe(state)

    def step(
        self, state: DiscountingChainState, action: Int[Array, ""], key: Key[Array, ""]
    ) -> tuple[DiscountingChainState, Step]:
        branch = jnp.where(state.time == 0, action, state.branch).astype(jnp.int32)
        new_state = DiscountingChainState(branch, state.time + 1)
        pays = new_state.time == jnp.array(PAYDAYS, jnp.int32)[branch]
        reward = jnp.where(pays, 1.0 + 0.1 * (branch == self.bonus), 0.0).astype(jnp.float32)
        terminated = new_state.time >= self.horizon
        return new_state, Step(self._observe(new_state), reward, terminated, jnp.zeros((), bool), {})

    def _observe(self, state: DiscountingChainState) -> Float[Array, "2"]:
        return jnp.stack([state.branch, state.time / self.horizon]).astype(jnp.float32)

    def render(self, state: DiscountingChainState) -> UInt8[np.ndarray, "height width 3"]:
        branch, time = int(state.branch), int(state.time)
        canvas = drawing.Canvas(400, 200)
        for index, payday in enumerate(PAYDAYS):
            y = 26 + 37 * index
            end = 40 + 330 * np.log1p(payday) / np.log1p(PAYDAYS[-1])  # a logarithmic clock
            chosen = index == branch
            canvas.line([(20, 100), (40, y), (end, y)], drawing.ORANGE if chosen else drawing.MIST, 4)
            canvas.circle((end, y), 11, drawing.GOLD)
            canvas.text((end, y), "1.1" if index == int(self.bonus) else "1", drawing.INK, 10)
        if branch < 0:
            canvas.circle((20, 100), 8, drawing.INK)
        else:
            x = 40 + 330 * np.log1p(min(time, PAYDAYS[-1])) / np.log1p(PAYDAYS[-1])
            canvas.circle((x, 26 + 37 * branch), 8, drawing.INK)
        return canvas.array()
