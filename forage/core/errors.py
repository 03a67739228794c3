"""The one error type of Forage. Imports no large package: the command line answers before JAX is loaded."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import sys
import warnings
from collections.abc import Iterable
from typing import Any, TextIO

from forage.core.elsewhere import ours


class ForageError(Exception):
    """An error that a person can mend. Its text is one sentence: the mistake, and an input that would have worked."""


class RunInterrupted(ForageError):
    """A person stopped the run; all is saved."""


class InterruptedCompiling(RunInterrupted):
    """A person stopped the run while a program was compiled or a worker began; the caller saves the run so far."""


class Notice(UserWarning):
    """A warning of one sentence for the person who uses Forage; the command line shows the sentence alone."""


def warn(sentence: str) -> None:
    """Warn the person who uses Forage."""
    warnings.warn(sentence, Notice, stacklevel=3)


def complain(text: str) -> None:
    """Print one sentence on standard error, if that can still be written."""
    from forage.core.records import printable

    said = printable(" ".join(text.split()))
    with contextlib.suppress(OSError, ValueError):
        print(said if said.endswith((".", "?")) else f"{said.rstrip(':')}.", file=sys.stderr, flush=True)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a notice of Forage's as its sentence, and any other warning as Python does."""
    if issubclass(category, Notice):
        complain(str(message))
    else:
        print(warnings.formatwarning(message, category, filename, lineno, line), end="", file=file or sys.stderr)


def words_of(error: BaseException) -> str:
    """Return the kind of an error and its message, also where that cannot be had."""
    try:
        said = str(error) or "no message"
    except Exception:
        said = "a message that cannot be shown"
    return f"{type(error).__name__}: {said}"


def check_path(path: Any) -> None:
    """Raise `ForageError` for a path that can name no file here, or none that this person may look at."""
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.EACCES, errno.ELOOP, errno.EINVAL):
            raise ForageError(unusable(error, path)) from error
    except ValueError as error:  # a null byte, or half a character
        raise ForageError(f"{os.fspath(path)!r} is no path ({error}); give one without such characters.") from error


def unusable(error: OSError, path: Any = None) -> str:
    """Say in a sentence why the system refuses a path, that of the error unless another one is given."""
    text = os.fsdecode(error.filename if path is None else path)
    name = text if len(text) <= 100 else f"{text[:60]}...{text[-20:]}"
    if error.errno == errno.ENAMETOOLONG:
        return f"{name} is a longer name than the file system allows; a shorter one works."
    return f"{name} cannot be used: {error.strerror}."


def nearest(word: str, known: Iterable[str], prefix: str = "", cutoff: float = 0.5) -> str:
    """Return the end of a sentence about an unknown word: which known ones were meant, or all when they are few.

    A name of another library is answered with ours; hyphens are as good as underscores. `prefix` goes before each name
    that is shown.
    """
    folded = {folded_name(name): name for name in known}
    word = folded_name(word)
    close = ours(word, {name: name for name in folded})
    close = close or [name for name in folded if word and name.startswith(word)][:3]
    close = close or difflib.get_close_matches(word, folded, n=3, cutoff=cutoff)
    if not close and not 0 < len(folded) <= 12:
        return "."
    shown = [prefix + folded[name] for name in close or folded]
    return did_you_mean(shown) if close else f". Available: {', '.join(shown)}."


def folded_name(name: str) -> str:
    """Return a name as it is compared with others."""
    return name.lower().replace("-", "_")


def did_you_mean(names: Iterable[str]) -> str:
    """Return the end of a sentence that proposes `names`; empty if there are none."""
    shown = " or ".join(repr(name) for name in names)
    return f". Did you mean {shown}?" if shown else ""
