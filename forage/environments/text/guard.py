"""Verifiers within bounds: a crash, a hang or an invalid verdict costs one sample and not the run."""

from __future__ import annotations

import math
import numbers
import pickle
import threading
from collections import Counter
from functools import partial
from typing import Any

from forage.core.errors import ForageError
from forage.environments.text.problems import Family, Problem, Verdict
from forage.environments.text.process import Process, ProcessPool, Silent

NOT_FINITE = tuple(f"the verifier returned the truth {value}" for value in ("nan", "inf", "-inf"))
"""The beginnings of reasons that are a fault of the verifier, and no limit of a text."""


def sound(found: Any) -> Verdict:
    """Return a valid verdict unchanged; turn any other value into a failed verdict that describes it."""
    if not isinstance(found, tuple) or len(found) != len(Verdict._fields):
        return failed_verdict(f"the verifier returned {found!r:.80} and no verdict")
    form, truth, failure = found
    form, truth = plain_scalar(form), plain_scalar(truth)
    number = float(truth) if isinstance(truth, numbers.Real) else math.nan
    if not 0 <= number <= 1:
        return failed_verdict(f"the verifier returned the truth {truth!r:.80}, which is no number from 0 to 1")
    if not isinstance(form, bool) or not isinstance(failure, str):
        return failed_verdict(f"the verifier returned the format {form!r:.80}, which is neither True nor False")
    return Verdict(form, number, failure)


def plain_scalar(value: Any) -> Any:
    """Return a number or truth value of an array library, such as `numpy.float32(1)`, as Python's own."""
    single = getattr(value, "ndim", None) == 0 and hasattr(value, "item")
    return value.item() if single else value


def failed_verdict(reason: str) -> Verdict:
    """Return the verdict of a sample that could not be judged: reward 0, with the reason."""
    return Verdict(False, 0.0, reason)


def verify_in_place(family: Family, problem: Problem, text: str) -> Verdict:
    """Verify a text in this process; an exception becomes the verdict's failure."""
    try:
        return sound(family.verify(problem, text))
    except Exception as error:
        return failed_verdict(f"the verifier raised {type(error).__name__}: {error!s:.200}")


class Guard:
    """A family's verifier, with every failure turned into a failed verdict.

    A family that is `bounded` is verified in this process. Any other has processes of its own, one for each thread that
    asks at a time. One that has not answered within `seconds`, or has died, is ended, and another started for a later
    sample; a hung C function ends as well. Such a process is no sandbox: it enforces time limits, not secrecy.
    `failures` counts the reasons, and `newest` is the last of them. Close a guard after use, or use it in a `with`.
    """

    def __init__(self, family: Family, seconds: float = 5.0):
        if not seconds > 0:
            raise ForageError(f"A verifier needs more than {seconds:g} seconds to judge a text.")
        self.family, self.seconds = family, seconds
        self.failures: Counter[str] = Counter()
        self.newest = ""
        self._counting = threading.Lock()
        self._pool = None if family.bounded else ProcessPool(partial(Worker, family))

    def verify(self, problem: Problem, text: str) -> Verdict:
        """Return the verdict on a text; one with a `failure` if it could not be judged."""
        judge = partial(verify_in_place, self.family) if self.family.bounded else self._verify_in_process
        verdict = judge(problem, text)
        if verdict.failure:
            with self._counting:
                self.failures[verdict.failure] += 1
                self.newest = verdict.failure
        return verdict

    def forget(self) -> None:
        """Reset the counts, for example after texts that were written to measure their lengths."""
        self.failures.clear()
        self.newest = ""

    def _verify_in_process(self, problem: Problem, text: str) -> Verdict:
        """Ask a process of the verifier's."""
        assert self._pool is not None
        try:
            late = f"the verifier gave no verdict within {self.seconds:g} seconds"
            return sound(self._pool.ask((problem, text), self.seconds, late))
        except Silent as silent:
            return failed_verdict(str(silent))

    def close(self) -> None:
        """End the verifier's own processes."""
        if self._pool is not None:
            self._pool.close()

    def __enter__(self) -> Guard:
        """Return the guard itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the guard."""
        self.close()


class Worker(Process):
    """A process that verifies one text after the other."""

    def __init__(self, family: Family):
        try:
            packed = pickle.dumps(partial(verify_in_place, family))
        except Exception as error:
            raise ForageError(f"The family {family.name!r} cannot be sent to a process of its own: {error}.") from error
        if type(family).__module__ == "__main__":
            raise ForageError(f"The family {family.name!r} needs a file of its own, from which its process imports it.")
        super().__init__(packed, "the verifier", f"verifies {family.name!r}")
