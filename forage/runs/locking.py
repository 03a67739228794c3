"""One process at a time for each run's directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from forage.core.types import ForageError


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold a run's directory, which is made if need be. The system lets go when the process ends, however it ends.

    Also takes away what a process that was killed while it wrote left behind.
    Raises `ForageError` where another process holds it or it cannot be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ForageError(f"Could not make {directory}: {error.strerror or error}.") from error
    with contextlib.ExitStack() as stack:
        try:
            import fcntl
        except ImportError:  # Windows: nothing is held, and nothing is swept away
            pass
        else:
            descriptor = os.open(directory, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ForageError(f"{directory} is being trained by another process; wait for it or stop it.") from None
            except OSError:
                pass  # a file system without locks
            else:
                for left in (*directory.glob(".*.tmp"), *directory.glob("checkpoints/.*.tmp")):
                    left.unlink(missing_ok=True)
        yield
