"""Workers that are processes of this machine, and what any worker is to the pool whose environments it steps."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from forage.core.errors import ForageError
from forage.core.host import HostEnvironment
from forage.loop.cluster.worker import CALL, CLOSE, FAILED, MAKE, NUMBER, Exchange, main

SECONDS_TO_END = 5.0  # that a worker is given when all is over


class Gone(Exception):
    """A worker has ended by itself."""


class Worker:
    """Lanes that are somewhere else, and a way to speak with whoever steps them."""

    shares_memory = True

    def __init__(self, build: Callable[[int], HostEnvironment], sizes: Sequence[int], first: int):
        self.build = build
        starts = np.cumsum([first, *sizes[:-1]]).tolist()
        self.lanes = [Lane(self, place, rows) for place, rows in enumerate(zip(starts, sizes, strict=True))]
        self.heard: dict[int, tuple[str, Any]] = {}  # answers of lanes that nobody has asked for yet

    @property
    def rows(self) -> slice:
        return slice(self.lanes[0].first, self.lanes[-1].rows.stop)

    def start(self) -> None:
        """Start it, whose lanes make their environments side by side, without waiting for it."""
        self.heard = {}
        self.reach()
        with contextlib.suppress(Gone):  # which is heard when they are asked what they made
            for lane in reversed(self.lanes):  # the first is made on the thread that hands out the others' work
                lane.tell(MAKE)

    def reach(self) -> None:
        """Start what is to be spoken with."""
        raise NotImplementedError

    def tell(self, message: bytes) -> None:
        raise NotImplementedError

    def hear(self) -> bytes:
        raise NotImplementedError

    def begin_step(self, number: int, shared: Exchange) -> None:
        """Ask all lanes for a step, whose actions lie in `shared`."""
        self.tell(NUMBER.pack(number))

    def end_step(self, number: int, shared: Exchange) -> str:
        """Wait until all lanes have taken it and `shared` holds what came of it. Return what went wrong, or nothing."""
        said = self.hear()
        return "" if said == NUMBER.pack(number) else pickle.loads(said)

    def end(self) -> None:
        raise NotImplementedError


class Process(Worker):
    """A process, and the pipe through which both sides speak."""

    process: BaseProcess | None = None
    pipe: Connection | None = None

    def reach(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks that JAX's threads hold
        near, far = context.Pipe()
        told = [(lane.num_envs, lane.first) for lane in self.lanes]
        self.process = context.Process(target=main, args=(self.build, told, far), daemon=True)
        self.process.start()
        far.close()  # so that the end of the process is the end of the pipe
        self.pipe = near

    def tell(self, message: bytes) -> None:
        assert self.pipe is not None
        try:
            self.pipe.send_bytes(message)
        except OSError:
            raise Gone from None

    def hear(self) -> bytes:
        assert self.pipe is not None
        try:
            return self.pipe.recv_bytes()
        except (EOFError, OSError):
            raise Gone from None

    def end(self) -> None:
        """End the process: ask it to, and kill it where it does not listen."""
        if self.pipe is not None:
            with contextlib.suppress(Gone):
                self.tell(pickle.dumps((0, CLOSE)))
            self.pipe.close()
            self.pipe = None
        if self.process is not None:
            self.process.join(SECONDS_TO_END)
            if self.process.is_alive():
                self.process.kill()
                self.process.join()
            self.process.close()
            self.process = None


class Lane:
    """What is known here of a lane: whose it is, at which place, and which environments it has."""

    def __init__(self, worker: Worker, place: int, rows: tuple[int, int]):
        self.worker, self.place = worker, place
        self.first, self.num_envs = rows

    @property
    def rows(self) -> slice:
        return slice(self.first, self.first + self.num_envs)

    def tell(self, *what: Any) -> None:
        self.worker.tell(pickle.dumps((self.place, *what)))

    def answer(self) -> Any:
        """Wait for the answer. Raise `ForageError` where the lane failed, and `Gone` where it is no more."""
        heard = self.worker.heard
        while self.place not in heard:
            place, *answer = pickle.loads(self.worker.hear())
            heard[place] = tuple(answer)
        what, said = heard.pop(self.place)
        if what == FAILED:
            raise ForageError(said)
        return said

    def ask(self, name: str, *arguments: Any) -> Any:
        self.tell(CALL, name, *arguments)
        return self.answer()
