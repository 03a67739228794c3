"""Standard output and error as they may be: closed, full, or of an encoding that lacks characters."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from forage.core.errors import ForageError


class OutputLost(ForageError):
    """Standard output took no more."""


told = False
"""Whether a message has reported that standard output is closed and the run continues without it."""


def prepare() -> None:
    """Open the standard streams that are closed, to nowhere, and write `?` for characters that an encoding lacks.

    The next file that is opened would get the number of a closed stream, and output of others would go into it.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):
        replace_unknown(stream)


def replace_unknown(stream: Any) -> None:
    """Let a stream write `?` for characters that its encoding lacks, instead of raising an error."""
    if getattr(stream, "errors", None) in ("strict", "surrogateescape") and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")


@contextlib.contextmanager
def replacing_unknown(stream: Any) -> Iterator[None]:
    """Let a stream write `?` for characters that its encoding lacks, for as long as the context lasts."""
    errors = getattr(stream, "errors", None)
    replace_unknown(stream)
    try:
        yield
    finally:
        if getattr(stream, "errors", None) != errors:
            stream.reconfigure(errors=errors)


def is_terminal(stream: Any) -> bool:
    """Return whether a stream is open and a terminal."""
    return stream is not None and not getattr(stream, "closed", False) and stream.isatty()


def tell(text: str) -> None:
    """Print on standard error that the run continues without standard output."""
    global told
    told = True
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def describe_loss(error: Exception) -> str:
    """Say in a sentence without an end why standard output takes no more."""
    return f"Standard output could not be written ({getattr(error, 'strerror', None) or error})"


def flush() -> OSError | ValueError | None:
    """Write the rest of the buffer of standard output. Return the error if that fails; the buffer is empty then."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        silence(sys.stdout)
        return error
    return None


def probe() -> OSError | ValueError | None:
    """Write a line's end to standard output after an error. Return the error where it takes no more."""
    if (held := flush()) is not None or sys.stdout is None:
        return held
    try:
        os.write(sys.stdout.fileno(), b"\n")
    except (OSError, ValueError) as error:
        silence(sys.stdout)
        return error
    return None


def silence(stream: Any) -> None:
    """Redirect a stream that is closed to the null device, so that its buffer causes no error at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
        stream.flush()


def leave_closed_terminal(descriptors: Sequence[int] = (1, 2)) -> None:
    """Stop writing to a terminal that was closed, as each attempt is an error."""
    try:
        import termios
    except ImportError:  # Windows
        return
    for descriptor in descriptors:
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:  # of a file or a pipe it is another
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
