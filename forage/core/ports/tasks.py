"""The port of tasks."""

from __future__ import annotations

import abc
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Key, PyTree

from forage.core.ports.environment import Environment
from forage.core.ports.part import Part, State, ValueEstimates
from forage.core.types import Clock, Experience


class RolloutStates(NamedTuple):
    """The states that a rollout (leaves `time env ...`) visited.

    With `Starts.every_state`, `env_states` and `gone` are `time env ...`: the state that each step led to, also where
    the episode ended there, so its observation is `rollout.next_observation`. Otherwise they are `1 env ...`: where the
    environments stand after the rollout, which is a fresh start, and `gone`, where `rollout.ended[-1]`.
    """

    env_states: State
    start_ids: PyTree[Array]  # leaves `time env ...`: the identifier of the start of each step's episode
    gone: Bool[Array, "time env"]  # nothing goes on from there: the episode ended by itself, not only by `cut`
    fresh: Bool[Array, " env"]  # the rollout's first step began an episode
    tasks: PyTree[Array | None] = None  # leaves `time env ...`: the task of the episode that each step belongs to

    def begins(self, ended: Bool[Array, "time env"]) -> Bool[Array, "time env"]:
        """Return the mask of each episode's first step, for a rollout whose episodes `ended` there."""
        return jnp.concatenate([self.fresh[None], ended[:-1]])


class RolloutReport(NamedTuple):
    """The context of a rollout for tasks and starts: all they may know besides its transitions."""

    environment: Environment
    visited: RolloutStates
    clock: Clock  # as it read when the rollout began
    key: Key[Array, ""]
    estimates: ValueEstimates | None = None  # for a part with `needs_estimates`


class Tasks(Part):
    """The port of tasks: the next environment, level or context.

    A task is a pytree shaped like the environment with `None` wherever it leaves the environment alone,
    so only what differs between tasks is batched.
    """

    varies: ClassVar[bool] = True
    """Tasks differ from one another."""

    adapts: ClassVar[bool] = False
    """`report` changes the distribution of `next`, so starts drawn earlier are stale after each rollout."""

    needs_estimates: ClassVar[bool] = False
    """`report` needs the agent's value estimates of the rollout; they are computed only for such parts."""

    on_host: ClassVar[bool] = False
    """It works on the host, too, where its tasks set the number of an episode's beginning, a hint or limits
    (`forage.loop.host.starts.HostedEnvironment`). Episodes of one group (`Starts.group`) get one task.
    """

    reads_prompts: ClassVar[bool] = False
    """It needs the lengths of prompts (`HostedEnvironment.lengths`); they are computed only for such parts."""

    def evaluation(self) -> Tasks:
        """Return the tasks that evaluation plays: these, unless there are others for test."""
        return self

    def check(self, environment: Environment) -> None:
        """Raise `ForageError` if this environment has no such tasks. Called with concrete numbers."""

    def init(self, key: Key[Array, ""], environment: Environment) -> State:
        return ()

    @abc.abstractmethod
    def next(self, state: State, environment: Environment, key: Key[Array, ""]) -> PyTree[Array | None]: ...

    def report(self, state: State, rollout: Experience, review: RolloutReport) -> State:
        """Learn from each rollout (leaves `time env ...`)."""
        return state
