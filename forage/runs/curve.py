"""The points of a run: the learning curve, the totals between its points, and texts of its evaluations."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forage.core import records
from forage.core.host import Conversation
from forage.core.plain import dumps
from forage.core.records import wrong_texts
from forage.core.storage import archives
from forage.core.types import ForageError
from forage.evaluation.plots import sparkline


class Curve(NamedTuple):
    """A learning curve of each member of a run."""

    steps: np.ndarray  # point
    returns: np.ndarray  # member point; NaN where no episode ended

    def __repr__(self) -> str:
        number = len(self.steps)
        members = f"{len(self.returns)} member{'s' if len(self.returns) > 1 else ''}"
        if not number or not np.isfinite(self.returns).any():
            return f"<Curve: {number} points of {members}, no return yet>"
        ended = np.isfinite(self.returns).any(0)
        means = np.full(number, np.nan)
        means[ended] = np.nanmean(self.returns[:, ended], axis=0)
        last = int(np.flatnonzero(ended)[-1])
        return (
            f"<Curve: {number} points of {members}, {sparkline(means, 24)} "
            f"mean return {means[last]:.4g} at {self.steps[last]:,} steps>"
        )


class Totals:
    """Totals since the last point of the curve, for each member.

    A checkpoint keeps these sums, so that a point is the same whether or not the run stopped before it.
    """

    def __init__(self, sums: dict[str, Any] | None = None):
        self.sums = {name: np.asarray(value, float) for name, value in (sums or {}).items()}

    def plain(self) -> dict[str, Any]:
        """Return the sums for JSON, exactly."""
        return {name: value.tolist() for name, value in self.sums.items()}

    def add(self, report: Any) -> None:
        """Add a `loop.Report` with leaves `member ...`."""
        episodes, updates = report.episodes, np.asarray(report.metrics["updates"], float)
        self._add("episodes", episodes.count)
        self._add("return", episodes.episode_return)
        self._add("length", episodes.length)
        for name, value in report.latest.items():
            self.sums[f"latest {name}"] = np.asarray(value, float)
        for name, (total, count) in report.infos.items():
            self._add(f"info {name}", total)
            self._add(f"infos {name}", count)
        for name, value in report.metrics.items():  # means over the updates
            self._add(f"metric {name}", updates if name == "updates" else np.asarray(value, float) * updates)

    def _add(self, name: str, value: Any) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + np.asarray(value, float)

    def point(
        self, reward_names: tuple[str, ...], score: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> dict[str, list[float | None]]:
        """Return the means over episodes and updates, each a list over members; `None` for a mean of none.

        `score`: the combination of several rewards' returns into one; see `Rewards.score`.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            count, updates = self.sums["episodes"], self.sums["metric updates"]
            point: dict[str, list[float | None]] = {}
            if reward_names:
                assert score is not None
                each = self.sums["return"] / count[:, None]
                point["return"] = to_float(score(each))
                point |= {f"return/{name}": to_float(each[:, i]) for i, name in enumerate(reward_names)}
            else:
                point["return"] = to_float(self.sums["return"] / count)
            point |= {"length": to_float(self.sums["length"] / count), "episodes": to_float(count)}
            point["updates"] = to_float(updates)
            for name in sorted(self.sums):
                if name.startswith("latest "):
                    point[name.removeprefix("latest ")] = to_float(self.sums[name])
                if name.startswith("metric ") and name != "metric updates":
                    point[name.removeprefix("metric ")] = to_float(self.sums[name] / updates)
            for name in (sum.removeprefix("info ") for sum in sorted(self.sums) if sum.startswith("info ")):
                point[column_name(name, point)] = to_float(self.sums[f"info {name}"] / self.sums[f"infos {name}"])
        return point


NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""A flag against links: in place of a run's file, one could lead to another user's file."""
NEWEST = 100  # episodes of a member in the mean that displays show


def token_speed(row: dict[str, Any], seconds: float) -> list[float | None]:
    """Return the tokens a second that each member wrote in its training episodes, of a row of `seconds`."""
    pairs = zip(row["tokens"], row["episodes"], strict=True)
    return [None if tokens is None else round(tokens * number / max(seconds, 1e-9), 1) for tokens, number in pairs]


def check_rewarded(rows: Sequence[dict[str, Any]]) -> None:
    """Raise `ForageError` if answers were written in all rows of a curve, and none of them had a reward."""
    if not rows or "unscored" not in rows[-1]:
        return
    for member, count in enumerate(rows[-1]["unscored"]):
        if count and not any(row["episodes"][member] for row in rows):
            raise ForageError(
                "No answer of this run had a reward, as None was returned for each of them, so nothing was learned; "
                "return a number for each answer that is to be compared with others."
            )


def newest(rows: Sequence[dict[str, Any]], least: int = NEWEST) -> list[float | None]:
    """Return each member's mean return over its newest points with `least` episodes or more, or over all of them.

    `None` for a member without a complete episode. A single point may have no episodes, or only the short ones between
    two time limits.
    """
    count = total = np.zeros(len(rows[-1]["episodes"]))
    for row in reversed(rows):
        wanted = count < least
        if not wanted.any():
            break
        episodes = np.where(wanted, np.array(row["episodes"], float), 0.0)
        total = total + episodes * np.array([0.0 if value is None else value for value in row["return"]])
        count = count + episodes
    with np.errstate(invalid="ignore"):
        return to_float(total / count)


def quiet_since(rows: Sequence[dict[str, Any]]) -> int | None:
    """Return the step since which no episode has ended, if that spans a whole point or more; else `None`.

    `rows`: the points of the curve, and the unfinished next one.
    """
    ended = [number for number, row in enumerate(rows) if any(row["episodes"])]
    if ended and ended[-1] >= len(rows) - 2:
        return None
    return rows[ended[-1]]["steps"] if ended else 0


def columns(evaluation: dict[str, Any]) -> dict[str, list[float | None]]:
    """Return the columns of an evaluation with one number for each member: returns, and the environment's own
    measures.
    """
    number = len(evaluation["members"])
    return {
        name: value
        for name, value in evaluation.items()
        if isinstance(value, list) and len(value) == number and all(isinstance(v, float | None) for v in value)
    }


def column_name(name: str, taken: Collection[str]) -> str:
    """Return the column's name for a measure of the environment: with the prefix `info/` if the name is taken."""
    return f"info/{name}" if name in {*taken, "steps", "seconds", "steps_per_second"} else name


