"""Workers that do not answer: a thread that looks at all of them, and kills one whose answer is overdue.

Whoever waits for a worker that is killed hears that it is gone, as of any other death, wherever it waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from forage.core.compiling import stop
from forage.loop.cluster.process import Worker

BEGINNING = 600.0  # seconds for making environments, or compiling, at least
STOPPING = 10.0  # seconds for any answer, at most, once the run was asked to stop
LOOKS = 8  # in the time that a worker has


class Silence(threading.Thread):
    """Measures the time that each worker has owed an answer, by its own ticks: none passes while this process is
    stopped.
    """

    def __init__(self, workers: Sequence[Worker], seconds: float):
        super().__init__(name="forage-silence", daemon=True)
        self.workers, self.seconds = workers, seconds
        self.every = min(1.0, seconds / LOOKS)
        self.over = threading.Event()
        self.since: dict[tuple[int, int], tuple[tuple[int, Any], float]] = {}  # by worker and line: state, seconds

    def run(self) -> None:
        """Look at all workers, again and again."""
        last = time.monotonic()
        while not self.over.wait(self.every):
            now = time.monotonic()
            self.look(min(now - last, 2 * self.every))
            last = now

    def look(self, passed: float) -> None:
        """Count `passed` seconds for the workers that owed an answer then and still owe the same."""
        for number, worker in enumerate(self.workers):
            for line in range(worker.lines):
                sitting = worker.sittings
                try:
                    came = worker.waits(line)
                except (IndexError, OSError, ValueError):  # it is being ended, or started
                    came = None
                if came is None:
                    self.since.pop((number, line), None)
                    continue
                state, silent = self.since.get((number, line), ((-1, None), 0.0))
                silent = silent + passed if state == (sitting, came) else 0.0
                self.since[number, line] = (sitting, came), silent
                allowed = max(self.seconds, BEGINNING) if worker.is_slow(line) else self.seconds
                allowed = min(allowed, STOPPING) if stop.by else allowed
                if silent > allowed:
                    worker.fell_silent(sitting, allowed)

    def stop(self) -> None:
        """End, once the current look is over."""
        self.over.set()
        if self.is_alive():
            self.join()
