"""Ranges of hyper-parameters: the numbers that may be, and how to say them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple


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
        """Say which numbers they are."""
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
