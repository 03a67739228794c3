"""Workers that are actors of a Ray cluster, on this machine or on others (extra `ray`).

Moritz et al. (2018), "Ray: A Distributed Framework for Emerging AI Applications", arXiv 1712.05889. An actor is one
process; the cluster chooses its machine, and where that one dies, another for the actor that replaces it. There is no
memory that both sides see, so the actions of a step travel with the call and what came of it with the answer.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import pickle
import re
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from forage.core.errors import ForageError
from forage.loop.cluster.process import SECONDS_TO_END, Lane, Worker, WorkerGone
from forage.loop.cluster.worker import Exchange, RemoteActor

OLDEST = (2, 50)  # release of Ray that this is tested with
PER_CPU = 8  # actors on each processor that a machine brings to the cluster, at most
SECONDS_TO_BEGIN = 120.0  # until an actor is there, whose machine imports Forage first


class RayWorker(Worker):
    """A Ray actor and its pending calls."""

    shares_memory = False
    actor: Any = None

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.asked: list[Any] = []
        self.came = 0  # answers

    def reach(self) -> None:
        ray = connect_ray()
        actor = ray.remote(num_cpus=1 / PER_CPU, max_restarts=0, scheduling_strategy="SPREAD")(RemoteActor)
        told = [(lane.num_envs, lane.first) for lane in self.lanes]
        self.asked = []
        self.begun = False
        self.actor = actor.remote(pickle.dumps(self.build), told)

    def tell(self, message: bytes, place: int = 0) -> None:
        self.asked.append(self.actor.call.remote(message))

    def hear(self, place: int = 0) -> bytes:
        return self.next_answer()

    def begin_step(self, number: int, shared: Exchange, slot: int = 0) -> None:
        action = jax.tree.map(lambda x: np.array(x[self.rows]), shared.action)
        self.asked.append(self.actor.step.remote(number, action))

    def end_step(self, number: int, shared: Exchange, slot: int = 0) -> str:
        failed, found = self.next_answer()
        jax.tree.map(lambda to, new: np.copyto(to[self.rows], new), shared, found)
        return failed

    @property
    def slots(self) -> list[list[Lane]]:
        return [self.lanes]  # a call and its answer for each lane would take longer than they save

    @staticmethod
    def listening(workers: Sequence[Any]) -> Callable[[float | None], list[tuple[Any, int]]]:
        import ray

        def ready(seconds: float | None) -> list[tuple[Any, int]]:
            asked = [worker for worker in workers if worker.asked]
            found, _ = ray.wait([worker.asked[0] for worker in asked], timeout=seconds)
            return [(worker, 0) for worker in asked if worker.asked[0] in found]

        return ready

    def next_answer(self) -> Any:
        """Return the answer to the oldest pending call.

        Raise `Gone` if the actor has died, and `ForageError` where it never came.
        """
        import ray

        began = time.monotonic()

        def came(seconds: float) -> bool:
            late = not self.begun and time.monotonic() - began > SECONDS_TO_BEGIN
            return late or bool(ray.wait(self.asked[:1], timeout=seconds)[0])

        self.await_slow(0, came)
        try:
            said = ray.get(self.asked[0], timeout=None if self.begun else 0)
        except ray.exceptions.GetTimeoutError:
            raise ForageError(
                f"The Ray cluster had no room for a worker within {SECONDS_TO_BEGIN:.0f} seconds; it takes {PER_CPU} "
                f"workers on a processor, and ray status says how many it has."
            ) from None
        except (ray.exceptions.RayActorError, ray.exceptions.RaySystemError):
            raise WorkerGone from None
        self.begun = True
        self.came += 1
        del self.asked[0]
        return said

    def waits(self, line: int) -> Any | None:
        import ray

        asked = self.asked[:1]
        return None if not asked or ray.wait(asked, timeout=0)[0] else self.came

    def kill(self) -> None:
        import ray

        with contextlib.suppress(Exception):  # it may be dead, and so may the cluster
            ray.kill(self.actor)

    def end(self) -> None:
        """End the actor: ask it to, and kill it where it does not listen."""
        if self.actor is None:
            return
        import ray

        if not self.overdue:
            with contextlib.suppress(Exception):  # it may be dead, and so may the cluster
                ray.get(self.actor.close.remote(), timeout=SECONDS_TO_END)
        self.kill()
        self.actor = None


def check_ray() -> None:
    """Raise `ForageError` if Ray is missing, is too old, or has no cluster here."""
    connect_ray()


def connect_ray() -> Any:
    """Return the module `ray`, connected with the cluster that `RAY_ADDRESS` names, or that this machine is in."""
    try:
        found = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        raise ForageError("Workers of a cluster need Ray; install it with: pip install 'forage-rl[ray]'.") from None
    if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ForageError(
            f"Workers of a cluster need Ray {oldest} or newer, and {found} is installed here; upgrade it."
        )
    import ray

    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS", "auto")
        try:
            if at := re.fullmatch(r"([\w.-]+):(\d+)", address):  # Ray itself would try for minutes
                socket.create_connection((at[1], int(at[2])), SECONDS_TO_END).close()
            ray.init(address, log_to_driver=False, logging_level="ERROR")
        except (OSError, RuntimeError, ValueError) as error:
            raise ForageError(
                f"There is no Ray cluster at {address} ({str(error).splitlines()[0]}); begin one with ray start "
                f"--head, or name it in RAY_ADDRESS."
            ) from None
    return ray
