"""Workers that are processes of this machine, and what any worker is to the pool whose environments it steps."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import select
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar

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

    def __init__(self, build: Callable[[int], HostEnvironment], sizes: Sequence[int], first: int, apart: bool = False):
        """Give each lane its number of environments. `apart`: a lane may step while others do not."""
        self.build, self.apart = build, apart
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

    def tell(self, message: bytes, place: int = 0) -> None:
        """Tell the lane at this place something, or all lanes, where they are not told one by one."""
        raise NotImplementedError

    def hear(self, place: int = 0) -> bytes:
        raise NotImplementedError

    @property
    def slots(self) -> list[list[Lane]]:
        """Return the lanes that are asked for a step together; how many slots there are is what `apart` says."""
        return [[lane] for lane in self.lanes] if self.apart else [self.lanes]

    def begin_step(self, number: int, shared: Exchange, slot: int = 0) -> None:
        """Ask a slot for a step, whose actions lie in `shared`."""
        self.tell(NUMBER.pack(number), slot)

    def end_step(self, number: int, shared: Exchange, slot: int = 0) -> str:
        """Wait until its lanes have taken it and `shared` holds what came of it. Return what went wrong, or nothing."""
        said = self.hear(slot)
        return "" if said == NUMBER.pack(number) else pickle.loads(said)

    @staticmethod
    def listening(workers: Sequence[Any]) -> Callable[[float | None], list[tuple[Any, int]]]:
        """Return what waits so many seconds for slots of these workers, of one class, that have answered or are gone.

        It returns their workers and places. It is made anew when one of the workers is replaced.
        """
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError


class Process(Worker):
    """A process, and the pipe through which both sides speak, or one for each lane."""

    main: ClassVar[Callable[..., None]] = staticmethod(main)
    """Runs in the process."""

    process: BaseProcess | None = None

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.pipes: list[Connection] = []

    def reach(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks that JAX's threads hold
        pairs = [context.Pipe() for _ in self.slots]
        told = [(lane.num_envs, lane.first) for lane in self.lanes]
        self.process = context.Process(
            target=self.main, args=(self.build, told, [far for _, far in pairs]), daemon=True
        )
        self.process.start()
        for _, far in pairs:
            far.close()  # so that the end of the process is the end of the pipe
        self.pipes = [near for near, _ in pairs]

    def pipe(self, place: int) -> Connection:
        """Return the pipe to the lane at this place."""
        return self.pipes[place if self.apart else 0]

    def tell(self, message: bytes, place: int = 0) -> None:
        try:
            self.pipe(place).send_bytes(message)
        except OSError:
            raise Gone from None

    def hear(self, place: int = 0) -> bytes:
        try:
            return self.pipe(place).recv_bytes()
        except (EOFError, OSError):
            raise Gone from None

    @staticmethod
    def listening(workers: Sequence[Any]) -> Callable[[float | None], list[tuple[Any, int]]]:
        slots = {pipe: (worker, place) for worker in workers for place, pipe in enumerate(worker.pipes)}
        if not hasattr(select, "poll"):  # Windows, whose pipes are no files
            return lambda seconds: [slots[pipe] for pipe in wait(list(slots), seconds)]  # type: ignore[index]
        poll, files = select.poll(), {pipe.fileno(): slot for pipe, slot in slots.items()}  # in a tenth of its time
        for file in files:
            poll.register(file, select.POLLIN)
        return lambda seconds: [files[file] for file, _ in poll.poll(None if seconds is None else 1000 * seconds)]

    def end(self) -> None:
        """End the process: ask it to, and kill it where it does not listen."""
        for place, pipe in enumerate(self.pipes):
            with contextlib.suppress(Gone):
                self.tell(pickle.dumps((place, CLOSE)), place)
            pipe.close()
        self.pipes = []
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
        self.worker.tell(pickle.dumps((self.place, *what)), self.place)

    def answer(self) -> Any:
        """Wait for the answer. Raise `ForageError` where the lane failed, and `Gone` where it is no more."""
        heard = self.worker.heard
        while self.place not in heard:
            place, *answer = pickle.loads(self.worker.hear(self.place))
            heard[place] = tuple(answer)
        what, said = heard.pop(self.place)
        if what == FAILED:
            raise ForageError(said)
        return said

    def ask(self, name: str, *arguments: Any) -> Any:
        self.tell(CALL, name, *arguments)
        return self.answer()
