"""The port of tasks."""

from __future__ import annotations

import abc
from typing import ClassVar

from jaxtyping import Array, Key, PyTree

from forage.core.ports.environment import Environment
from forage.core.ports.part import Part, State
from forage.core.ports.rollout import RolloutReport
from forage.core.types import Experience


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
    """It chooses among the numbered beginnings of an environment on the host: its tasks set `Hosted.number`, and may
    set `Hosted.hint` (see `forage.loop.host.starts`). Episodes of one group (`Starts.group`) get one task.
    """

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
