"""One column of a table: the kind of its cells, their numbers, and these as entries of an observation."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Shaped

from forage.core.errors import ForageError, nearest

Kind = Literal["number", "category", "boolean", "date"]
KINDS: tuple[Kind, ...] = ("number", "category", "boolean", "date")
NAMELESS = ("none", "-", "?", "unknown")
"""Cells, in lower case, that are without a value among numbers and dates, and names among names."""
MISSING = ("", "nan", "null", "na", "n/a", "#n/a", "<na>", "nat", *NAMELESS)
"""Cells without a value, in lower case."""
YES = ("yes", "true", "y", "t", "1", "on", "ja", "oui", "si")
NO = ("no", "false", "n", "f", "0", "off", "nein", "non")
MOST = float(np.finfo(np.float32).max)  # observations are of this type
ISO = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)(?:[T ](\d\d?):(\d\d)(?::(\d\d)(\.\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?")
DAY_FIRST = re.compile(r"(\d\d?)[./](\d\d?)[./](\d{4})(?:[T ](\d\d?):(\d\d)(?::(\d\d)(\.\d+)?)?)?")


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of a table: its name, the kind of its cells and the statistics of the data."""

    name: str
    kind: Kind = "number"
    names: tuple[str, ...] = ()  # of a category, in the order of their codes; of a boolean, its words for no and yes
    mean: float = 0.0  # of the data, subtracted from an observed number or date
    deviation: float = 1.0  # of the data, by which an observed number or date is divided
    low: float | None = None  # least number in the data
    high: float | None = None  # greatest number in the data
    typical: float | str | None = None  # stands for a missing cell: the median, or the most frequent name

    @property
    def width(self) -> int:
        """Return the number of entries that the column has in an observation."""
        return len(self.names) if self.kind == "category" else 1

    @property
    def numbered(self) -> bool:
        """Return whether the column is one choice out of a few."""
        return self.kind in ("category", "boolean")

    @property
    def example(self) -> float | str:
        """Return a usual cell: the typical one, else the first name, or the mean of the data."""
        if self.typical is not None:
            return self.typical
        return (self.names or ("no", "yes"))[0] if self.numbered else self.mean

    def entries(self) -> list[str]:
        """Return the names of the column's entries in an observation: `weekday=Mon` for a category's."""
        return [f"{self.name}={name}" for name in self.names] if self.kind == "category" else [self.name]

    def parse(self, cells: Any, where: str = "") -> Shaped[np.ndarray, "*batch"]:
        """Return the numbers of cells: codes of names, 0 and 1, days of dates. Raise `ForageError` for bad ones.

        `where` goes before the message. A missing cell is the typical one, if the column has one.
        """
        array = np.asarray(cells)
        if array.dtype.kind in "fiub" and self.kind in ("number", "date"):
            return self._fill(array.astype(np.float64), where)
        if array.dtype.kind == "M" and self.kind == "date":
            return date_numbers(array)
        flat = [self._one(cell, where) for cell in array.reshape(-1).tolist()]
        return np.array(flat, np.float64 if not self.numbered else np.int64).reshape(array.shape)

    def _fill(self, numbers: np.ndarray, where: str) -> np.ndarray:
        wrong = ~(np.abs(numbers) <= MOST)
        if wrong.any():
            large = numbers[wrong & ~np.isnan(numbers)]
            if large.size or self.typical is None:
                bad = large.flat[0] if large.size else np.nan
                raise ForageError(f"{where}column {self.name} takes a finite number, not {bad}.")
            numbers = np.where(wrong, float(self.typical), numbers)
        return numbers

    def _one(self, cell: Any, where: str) -> float | int:
        """Return the number of one cell."""
        text = str(cell).strip()
        blank = cell is None or text.lower() in MISSING
        if blank and text not in self.names:
            if self.typical is None:
                raise ForageError(f"{where}column {self.name} has no value; it takes {self.words}.")
            return self._one(self.typical, where) if self.numbered else float(self.typical)
        if self.kind == "category":
            if text in self.names:
                return self.names.index(text)
            if isinstance(cell, float) and cell.is_integer() and str(int(cell)) in self.names:
                return self.names.index(str(int(cell)))
            raise ForageError(f"{where}column {self.name} takes {self.words}, not {text!r}{nearest(text, self.names)}")
        if self.kind == "boolean":
            if text in self.names:
                return self.names.index(text)
            if text.lower() in YES or text.lower() in NO:
                return int(text.lower() in YES)
            if cell in (0.0, 1.0):
                return int(cell)
            raise ForageError(f"{where}column {self.name} takes {self.words}, not {text!r}.")
        number = read_date(text) if self.kind == "date" and not isinstance(cell, int | float) else as_number(text)
        if number is None or not abs(number) <= MOST:
            raise ForageError(f"{where}column {self.name} takes {self.words}, not {text!r}.")
        return number

    @property
    def words(self) -> str:
        """Describe the values that the column takes."""
        if self.kind == "category":
            shown = ", ".join(self.names[:8])
            return shown if len(self.names) <= 8 else f"{shown} or another of its {len(self.names)} names"
        if self.kind == "boolean":
            return " or ".join(self.names or ("no", "yes"))
        return "a date such as 2024-01-31" if self.kind == "date" else "a number"

    def encode(self, numbers: np.ndarray) -> Float[np.ndarray, "*batch entry"]:
        """Return the entries of an observation for the numbers that `parse` gave."""
        if self.kind == "category":
            return np.eye(len(self.names), dtype=np.float32)[np.asarray(numbers, np.int64)]
        if self.kind == "boolean":
            return np.asarray(numbers, np.float32)[..., None]
        return ((np.asarray(numbers, np.float64) - self.mean) / self.deviation).astype(np.float32)[..., None]

    def cells(self, numbers: Any) -> Any:
        """Return the cells for numbers: names of codes, or the numbers; of one number, a text or a float."""
        array = np.asarray(numbers)
        if not self.numbered:
            return float(array) if array.ndim == 0 else array.astype(np.float64)
        names = np.array(self.names or ("no", "yes"))
        found = names[array.astype(np.int64)]
        return str(found) if array.ndim == 0 else found


def as_number(text: str) -> float | None:
    """Return the number of a text, `None` if it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def read_date(text: str) -> float | None:
    """Return a date as a number of days, `None` if the text is none.

    Every month counts 31 days, so that dates stay in order that no calendar has, such as 2024-02-30.
    """
    match, order = ISO.fullmatch(text), (0, 1, 2)
    if match is None:
        match, order = DAY_FIRST.fullmatch(text), (2, 1, 0)
    if match is None:
        return None
    parts = match.groups()
    year, month, day = (int(parts[i]) for i in order)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    hour, minute, second = (int(part or 0) for part in parts[3:6])
    days = ((year - 1970) * 12 + month - 1) * 31 + day - 1
    return days + (hour * 3600 + minute * 60 + second + float(parts[6] or 0)) / 86_400


def date_numbers(dates: Shaped[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch"]:
    """Return NumPy's dates as `read_date` returns texts; NaN for a missing one."""
    months = dates.astype("datetime64[M]")
    days = dates.astype("datetime64[D]")
    rest = (dates.astype("datetime64[us]") - days).astype(np.int64) / 86_400e6
    number = months.astype(np.int64) * 31.0 + (days - months.astype("datetime64[D]")).astype(np.int64) + rest
    return np.where(np.isnat(dates), np.nan, number)
