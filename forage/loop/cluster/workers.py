"""The distribution of a run's environments on the host over workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from forage.core.errors import ForageError
from forage.core.host import HostEnvironment
from forage.loop.cluster.players import RolloutWorkers
from forage.loop.cluster.pool import PATIENCE, Pool, print_nothing
from forage.loop.cluster.slots import Slots


class Workers(NamedTuple):
    """The distribution of a run's environments on the host over processes."""

    count: int = 0  # processes of each seed; 0: this one steps them
    threads: int = 1  # of each, which step environments side by side, where those wait or compute outside of Python
    ray: bool = False  # they are actors of a Ray cluster, and not processes of this machine
    async_envs: bool = False  # within a rollout nobody waits for others, and who has stepped is served first
    policy_lag: int | None = (
        None  # they act themselves, so many rollouts ahead of the learner; `None`: the learner acts
    )
    step_timeout: float | None = None  # seconds within which one answers, or is replaced; `None`: the pool's own
    note: Callable[[str], None] = print_nothing  # says who was replaced, and why

    @classmethod
    def parse(
        cls,
        asked: int | str,
        threads: int = 1,
        async_envs: bool = False,
        policy_lag: int | None = None,
        step_timeout: float | None = None,
    ) -> Workers:
        """Return the requested workers: `4`, or `ray:4`. Raise `ForageError` for any other text."""
        kind, _, count = str(asked).rpartition(":")
        if kind not in ("", "ray") or not count.isdigit() or (kind and not int(count)):
            raise ForageError(f"Workers are so many processes, such as 4, or actors of a cluster, ray:4; not {asked}.")
        if threads != 1 and not int(count):
            raise ForageError("Threads are those of workers; give workers as well, or leave worker_threads out.")
        if async_envs and not int(count):
            raise ForageError("Who comes first is a matter of workers; give workers as well, or leave async_envs out.")
        if policy_lag is not None:
            check_policy_lag(policy_lag, int(count), kind == "ray", async_envs)
        if step_timeout is not None:
            check_timeout(step_timeout, int(count))
        return cls(int(count), threads, kind == "ray", async_envs, policy_lag, step_timeout)

    def batch_builder(self, build: Callable[[int], HostEnvironment]) -> Callable[[int], HostEnvironment]:
        """Return a builder of a batch that these workers step."""
        kind = Slots if self.async_envs else Pool if self.policy_lag is None else RolloutWorkers
        how = self.count, self.threads, self.ray, self.step_timeout or PATIENCE, self.note
        return (lambda num_envs: kind(build, num_envs, *how)) if self.count else build

    def evaluating(self, build: Callable[[int], HostEnvironment]) -> Callable[[int], HostEnvironment]:
        """Return a builder of a batch for evaluations: in this process, or in a worker if steps have a time limit.

        That has one lane, so that what is drawn for a whole batch is as in this process.
        """
        if not self.count or self.step_timeout is None:
            return build
        return lambda num_envs: Pool(build, num_envs, 1, step_timeout=self.step_timeout or PATIENCE, note=self.note)


def check_timeout(seconds: float, count: int) -> None:
    """Raise `ForageError` for a limit that no step could keep, or a limit without workers."""
    if not seconds > 0:
        raise ForageError(f"A step may take more than 0 seconds of a worker, not {seconds:g}; 60 is a usual limit.")
    if not count:
        raise ForageError("It is workers whose steps have a limit; give workers as well, or leave step_timeout out.")


def check_policy_lag(policy_lag: int, count: int, ray: bool, async_envs: bool) -> None:
    """Raise `ForageError` for workers that cannot act by themselves, or not so far ahead."""
    if policy_lag < 0:
        raise ForageError(f"Workers are 0 rollouts or more ahead of the learner, not {policy_lag}.")
    if not count:
        raise ForageError("It is workers who act ahead of the learner; give workers as well, or leave policy_lag out.")
    if ray:
        raise ForageError(
            f"Workers that act by themselves are processes of this machine; give workers {count}, or leave "
            f"policy_lag out."
        )
    if async_envs:
        raise ForageError("Workers that act by themselves never wait for others; leave out async_envs, or policy_lag.")


NO_WORKERS = Workers()
