"""Concept drift: the dynamics change while an episode runs."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.fields import replace, value_of
from forage.core.types import ForageError, Step
from forage.environments.wrappers.base import Wrapper, WrapperState, check_least

KINDS = ("sudden", "cyclic", "gradual")


class Drift(Wrapper):
    """Dynamics that change while an episode runs: in step t the named field is `value (1 + drift g(t))`.

    `value` is what it would be without. With the period P (`drift_period`) and t counted from 0, g(t) is, by `kind`,

    - sudden: 0 before step P, then 1;
    - cyclic: 0 in the first P steps, 1 in the next P, and so on in turn;
    - gradual: t / P, at most 1.

    Source: type 2.2 of Barsainyan, Lim, Liu (2025), "STORI: A Benchmark and Taxonomy for Stochastic Environments",
    arXiv 2509.01793, whose drifts are sudden after 300 steps or cyclic every 600.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --wrap drift:gravity:0.5:100"

    field: str = equinox.field(static=True)  # the field that drifts
    drift: float = 0.5  # how far the field drifts, as a share of its value
    drift_period: int = 100  # steps of a change, or from one to the next
    kind: str = equinox.field(static=True, default="sudden")  # sudden, cyclic or gradual

    remembers = True

    def __check_init__(self):
        if self.kind not in KINDS:
            raise ForageError(f"A drift is sudden, cyclic or gradual, not {self.kind!r}.")
        check_least(self, "drift_period", self.drift_period, 1)
        value = value_of(self.environment, self.field)
        if not jnp.issubdtype(jnp.result_type(value), jnp.floating):
            raise ForageError(f"{self.field} is a whole number, which cannot drift; name one with a fraction.")

    def reset(self, key: Key[Array, ""]) -> tuple[WrapperState, PyTree[Array]]:
        inner, observation = self.environment.reset(key)
        return WrapperState(inner, jnp.zeros((), jnp.int32)), observation

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[WrapperState, Step]:
        value: Any = value_of(self.environment, self.field)
        factor = 1 + self.drift * self._shape(state.own)
        drifted = jnp.asarray(value * factor, jnp.result_type(float))
        environment = replace(self.environment, self.environment, self.field, drifted)
        inner, step = environment.step(state.inner, action, key)
        return WrapperState(inner, state.own + 1), step

    def _shape(self, time: Int[Array, ""]) -> Float[Array, ""]:
        if self.kind == "gradual":
            return jnp.minimum(time / self.drift_period, 1).astype(jnp.float32)
        turns = time // self.drift_period
        return (turns >= 1 if self.kind == "sudden" else turns % 2 == 1).astype(jnp.float32)
