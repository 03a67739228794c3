"""A recording: another memory, and all transitions of the run, to make a data set of."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
from jaxtyping import Array, Bool, Float

from forage.core.ports import ActContext, Agent, Environment, ValueEstimates
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.memory.around import MemoryWrapper
from forage.ops.ring import Ring, empty_ring, truncate, write_rollout


class Recording(NamedTuple):
    """The inner memory's state, and the recording, leaves `[time, env, ...]`."""

    inner: Any
    ring: Ring


class RecordedMemory(MemoryWrapper):
    """A recording of the newest `capacity` transitions around another memory that the agent learns from.

    The run is the one that the memory within makes, bit for bit: the recording is written and never read. It lies in
    the run's checkpoints, and `forage data make` takes its data set `medium-replay` from there. Agents that learn from
    their last rollout alone, such as PPO, are recorded as well.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --memory recorded --memory.capacity 50k --steps 50k"

    capacity: int = equinox.field(static=True, default=1_000_000)  # newest transitions recorded, of all environments
    # together; a run takes room for no more than it has steps

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` for a run from a data set alone, because it collects no experience."""
        super().check(agent, spec, environment)
        if self.offline:
            raise ForageError(
                "A recording is of what a run experiences, and this one learns from a data set alone; leave the "
                "recording out."
            )

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> Recording:
        inner = super().init(example, num_envs, rollout_length, spec, environment)
        ring = empty_ring(self.capacity, bare(example), num_envs, rollout_length, spec.observation_space)
        return Recording(inner, ring)

    def add(self, state: Recording, rollout: Experience, clock: Clock) -> Recording:
        return Recording(super().add(state.inner, rollout, clock), write_rollout(state.ring, bare(rollout), clock))

    def is_ready(self, state: Recording) -> Bool[Array, ""] | None:
        return super().is_ready(state.inner)

    def rate(self, state: Recording, estimates: ValueEstimates, clock: Clock) -> Recording:
        return state._replace(inner=super().rate(state.inner, estimates, clock))

    def truncate(self, state: Recording, clock: Clock) -> Recording:
        return Recording(super().truncate(state.inner, clock), truncate(state.ring, clock))

    def advance(self, state: Recording, size: int, length: int, moment: ActContext) -> Recording:
        return state._replace(inner=super().advance(state.inner, size, length, moment))

    def sample(self, state: Recording, size: int, length: int, moment: ActContext) -> Batch:
        return super().sample(state.inner, size, length, moment)

    def report(self, state: Recording, batch: Batch, errors: Float[Array, " batch"]) -> Recording:
        return state._replace(inner=super().report(state.inner, batch, errors))

    def after_updates(self, state: Recording) -> Recording:
        return state._replace(inner=super().after_updates(state.inner))


def bare(experience: Experience) -> Experience:
    """Return the transitions without the private information of agents, rewards and behaviours."""
    return experience._replace(
        policy_info=(), rewards_info=(), rewards={}, behaviour_info=(), info={}, start_id=(), version=()
    )
