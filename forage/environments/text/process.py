"""A process that answers questions about texts, within time limits; it is ended where it does not."""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from forage.core.errors import ForageError
from forage.environments.text.tools.sandbox.guard import LONGER, waiting_seconds

STARTING = 60.0  # seconds in which a process has to be ready
LENGTH = struct.Struct(">Q")


class Silent(Exception):
    """The failure of a process that gave no answer, with the reason."""


class Process:
    """A process that calls a function with one question after the other.

    It is no sandbox: it enforces time limits, not secrecy. Time in which others had the processors does not count, up
    to a bound, so that an answer is the same on a busy machine. It ends with the process that made it.

    `who` names it in sentences, such as "the verifier"; `job` says what it does, such as "verifies 'addition'". The
    first message is the pickled function (`apart.py`).
    """

    def __init__(self, packed: bytes, who: str, job: str):
        self.who = who
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        # The other end of this pipe closes when this process ends, in whatever way.
        watched, self.life = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "forage.environments.text.apart", str(watched)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths},
            pass_fds=(watched,),
        )
        os.close(watched)
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        try:
            self._send(packed)
            fault, is_sentence = self._answer(STARTING, "did not start")
        except Silent as silent:
            self.end()
            raise ForageError(f"The process that {job} {silent}.") from None
        if fault:
            self.end()
            raise ForageError(fault if is_sentence else f"The process that {job} cannot load it: {fault}.")

    def ask(self, question: Any, seconds: float, late: str) -> Any:
        """Return the answer to a question. Raise `Silent` if there is none; `late` is the reason after `seconds`."""
        self._send(pickle.dumps(question))
        return self._answer(seconds, late)

    def _send(self, packed: bytes) -> None:
        """Write a message."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(LENGTH.pack(len(packed)) + packed)
            self.process.stdin.flush()
        except OSError:
            raise Silent(f"{self.who}'s process had ended") from None

    def _listen(self) -> None:
        """Read messages until the process ends."""
        assert self.process.stdout is not None
        try:
            while packed := receive(self.process.stdout):
                self.answers.put(pickle.loads(packed))
        finally:
            self.answers.put(Silent)

    def _answer(self, seconds: float, late: str) -> Any:
        """Return the next message."""
        began, before, late_by = time.monotonic(), waiting_seconds(self.process), 0.0
        while True:
            try:
                found = self.answers.get(timeout=max(began + seconds + late_by - time.monotonic(), 0))
                break
            except queue.Empty:
                waited = min(waiting_seconds(self.process) - before, (LONGER - 1) * seconds)
                if waited <= late_by:
                    raise Silent(late) from None
                late_by = waited
        if found is Silent:
            raise Silent(f"{self.who} ended its process, with exit code {self.process.wait()}")
        return found

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.listener.join()
        with suppress(OSError):
            os.close(self.life)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


class ProcessPool:
    """Processes that answer the same questions: as many as there are questions at a time."""

    def __init__(self, make: Callable[[], Process]):
        """Make the first one, so that a function that cannot be loaded is an error at once."""
        self.make, self.lock = make, threading.Lock()
        self.idle = [make()]

    def ask(self, question: Any, seconds: float, late: str) -> Any:
        """Return the answer of an idle process. See `Process.ask`; a silent one is ended."""
        with self.lock:
            process = self.idle.pop() if self.idle else None
        process = self.make() if process is None else process
        try:
            found = process.ask(question, seconds, late)
        except BaseException:
            process.end()
            raise
        with self.lock:
            self.idle.append(process)
        return found

    def close(self) -> None:
        """End all processes."""
        with self.lock:
            ended, self.idle = self.idle, []
        for process in ended:
            process.end()


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def receive(pipe: Any) -> bytes:
    """Return the next message of a pipe; empty at its end."""
    head = pipe.read(LENGTH.size)
    return pipe.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
