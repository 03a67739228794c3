"""CSV: RUN/metrics.csv, a row for each step and a column for each number, for spreadsheets and pandas."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, ClassVar

from forage.core import checkpoint
from forage.core.plain import dumps
from forage.runs.trackers.base import Tracker


class Csv(Tracker):
    """A table of the curve, the evaluations and the score. The configuration is in metrics.config.json next to it."""

    rewrites: ClassVar[bool] = True

    def __init__(self, directory: Path, config: dict[str, Any], again: bool) -> None:
        self.path = directory / "metrics.csv"
        self.rows: dict[int, dict[str, float]] = {}
        (directory / "metrics.config.json").write_text(dumps(config, indent=1) + "\n")

    def write(self, steps: int, numbers: dict[str, float]) -> None:
        """Rewrite the table, as numbers of one step may come separately and add columns."""
        self.rows.setdefault(steps, {}).update(numbers)
        text = io.StringIO(newline="")
        names = dict.fromkeys(name for row in self.rows.values() for name in row)
        table = csv.DictWriter(text, ["steps", *names], lineterminator="\n")
        table.writeheader()
        table.writerows({"steps": step} | row for step, row in sorted(self.rows.items()))
        checkpoint.write_atomically(self.path, lambda file: file.write(text.getvalue().encode()))
