"""How environments of a run on the host are spread over workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from forage.core.errors import ForageError
from forage.core.host import HostEnvironment
from forage.loop.cluster.pool import Pool
from forage.loop.cluster.slots import Slots


class Workers(NamedTuple):
    """How environments of a run on the host are spread over processes."""

    count: int = 0  # processes of each seed; 0: this one steps them
    threads: int = 1  # of each, which step environments side by side, where those wait or compute outside of Python
    ray: bool = False  # they are actors of a Ray cluster, and not processes of this machine
    first_come: bool = False  # within a rollout nobody waits for others, and who has stepped is served first

    @classmethod
    def of(cls, asked: int | str, threads: int = 1, first_come: bool = False) -> Workers:
        """Return the workers that are asked for: `4`, or `ray:4`. Raise `ForageError` for anything else."""
        kind, _, count = str(asked).rpartition(":")
        if kind not in ("", "ray") or not count.isdigit() or (kind and not int(count)):
            raise ForageError(f"Workers are so many processes, such as 4, or actors of a cluster, ray:4; not {asked}.")
        if threads != 1 and not int(count):
            raise ForageError("Threads are those of workers; give workers as well, or leave worker_threads out.")
        if first_come and not int(count):
            raise ForageError("Who comes first is a matter of workers; give workers as well, or leave first_come out.")
        return cls(int(count), threads, kind == "ray", first_come)

    def around(self, build: Callable[[int], HostEnvironment]) -> Callable[[int], HostEnvironment]:
        """Return what builds a batch that these workers step."""
        kind = Slots if self.first_come else Pool
        return (lambda num_envs: kind(build, num_envs, *self[:3])) if self.count else build


NO_WORKERS = Workers()
