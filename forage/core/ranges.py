"""Ranges of hyper-parameters, the numbers that may be and how to say them, and relations between two of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from forage.core.errors import ForageError

FORMS = {
    "linear": "linear:FROM,TO or linear:FROM,TO,UNTIL",
    "cosine": "cosine:FROM,TO or cosine:FROM,TO,UNTIL",
    "exponential": "exponential:FROM,TO or exponential:FROM,TO,UNTIL",
    "step": "step:FIRST,NEXT@WHEN,...",
    "warmup": "warmup:PEAK,UNTIL or warmup:PEAK,UNTIL,TO",
}
"""Schedules of a number in words. UNTIL and WHEN are shares of the run, as in `linear:3e-4,0,0.5`; UNTIL is 1 by
default.
"""


class Range(NamedTuple):
    """The numbers from `low` to `high`; without the ends that are left out. `Range()` is any number."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False  # never `low` itself
    below: bool = False  # never `high` itself

    def fits(self, number: float) -> bool:
        """Return whether a number is one of them; NaN never is."""
        lower = self.low < number if self.above else self.low <= number
        return lower and (number < self.high if self.below else number <= self.high)

    def words(self) -> str:
        """Describe the allowed numbers."""
        if (self.low, self.high) == (-math.inf, math.inf):
            return "a number"
        upper = f"below {self.high:g}" if self.below else f"{self.high:g}"
        if self.low == -math.inf:
            return upper if self.below else f"{upper} or less"
        lower = f"above {self.low:g}" if self.above else f"{self.low:g}"
        if self.high == math.inf:
            return lower if self.above else f"{lower} or more"
        if self.above:
            return f"{lower} and {upper}" if self.below else f"{lower} and at most {upper}"
        return f"from {lower} to {upper}"


Ranges = Mapping[str, Range]
"""By the name of a field. A part's `ranges: ClassVar[Ranges]` go before those that all parts share."""


def declared_range(cls: type, field: str) -> Range | None:
    """Return the range of a field as its class or a base class declares it; `None` without one."""
    for base in cls.__mro__:
        if found := vars(base).get("ranges", {}).get(field):
            return found
    return None


def check_declared(cls: type, field: str, value: Any, name: str) -> None:
    """Raise `ForageError` for a number outside the range that the class declares for the field. `name`: of its part.

    What stands in for a number while a program is traced, and arrays, are not looked at.
    """
    wanted = declared_range(cls, field)
    if wanted is not None and isinstance(value, int | float) and not wanted.fits(value):
        raise ForageError(f"{field} of {name} is {wanted.words()}, not {value:g}.")


def check_all_declared(part: Any, name: str) -> None:
    """Raise `ForageError` for the first field of a part, or of an environment within it, that cannot be as it is."""
    while part is not None:
        for field, value in vars(part).items():
            check_declared(type(part), field, value, name)
        part = getattr(part, "environment", None)


def check_order(part: Any, low: str, high: str, equal: bool = False) -> None:
    """Raise `ForageError` unless the option `low` is below `high`, or with `equal` at most that.

    Numbers that a program traces are not compared.
    """
    least, most = getattr(part, low), getattr(part, high)
    if not (isinstance(least, int | float) and isinstance(most, int | float)):
        return
    if not (least < most or (equal and least == most)):
        words = "at most" if equal else "below"
        raise ForageError(f"{low} of {type(part).__name__} is {words} {high}, and {least:g} is not {words} {most:g}.")


def check_minibatches(agent: Any, number: int, items: str) -> None:
    """Raise `ForageError` unless the agent's `minibatches` divide this number."""
    if number % agent.minibatches:
        raise ForageError(
            f"{type(agent).__name__} cannot cut {number} {items} into {agent.minibatches} equal minibatches; give "
            f"minibatches that divide them."
        )


def check_segments(agent: Any) -> None:
    """Raise `ForageError` if an agent begins to learn before its replay memory holds one of its segments."""
    least = agent.segment * agent.num_envs
    if agent.learning_starts < least:
        raise ForageError(
            f"{type(agent).__name__} replays segments of {agent.segment} steps from {agent.num_envs} environments, so "
            f"it can start to learn after {least} steps, not {agent.learning_starts}; raise learning_starts."
        )
