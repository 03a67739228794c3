"""Ends orphaned processes: workers that hang once their run is gone, and simulators that they started.

A worker leads a process group of its own and has a mark in its environment, both of which the programs it starts have
too. `kill` ends all of them. As a program, beside every pool of workers, this waits until the pool's process is gone,
and then ends its workers and their simulators, whatever those are at:

    python reaper.py MARK    # lines on its standard input: +PID of a worker that began, -PID of one that is over

It imports nothing but the standard library, as it shall be small.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

MARK = "FORAGE_WORKER"  # the variable whose value begins with the mark
GRACE = 5.0  # seconds in which workers may end by themselves once their pool is gone
PROCESSES = Path("/proc")


def find_marked_processes(mark: str) -> list[int]:
    """Return the processes that a worker with this mark has started, if the system shows their environment
    variables.
    """
    wanted, found = f"{MARK}={mark}".encode(), []
    if not PROCESSES.is_dir():
        return found
    for entry in PROCESSES.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # it has ended, or is somebody else's
                if any(one.startswith(wanted) for one in (entry / "environ").read_bytes().split(b"\0")):
                    found.append(int(entry.name))
    return found


def kill(mark: str, leaders: Iterable[int]) -> None:
    """Kill the process groups of these leaders, and all processes with this mark."""
    for leader in leaders:
        with contextlib.suppress(OSError):
            os.killpg(leader, signal.SIGKILL)
        with contextlib.suppress(OSError):  # one that had not made its group yet
            os.kill(leader, signal.SIGKILL)
    for _ in range(10):  # some may be starting others
        left = find_marked_processes(mark)
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.01)


def running(process: int) -> bool:
    """Return whether a process is there."""
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def wait_for_end(parent: int, file: int = 0) -> set[int]:
    """Wait until the parent is gone or closes its end of a pipe. Return the workers that started and have not ended."""
    workers: set[int] = set()
    rest = b""
    while os.getppid() == parent:
        if not select.select([file], [], [], 1.0)[0]:
            continue
        text = os.read(file, 4096)
        if not text:
            break
        *lines, rest = (rest + text).split(b"\n")
        for line in lines:
            (workers.add if line[:1] == b"+" else workers.discard)(int(line[1:]))
    return workers


def main() -> None:
    """Wait for the end of the parent process, and end the workers that it leaves behind."""
    mark, parent = sys.argv[1], os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with the pool
    left, until = wait_for_end(parent), time.monotonic() + GRACE
    while any(map(running, left)) and time.monotonic() < until:
        time.sleep(0.1)
    kill(mark, left)


if __name__ == "__main__":
    main()
