"""Workers that are processes of this machine, and the interface of all workers to the pool that uses them."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import pickle
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar

import numpy as np

from forage.core.compiling import Background, stop
from forage.core.errors import ForageError, InterruptedCompiling
from forage.core.host import HostEnvironment
from forage.loop.cluster import reaper
from forage.loop.cluster.worker import CALL, CLOSE, FAILED, MAKE, NUMBER, Exchange, main

SECONDS_TO_END = 5.0  # that a worker is given when all is over
SECONDS_TO_STOP = 1.0  # the same where a worker, or the run that a person stopped, compiles or begins
LOOKS_UP = 0.1  # seconds for which nobody looks whether the run was asked to stop, while a worker begins
BEGINNING = "workers compiled or made their environments"


class WorkerGone(Exception):
    """A worker has ended by itself."""


class Worker:
    """Lanes in another process, and a connection to it."""

    shares_memory = True

    def __init__(
        self,
        build: Callable[[int], HostEnvironment],
        sizes: Sequence[int],
        first: int,
        apart: bool = False,
        guard: Guard | None = None,
    ):
        """Give each lane its number of environments. `apart`: a lane may step while others do not.

        `guard`: ends what the worker leaves behind when this process is gone, where it is a process of this machine.
        """
        self.build, self.apart, self.guard = build, apart, guard
        self.starting = False  # until all lanes have made their environments
        self.gone = False  # found to have ended by itself
        self.left = False  # nobody waits any more for what it was asked, so that nothing else can be asked
        self.overdue = 0.0  # the seconds within which it did not answer, so that it was killed
        self.sittings = 0  # times that it was started
        self.changing = threading.Lock()  # held while it is ended or started, and while it is killed for its silence
        starts = np.cumsum([first, *sizes[:-1]]).tolist()
        self.lanes = [Lane(self, place, rows) for place, rows in enumerate(zip(starts, sizes, strict=True))]
        self.heard: dict[int, tuple[str, Any]] = {}  # answers of lanes that nobody has asked for yet

    @property
    def rows(self) -> slice:
        return slice(self.lanes[0].first, self.lanes[-1].rows.stop)

    def start(self) -> None:
        """Start it, whose lanes make their environments side by side, without waiting for it."""
        with self.changing:
            self.heard, self.gone, self.left, self.overdue, self.starting = {}, False, False, 0.0, True
            self.sittings += 1
            self.reach()
        with contextlib.suppress(WorkerGone):  # which is heard when they are asked what they made
            for lane in reversed(self.lanes):  # the first is made on the thread that hands out the others' work
                lane.tell(MAKE)

    def reach(self) -> None:
        """Start the process to connect to."""
        raise NotImplementedError

    def tell(self, message: bytes, place: int = 0) -> None:
        """Send a message to the lane at this place, or to all lanes if they share one connection."""
        raise NotImplementedError

    def hear(self, place: int = 0) -> bytes:
        raise NotImplementedError

    @property
    def slots(self) -> list[list[Lane]]:
        """Return the lanes that take a step together; `apart` sets the number of slots."""
        return [[lane] for lane in self.lanes] if self.apart else [self.lanes]

    def begin_step(self, number: int, shared: Exchange, slot: int = 0) -> None:
        """Ask a slot for a step, whose actions lie in `shared`."""
        self.tell(NUMBER.pack(number), slot)

    def end_step(self, number: int, shared: Exchange, slot: int = 0) -> str:
        """Wait until its lanes have taken the step and `shared` holds the results. Return the error, or an empty
        text.
        """
        said = self.hear(slot)
        return "" if said == NUMBER.pack(number) else pickle.loads(said)

    @staticmethod
    def listening(workers: Sequence[Any]) -> Callable[[float | None], list[tuple[Any, int]]]:
        """Return a function that waits up to a number of seconds for slots of these workers that have answered or
        are gone.

        It returns their workers and places. It is made anew when one of the workers is replaced.
        """
        raise NotImplementedError

    @property
    def lines(self) -> int:
        """Return the number of connections for requests and answers."""
        return len(self.slots)

    def waits(self, line: int) -> Any | None:
        """Return a key of the wait for an answer on a line, such as the number of answers, to tell it from the next
        wait.

        `None` if no answer is due, or one lies there.
        """
        raise NotImplementedError

    def is_slow(self, line: int) -> bool:
        """Return whether an answer may take longer than a step, because its environments are being made."""
        return self.starting

    def await_slow(self, line: int, came: Callable[[float], bool]) -> None:
        """Wait for an answer that may take long. `came(seconds)` waits for it that long, and returns whether it is
        there.

        Raise `InterruptedCompiling` in the main thread if a stop of the run is requested meanwhile.
        """
        while self.is_slow(line) and not came(LOOKS_UP):
            if threading.current_thread() is threading.main_thread():
                try:
                    stop.check_requested(BEGINNING)
                except InterruptedCompiling:
                    self.left = True
                    raise

    def fell_silent(self, sitting: int, seconds: float) -> None:
        """Kill the worker after `seconds` without an answer, unless it was restarted meanwhile."""
        with self.changing:
            if self.sittings == sitting and not self.overdue:
                self.overdue = seconds
                self.kill()

    def kill(self) -> None:
        """Kill the worker at once, even during a step."""
        raise NotImplementedError

    def how_it_ended(self) -> str:
        """Describe the end of a worker that is gone."""
        return f"did not answer within {self.overdue:g} seconds" if self.overdue else "was lost"

    def ask_to_end(self) -> None:
        """Ask it to end, without waiting for it."""

    def end(self) -> None:
        """End it: ask it to, and kill it where it does not listen."""
        raise NotImplementedError


class Guard:
    """A small process that ends the workers of a pool, and the programs they started, once this process is gone."""

    def __init__(self) -> None:
        self.mark = f"{os.getpid()}-{secrets.token_hex(8)}."
        self.process: subprocess.Popen[bytes] | None = None

    def hear_of(self, sign: str, process: int) -> None:
        """Report that a worker has started (`+`) or ended (`-`)."""
        if os.name != "posix":  # Windows knows neither groups of processes nor their environments
            return
        if self.process is None:
            words = [sys.executable, "-I", "-S", reaper.__file__, self.mark]
            quiet = subprocess.DEVNULL
            self.process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
            )
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # somebody has killed it
            self.process.stdin.write(f"{sign}{process}\n".encode())
            self.process.stdin.flush()

    def close(self) -> None:
        """Let it go, once all workers are over."""
        if self.process is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()  # type: ignore[union-attr]
            self.process.kill()
            self.process.wait()
            self.process = None


class Process(Worker):
    """A process, and the pipe through which both sides speak, or one for each lane."""

    main: ClassVar[Callable[..., None]] = staticmethod(main)
    """Runs in the process."""

    process: BaseProcess | None = None

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.pipes: list[Connection] = []
        self.due: list[int] = []  # answers that have not come, by pipe
        self.came: list[int] = []  # answers that have
        self.until = 0.0  # the time at which it is killed, once it is asked to end
        self.guard = self.guard or Guard()

    @property
    def mark(self) -> str:
        """Return the mark of the processes that this worker starts."""
        assert self.guard is not None
        return f"{self.guard.mark}{self.lanes[0].first}.{self.sittings}."

    def reach(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy locks that JAX's threads hold
        told = [(lane.num_envs, lane.first) for lane in self.lanes]
        pairs: list[tuple[Connection, Connection]] = []
        try:
            pairs += (context.Pipe() for _ in self.slots)
            far = [far for _, far in pairs]
            self.process = context.Process(target=self.main, args=(self.build, told, far, self.mark), daemon=True)
            self.process.start()
            assert self.guard is not None and self.process.pid is not None
            self.guard.hear_of("+", self.process.pid)
        except OSError as error:
            for near, _ in pairs:
                near.close()
            if self.process is not None and self.process.pid is None:
                self.process = None
            raise ForageError(describe_start_failure(error)) from None
        finally:
            for _, far_end in pairs:
                far_end.close()  # so that the end of the process is the end of the pipe
        self.pipes = [near for near, _ in pairs]
        self.due, self.came = [0] * len(pairs), [0] * len(pairs)

    def tell(self, message: bytes, place: int = 0) -> None:
        line = place if self.apart else 0
        self.due[line] += 1
        try:
            self.pipes[line].send_bytes(message)
        except OSError:
            self.gone = True
            raise WorkerGone from None

    def hear(self, place: int = 0) -> bytes:
        line = place if self.apart else 0
        try:
            self.await_slow(line, self.pipes[line].poll)
            said = self.pipes[line].recv_bytes()
        except (EOFError, OSError):
            self.gone = True
            raise WorkerGone from None
        self.came[line] += 1
        self.due[line] -= 1
        return said

    def waits(self, line: int) -> Any | None:
        if not self.due[line] or self.pipes[line].poll():
            return None
        if is_over(self.process):  # a program that it has started may hold the other end of the pipe
            self.kill()
        return self.came[line]

    @staticmethod
    def listening(workers: Sequence[Any]) -> Callable[[float | None], list[tuple[Any, int]]]:
        slots = {pipe: (worker, place) for worker in workers for place, pipe in enumerate(worker.pipes)}
        if not hasattr(select, "poll"):  # Windows, whose pipes are no files
            return lambda seconds: [slots[pipe] for pipe in wait(list(slots), seconds)]  # type: ignore[index]
        poll, files = select.poll(), {pipe.fileno(): slot for pipe, slot in slots.items()}  # in a tenth of its time
        for file in files:
            poll.register(file, select.POLLIN)
        return lambda seconds: [files[file] for file, _ in poll.poll(None if seconds is None else 1000 * seconds)]

    def kill(self) -> None:
        if self.process is not None and self.process.pid is not None:
            if os.name == "posix":
                reaper.kill(self.mark, [self.process.pid])
            else:
                self.process.kill()

    def how_it_ended(self) -> str:
        if self.overdue or self.process is None:
            return super().how_it_ended()
        self.process.join(SECONDS_TO_END)
        code = self.process.exitcode
        if code is None:
            return super().how_it_ended()
        return f"was ended by {signal_name(-code)}" if code < 0 else f"ended itself with exit code {code}"

    def ask_to_end(self) -> None:
        """Ask it to end, without waiting for it."""
        if self.pipes:
            slow = Background.left or any(due and self.is_slow(line) for line, due in enumerate(self.due))
            self.until = time.monotonic() + (SECONDS_TO_STOP if slow else SECONDS_TO_END)
        for place, pipe in enumerate(self.pipes):
            if not self.gone and not is_full(pipe):  # else it learns by the end of the pipe, once it listens
                with contextlib.suppress(WorkerGone):
                    self.tell(pickle.dumps((place, CLOSE)), place)
            pipe.close()
        self.due, self.pipes = [], []

    def end(self) -> None:
        self.ask_to_end()
        with self.changing:
            if self.process is None:
                return
            number = self.process.pid
            if not self.gone:
                self.process.join(max(0.0, self.until - time.monotonic()))
            if self.gone or self.process.exitcode != 0:  # it has not closed what its environments had started
                self.kill()
            self.process.join()
            self.process.close()
            self.process = None
        if self.guard is not None and number is not None:
            self.guard.hear_of("-", number)


def is_full(pipe: Connection) -> bool:
    """Return whether a message would wait, as the other side does not read."""
    return os.name == "posix" and not select.select([], [pipe], [], 0.0)[1]


def is_over(process: BaseProcess | None) -> bool:
    """Return whether a process has ended, without taking note of it."""
    if process is None or process.pid is None or not hasattr(os, "waitid"):
        return False
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except OSError:
        return True


def signal_name(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe_start_failure(error: OSError) -> str:
    """Describe the failure to start a worker, and a remedy."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return (
            f"A worker could not be started ({error.strerror}); give fewer workers or worker threads, or raise the "
            f"limit with ulimit -n{allowed_files()}."
        )
    return f"A worker could not be started ({error.strerror or error}); give fewer workers."


def allowed_files() -> str:
    """Return the limit of open files of this process, as an end of a sentence; empty if it is unknown."""
    try:
        import resource
    except ImportError:
        return ""
    return f", which is {resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,} here"


class Lane:
    """The pool's record of a lane: its worker, its place, and its environments."""

    def __init__(self, worker: Worker, place: int, rows: tuple[int, int]):
        self.worker, self.place = worker, place
        self.first, self.num_envs = rows

    @property
    def rows(self) -> slice:
        return slice(self.first, self.first + self.num_envs)

    def tell(self, *what: Any) -> None:
        self.worker.tell(pickle.dumps((self.place, *what)), self.place)

    def answer(self) -> Any:
        """Wait for the answer. Raise `ForageError` if the lane failed, and `WorkerGone` where it is no more."""
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
