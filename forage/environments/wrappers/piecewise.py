"""Piecewise-stationary environments: their physics, or their tables, change at given steps of an episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from forage.core.ports import Environment, State
from forage.core.types import ForageError, Step


class PiecewiseState(NamedTuple):
    inner: State
    time: Int[Array, ""]  # steps taken


class Piecewise(Environment):
    """Phases of an episode, each an environment: steps t with `times[i - 1] <= t < times[i]` are of phase i.

    The phases are environments of one kind: `environment` is a batch of them, its leaves `[phase, ...]`. The state goes
    on as it is when the phase changes, and nothing shows the change but what it does. Episodes begin in phase 0, so
    this is for long or continuing episodes; where the change is to come at a step of the whole run, whatever the
    episode, that is for the tasks part `phases`.

        Piecewise.from_phases((river_swim(), river_swim(small=1.0, large=5e-4)), times=(5000,))

    Source: Jaksch, Ortner and Auer (2010), "Near-optimal Regret Bounds for Reinforcement Learning", section 6, where
    an MDP changes some number of times.
    """

    environment: Environment  # leaves [phase, ...]
    times: Int[Array, " change"] = equinox.field(converter=lambda value: jnp.asarray(value, jnp.int32))

    @staticmethod
    def from_phases(phases: Sequence[Environment], times: Sequence[int]) -> Piecewise:
        """Put environments that differ in numbers only one behind the other. Raise `ForageError` for others."""
        if len(phases) != len(times) + 1 or list(times) != sorted(set(times)) or min(times, default=1) < 1:
            raise ForageError(
                f"Piecewise needs one environment more than times, which rise from 1 up; "
                f"got {len(phases)} environments and times {tuple(times)}."
            )
        kinds = {jax.tree.structure(phase) for phase in phases}
        shapes = {tuple(np.shape(leaf) for leaf in jax.tree.leaves(phase)) for phase in phases}
        if len(kinds) > 1 or len(shapes) > 1:
            raise ForageError("Piecewise needs environments of one class and size; they may differ in numbers only.")

        def stack(*leaves: Any) -> Array:
            return jnp.stack([jnp.asarray(leaf, jnp.result_type(leaves[0])) for leaf in leaves])

        return Piecewise(jax.tree.map(stack, *phases), jnp.asarray(times, jnp.int32))

    def phase(self, time: Int[Array, ""] | int) -> Environment:
        """Return the environment that step `time` is taken in."""
        index = (jnp.asarray(time) >= self.times).sum()
        return jax.tree.map(lambda leaf: leaf[index], self.environment)

    @property
    def reward_names(self) -> tuple[str, ...]:
        return self.environment.reward_names

    @property
    def info_names(self) -> tuple[str, ...]:
        return self.environment.info_names

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return self.phase(0).observation_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self.phase(0).action_space

    @property
    def frames_per_second(self) -> float | None:
        return self.environment.frames_per_second

    @property
    def horizon(self) -> int | None:
        phases = range(len(self.times) + 1)
        limits = [jax.tree.map(lambda leaf, i=i: leaf[i], self.environment).horizon for i in phases]
        return max((int(limit) for limit in limits if limit is not None), default=None)

    def reset(self, key: Key[Array, ""]) -> tuple[PiecewiseState, PyTree[Array]]:
        state, observation = self.phase(0).reset(key)
        return PiecewiseState(state, jnp.zeros((), jnp.int32)), observation

    def step(self, state: PiecewiseState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[PiecewiseState, Step]:
        inner, step = self.phase(state.time).step(state.inner, action, key)
        return PiecewiseState(inner, state.time + 1), step

    def render(self, state: PiecewiseState) -> Any:
        return self.phase(int(state.time)).render(state.inner)
