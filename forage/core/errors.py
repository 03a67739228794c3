"""The one error type, and what would have worked. Loads nothing large: the command line answers before JAX is there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from forage.core.elsewhere import ours


class ForageError(Exception):
    """Something a person can mend. Its text is one sentence: what was wrong and what would have worked."""


class Interrupted(ForageError):
    """A person stopped the run; all is saved."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean a or b?`, or all that is known when there is little, or nothing.

    A name of another library is answered with ours.
    """
    known = list(known)
    folded = {name.lower(): name for name in known}
    close = ours(word, {name.replace("-", "_"): name for name in known})
    close = close or [folded[name] for name in difflib.get_close_matches(word.lower(), folded, n=3, cutoff=0.5)]
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there are {', '.join(known)}." if len(known) <= 12 else "."
