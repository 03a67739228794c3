"""The profile of a table: the kinds, ranges and gaps of its columns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from forage.core.columns import NAMELESS, NO, YES, read_date
from forage.data.tables.source import Cells, Source, Texts

MOST_NAMES = 64  # of a category; a column with more of them identifies rows or episodes


MOST_WHOLE = 32  # different whole numbers of an action that are taken for names


KNOWN = 4 * MOST_NAMES  # different texts that are counted


SHARE = 0.8  # of a column's cells that make it one of numbers or dates


@dataclasses.dataclass
class ColumnProfile:
    """The profile of one column."""

    name: str
    rows: int = 0
    blank: int = 0  # cells without a value
    first_blank: int | None = None  # row
    numbers: int = 0  # cells that are numbers
    whole: bool = True  # all numbers are whole
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    dates: int = 0
    earliest: str = ""
    latest: str = ""
    texts: dict[str, int] = dataclasses.field(default_factory=dict)  # how often each is there, up to `KNOWN` of them
    many: bool = False  # there are more of them
    others: dict[str, list[int]] = dataclasses.field(default_factory=dict)  # texts that are no number: count, first row

    def see(self, cells: Cells, source: Source, row: int) -> None:
        """Take a batch of cells in. `row`: the number of the first."""
        if not isinstance(cells, Texts):
            self._see_numbers(cells, row)
            return
        counts = np.bincount(cells.codes[cells.codes >= 0], minlength=len(cells.names))
        blank = np.array([source.is_blank(name) and name.lower() not in NAMELESS for name in cells.names] + [True])
        self._see_missing(blank[cells.codes], row)
        self.rows += len(cells.codes)
        present = [
            (n, int(c), i) for i, (n, c) in enumerate(zip(cells.names, counts, strict=True)) if c and not blank[i]
        ]
        for name, count, _ in present:
            if name in self.texts or len(self.texts) < KNOWN:
                self.texts[name] = self.texts.get(name, 0) + count
            else:
                self.many = True
        values = parse_numbers([name for name, _, _ in present], source)
        known = ~np.isnan(values)
        weights = np.array([count for _, count, _ in present], float)
        self._see_range(values[known], weights[known])
        dated: list[str] = []
        for (name, count, code), number in zip(present, known.tolist(), strict=True):
            if number:
                continue
            if read_date(name) is not None:
                self.dates += count
                dated.append(name)
            if name in self.others:
                self.others[name][0] += count
            elif len(self.others) < KNOWN:
                self.others[name] = [count, row + int((cells.codes == code).argmax())]
        if dated:
            keyed = sorted([*dated, *filter(None, (self.earliest, self.latest))], key=lambda x: read_date(x) or 0)
            self.earliest, self.latest = keyed[0], keyed[-1]

    def _see_missing(self, missing: np.ndarray, row: int) -> None:
        if missing.any():
            self.blank += int(missing.sum())
            self.first_blank = row + int(missing.argmax()) if self.first_blank is None else self.first_blank

    def _see_numbers(self, values: Float[np.ndarray, " row"], row: int) -> None:
        self.rows += len(values)
        self._see_missing(np.isnan(values), row)
        present, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        self._see_range(present, counts)
        if len(present) + len(self.texts) > 2 * KNOWN:
            self.many = True
            return
        for value, count in zip(present.tolist(), counts.tolist(), strict=True):
            text = f"{value:g}"
            self.texts[text] = self.texts.get(text, 0) + count

    def _see_range(self, values: np.ndarray, weights: np.ndarray) -> None:
        if not len(values):
            return
        self.numbers += int(weights.sum())
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self.total += float(values @ weights)
        self.whole = self.whole and bool((values == np.round(values)).all())

    @property
    def nameless(self) -> dict[str, list[int]]:
        """Return the texts that are missing cells among numbers, each with its count and first row."""
        return {text: at for text, at in self.others.items() if text.lower() in NAMELESS}

    @property
    def missing(self) -> int:
        """Return the number of missing cells; a word such as `none` is a name among names."""
        return self.blank + (0 if self.kind in ("category", "text") else sum(n for n, _ in self.nameless.values()))

    @property
    def first_missing(self) -> int | None:
        """Return the row of the first missing cell."""
        rows = [] if self.kind in ("category", "text") else [row for _, row in self.nameless.values()]
        return min([*rows, *([] if self.first_blank is None else [self.first_blank])], default=None)

    @property
    def kind(self) -> str:
        """Return the kind of the cells: that of a `Column`, `text` for many names, or `empty`."""
        present = self.rows - self.blank - sum(count for count, _ in self.nameless.values())
        if not present:
            return "empty"
        words = {text.lower() for text in self.texts if text not in self.nameless}
        if not self.many and words <= {*YES, *NO} and self.others.keys() - self.nameless.keys():
            return "boolean"
        if self.numbers >= SHARE * present:
            return "number"
        if self.dates >= SHARE * present:
            return "date"
        return "text" if self.many or len(self.texts) > MOST_NAMES else "category"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of a category, sorted, and the words for no and yes of a boolean."""
        if self.kind != "boolean":
            return tuple(sorted(self.texts, key=lambda x: (0.0 if self.others else float(x), x)))
        found = {text.lower() in YES: text for text in self.texts if text not in self.nameless}
        return found.get(False, "no"), found.get(True, "yes")

    def odd(self) -> dict[str, list[int]]:
        """Return the texts that the kind of the column does not take, each with its count and first row."""
        if self.kind == "number":
            return {text: at for text, at in self.others.items() if text not in self.nameless}
        if self.kind == "date":
            return {t: at for t, at in self.others.items() if read_date(t) is None and t not in self.nameless}
        return {}

    def range_words(self) -> str:
        """Describe the values for a terminal."""
        kind = self.kind
        if kind == "number":
            return f"{self.low:.6g} to {self.high:.6g}, mean {self.total / max(self.numbers, 1):.4g}"
        if kind == "date":
            return f"{self.earliest} to {self.latest}" if self.earliest else f"{self.low:.6g} to {self.high:.6g}"
        if kind in ("category", "boolean"):
            shown = [name for name in self.names if name in self.texts]
            return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
        return f"{'more than ' if self.many else ''}{len(self.texts):,} different" if kind == "text" else "no cell"


def parse_numbers(names: Sequence[str], source: Source) -> Float[np.ndarray, " name"]:
    """Return the number of each text, NaN where it is none."""
    texts = names if source.dialect.decimal == "." else [name.replace(source.dialect.decimal, ".") for name in names]
    try:
        return np.array(texts, dtype=np.str_).astype(np.float64) if texts else np.zeros(0)
    except ValueError:
        found = [source.number(name) for name in names]
        return np.array([np.nan if x is None else x for x in found])


def profile_columns(source: Source, names: Iterable[str] | None = None) -> dict[str, ColumnProfile]:
    """Return the profiles of columns, all by default, in one pass over the table."""
    wanted = list(source.names if names is None else names)
    found, row = {name: ColumnProfile(name) for name in wanted}, 0
    for batch in source.batches(wanted):
        for name, cells in batch.items():
            found[name].see(cells, source, row)
        row = found[wanted[0]].rows
    return found
