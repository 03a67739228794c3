"""A run that fails before it has learned anything leaves no directory behind, where the next start would find one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from forage.core.errors import Interrupted
from forage.runs.locking import LOCK


@contextlib.contextmanager
def removed_if_failed(directory: Path, left_nothing: Callable[[], bool]) -> Iterator[None]:
    """Remove what a failed start leaves in a directory that was empty, and the directory.

    What has come to something stays, as `left_nothing` says, and so does what a person interrupted, who can resume it.
    """
    fresh = {path.name for path in directory.iterdir()} <= {LOCK}
    try:
        yield
    except Interrupted:
        raise
    except BaseException:
        if fresh and left_nothing():
            shutil.rmtree(directory, ignore_errors=True)
        raise
