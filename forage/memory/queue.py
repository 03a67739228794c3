"""A queue of rollouts: the agent learns from each once a fixed number of newer ones have arrived."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp

from forage.core.ports import ActContext, Agent, Environment, Memory
from forage.core.types import Batch, Clock, Experience, Spec


class QueueState(NamedTuple):
    """The waiting rollouts, and the due one."""

    waiting: Experience | tuple[()]  # leaves [lag, time, env, ...]; rollout number n is in place n modulo lag
    due: Experience | tuple[()]  # leaves [time, env, ...]; `()` between two turns of the loop


class Queue(Memory):
    """Rollouts in order of collection, each handed out whole once `lag` newer ones have followed it.

    From its second batch on, an agent learns from what an earlier policy of its own did: the batch at update n is
    rollout n, and the policy that acted in it had learned n - `lag` times (never, in the first `lag` + 1 rollouts).
    That is the lag of Espeholt and others' actors behind their learner, here the same in every run. There is no update
    before `lag` + 1 rollouts have come. With `lag` 0 it is the memory `rollout`, bit for bit.

    Only agents that correct for the change of policy may wait (`Agent.corrects`): PPO measures its ratio from the
    network that learns, so that it would take an old rollout for its newest, and its advantages have no correction.

    Source: Espeholt et al., 2018, "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner
    Architectures", arXiv 1802.01561, section 3.
    """

    example: ClassVar[str] = "forage train impala CartPole-v1 --memory queue --memory.lag 4"

    on_policy: ClassVar[bool] = True

    lag: int = equinox.field(static=True, default=1)  # rollouts that are newer than the one learned from; 1 is the lag
    # of acting while the learner makes its update

    @property
    def waiting_rollouts(self) -> int:
        return self.lag

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        super().check(agent, spec, environment)
        agent.check_lag(self.lag, "Queue hands out those", "--memory rollout")

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> QueueState:
        shape = (self.lag, rollout_length, num_envs)
        return QueueState(jax.tree.map(lambda x: jnp.zeros(shape + x.shape, x.dtype), example) if self.lag else (), ())

    def add(self, state: QueueState, rollout: Experience, clock: Clock) -> QueueState:
        if not self.lag:
            return QueueState((), rollout)
        place = self.place(clock.steps, rollout.terminated.size)
        due = jax.tree.map(lambda kept: kept[place], state.waiting)
        waiting = jax.tree.map(lambda kept, new: kept.at[place].set(new), state.waiting, rollout)
        return QueueState(waiting, due)

    def place(self, steps: Any, size: int) -> Any:
        """Return the place of the rollout that begins after these steps; until then it holds the due one."""
        return steps // size % self.lag

    def truncate(self, state: QueueState, clock: Clock) -> QueueState:
        """Mark the newest rollout's last step as truncated, because the next rollout does not continue its episodes."""
        if not isinstance(state.waiting, Experience):
            return state
        size = state.waiting.terminated[0].size
        newest = self.place(clock.steps - size, size)
        ends = state.waiting.truncated.at[newest, -1].set(~state.waiting.terminated[newest, -1])
        return state._replace(waiting=state.waiting._replace(truncated=ends))

    def sample(self, state: QueueState, size: int, length: int, moment: ActContext) -> Batch:
        assert isinstance(state.due, Experience)
        num_envs = state.due.reward.shape[1]
        return Batch(state.due, jnp.ones(num_envs), jnp.arange(num_envs))

    def after_updates(self, state: QueueState) -> QueueState:
        return state._replace(due=())
