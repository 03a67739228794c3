"""Locks that let one process at a time use a run's directory, and the removal of directories after a failed start."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from forage.core.errors import ForageError, RunInterrupted, warn

LOCK = ".lock"
"""A locked file in a run's directory, for file systems without locks of directories, such as network disks."""
OURS = re.compile(r"\..+\.\d+\.tmp")
"""The temporary name of a file being written: its name and the number of the process."""
LOOK = 0.05
"""Seconds between looks at a lock that another process holds."""
held: set[Path] = set()
"""Directories that this process holds. Locks of files do not exclude the process that took them."""


class DirectoryInUse(ForageError):
    """Another process holds the lock of a directory."""


@contextlib.contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Hold the lock of a run's directory, made if it is missing. The system releases it when the process ends.

    Files that a process killed while writing left in it are deleted. Raise `ForageError` if another process holds it or
    it cannot be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ForageError(f"Could not make {directory}: {error.strerror or error}.") from error
    place = directory.resolve()
    if place in held:
        raise DirectoryInUse(in_use(directory))
    with contextlib.ExitStack() as stack:
        if lock(directory, stack):
            for left in (*directory.glob(".*.tmp"), *directory.glob("checkpoints/.*.tmp")):
                if OURS.fullmatch(left.name):
                    left.unlink(missing_ok=True)
        held.add(place)
        stack.callback(held.discard, place)
        yield


def in_use(directory: Path) -> str:
    return f"{directory} is being trained by another process; wait for it or stop it."


def lock(directory: Path, stack: contextlib.ExitStack) -> bool:
    """Lock a directory, or a file in it, until `stack` is closed. Return whether it is safely locked.

    Raise `ForageError` if another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows: there is no lock, and nothing is deleted
        return False
    descriptor = os.open(directory, os.O_RDONLY)
    stack.callback(os.close, descriptor)
    try:
        for wait in (0.0, 0.02, 0.1):  # `is_locked` holds a shared lock for an instant
            time.sleep(wait)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        raise DirectoryInUse(in_use(directory)) from None
    except OSError:  # a file system that locks only files, or not at all
        pass
    try:
        descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        stack.callback(os.close, descriptor)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except (BlockingIOError, PermissionError):
        raise DirectoryInUse(in_use(directory)) from None
    except OSError as error:
        warn(f"{directory} cannot be locked ({error.strerror or error}); see to it that no other process trains there.")
        return False


@contextlib.contextmanager
def try_lock(directory: Path) -> Iterator[bool]:
    """Hold the lock of a directory, made if it is missing, unless another process does; yield whether it is held."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock_directory(directory))
        except DirectoryInUse:
            yield False
            return
        yield True


@contextlib.contextmanager
def wait_for_lock(directory: Path, note: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock of a directory, made if it is missing, as soon as no other process does.

    `note` is called once if it has to wait. The system releases the lock of a process that dies.
    """
    waits = False
    while True:
        with try_lock(directory) as free:
            if free:
                yield
                return
        if not waits:
            waits = True
            note()
        time.sleep(LOOK)


def is_locked(directory: Path) -> bool:
    """Return whether a process holds the lock of a directory; leaves the lock as it is."""
    try:
        import fcntl
    except ImportError:
        return False
    if directory.resolve() in held:  # to close a file of ours would release its lock
        return True
    for path, take in ((directory, fcntl.flock), (directory / LOCK, fcntl.lockf)):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            # Shared, and for an instant; `lock` tries again for longer than that.
            take(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return True
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return False


RUNS = Path("runs")
"""The directory of runs that are given none; it is made with the first."""


@contextlib.contextmanager
def hold_new_directory(directory: Path, left_nothing: Callable[[], bool]) -> Iterator[None]:
    """Hold the lock of a directory for a new run, and remove its files if the start fails; see `removed_if_failed`."""
    new = [path for path in directory.parents if path == RUNS or not path.exists()]  # the innermost first
    try:
        with lock_directory(directory), removed_if_failed(directory, left_nothing):
            yield
    except BaseException:
        with contextlib.suppress(OSError):  # other runs lie there, or this one stays
            for path in new:
                path.rmdir()
        raise


@contextlib.contextmanager
def removed_if_failed(directory: Path, left_nothing: Callable[[], bool]) -> Iterator[None]:
    """Remove the files of a failed start from a directory that was empty, and the directory.

    They stay unless `left_nothing()` is true, and after an interruption, as the run can be resumed.
    """
    fresh = {path.name for path in directory.iterdir()} <= {LOCK}
    try:
        yield
    except RunInterrupted:
        raise
    except BaseException:
        if fresh and left_nothing():
            shutil.rmtree(directory, ignore_errors=True)
        raise
