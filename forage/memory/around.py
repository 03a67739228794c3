"""A base for memories around another memory: every call of the loop is passed to the inner one."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from jaxtyping import Array, Bool, Float

from forage.core.ports import ActContext, Agent, Environment, Memory, ValueEstimates
from forage.core.types import Batch, Clock, Experience, Spec


class MemoryWrapper(Memory):
    """A memory around the memory `inner`, whose state it keeps as its own; subclasses override the rest."""

    inner: Any = None  # memory that the agent learns from; its usual one

    on_policy = property(lambda self: self.inner.on_policy)  # type: ignore[assignment]
    needs_estimates = property(lambda self: self.inner.needs_estimates)  # type: ignore[assignment]
    joint = property(lambda self: self.inner.joint)  # type: ignore[assignment]
    offline = property(lambda self: self.inner.offline)  # type: ignore[assignment]
    mixes = property(lambda self: self.inner.mixes)  # type: ignore[assignment]
    recomputes_rewards = property(lambda self: self.inner.recomputes_rewards)  # type: ignore[assignment]

    @property
    def transitions(self) -> Experience | None:
        return self.inner.transitions

    @property
    def tells_returns(self) -> bool:
        return self.inner.tells_returns

    @property
    def waiting_rollouts(self) -> int:
        return self.inner.waiting_rollouts

    def wrap(self, inner: Memory) -> Self:
        """Return the same around another memory."""
        within: dict[str, Any] = {"inner": inner}
        return dataclasses.replace(self, **within)

    def with_hashes(self) -> Self:
        # Without a memory within yet, it will be the agent's usual one, which reads no file.
        return self if self.inner is None else self.wrap(self.inner.with_hashes())

    def relocate(self, path: Any) -> Self:
        return self.wrap(self.inner.relocate(path))

    def load(self, spec: Spec) -> Self:
        return self.wrap(self.inner.load(spec))

    def is_ready(self, state: Any) -> Bool[Array, ""] | None:
        return self.inner.is_ready(state)

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        self.inner.check(agent, spec, environment)

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> Any:
        return self.inner.init(example, num_envs, rollout_length, spec, environment)

    def add(self, state: Any, rollout: Experience, clock: Clock) -> Any:
        return self.inner.add(state, rollout, clock)

    def rate(self, state: Any, estimates: ValueEstimates, clock: Clock) -> Any:
        return self.inner.rate(state, estimates, clock)

    def truncate(self, state: Any, clock: Clock) -> Any:
        return self.inner.truncate(state, clock)

    def advance(self, state: Any, size: int, length: int, moment: ActContext) -> Any:
        return self.inner.advance(state, size, length, moment)

    def sample(self, state: Any, size: int, length: int, moment: ActContext) -> Batch:
        return self.inner.sample(state, size, length, moment)

    def report(self, state: Any, batch: Batch, errors: Float[Array, " batch"]) -> Any:
        return self.inner.report(state, batch, errors)

    def after_updates(self, state: Any) -> Any:
        return self.inner.after_updates(state)


def innermost(memory: Memory) -> Memory:
    """Return the memory that others stand around, or the memory itself."""
    return innermost(memory.inner) if isinstance(memory, MemoryWrapper) else memory