class CurveRows:
    """The file `metrics.jsonl`: a line for each point. Rows that did not fit onto a full disk wait for the next try."""

    def __init__(self, path: Path):
        self.path = path
        self.waiting: list[str] = []

    def append(self, row: dict[str, Any]) -> None:
        """Write a row after those that wait. Raise `ForageError` if that fails, without leaving half a line."""
        self.extend([row])

    def extend(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write several rows at once, as `append` does."""
        self.waiting += [dumps(row) + "\n" for row in rows]
        self.flush()

    def flush(self, durable: bool = False) -> None:
        """Write the waiting rows; `durable` also waits for the disk."""
        if not self.waiting and not (durable and self.path.exists()):
            return
        data = memoryview("".join(self.waiting).encode())
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_LINK, 0o644)
            try:
                end = os.fstat(file).st_size
                try:
                    while data:
                        data = data[os.write(file, data) :]
                except OSError:
                    os.ftruncate(file, end)
                    raise
                if durable:
                    os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            raise ForageError(f"Could not write {self.path}: {error.strerror or error}.") from error
        self.waiting = []

    def drop_half(self) -> None:
        """Drop half a line left by a crash; the next row would be joined to it."""
        self.drop_after(math.inf)

    def drop_after(self, steps: float, by: str = "steps") -> list[int]:
        """Drop points later than `steps`, by the number called `by`, and damaged lines.

        Return the numbers of the damaged lines.
        """
        rows, damaged = records.read_lines(self.path, records.wrong_row)
        text = "".join(dumps(row) + "\n" for row in rows if row[by] <= steps).encode()
        if self.path.exists() and self.path.read_bytes() != text:
            archives.write_atomically(self.path, text)
        return damaged


def read_rows(path: Path, wrong: Callable[[dict[str, Any]], str] = records.wrong_row) -> list[dict[str, Any]]:
    """Return the whole lines of a file of rows; a damaged line is skipped.

    `wrong` returns the fault of a row, or an empty text.
    """
    return records.read_lines(path, wrong)[0]


def to_float(values: Any) -> list[float | None]:
    """Return numbers for JSON, one for each member, with `None` for those that are not finite."""
    return [float(v) if np.isfinite(v) else None for v in np.asarray(values, float).reshape(-1)]


TEXTS_KEPT = 5  # episodes of each member that are kept of an evaluation
TEXTS_FILE = "texts.jsonl"


class Texts(NamedTuple):
    """The conversations of one evaluation, so that people can read the policy's texts as it learns.

    Each evaluation leaves a line in texts.jsonl: its `steps`, and the first few episodes of each member.
    """

    steps: int  # of each member at that time
    members: list[list[Conversation]]  # each member's episodes


def texts_row(steps: int, conversations: list[list[Conversation]]) -> dict[str, Any]:
    """Return the line of an evaluation."""
    return {"steps": steps, "members": [[one._asdict() for one in each[:TEXTS_KEPT]] for each in conversations]}


def read_texts(directory: Path) -> list[Texts]:
    """Return the stored texts, oldest first; only the newest of several evaluations at one step."""

    def read_conversation(one: dict[str, Any]) -> Conversation:
        said = tuple((who, what) for who, what in one["said"])
        notes = tuple((name, value) for name, value in one.get("notes", ()))
        return Conversation(said, one["reward"], one["verdict"], one["reference"], notes)

    rows = {row["steps"]: row for row in read_rows(directory / TEXTS_FILE, wrong_texts)}
    return [
        Texts(steps, [[read_conversation(one) for one in each] for each in row["members"]])
        for steps, row in rows.items()
    ]


def first_middle_last(texts: list[Texts]) -> list[Texts]:
    """Return the first, the middle and the last of them; all if there are no more than three."""
    return texts if len(texts) < 4 else [texts[0], texts[(len(texts) - 1) // 2], texts[-1]]
