"""Curves as files: those of other programs, to compare with, and raw curves by seed, for others to draw."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.errors import ForageError
from forage.core.records import one_line
from forage.core.storage import archives
from forage.core.sweep import members_of
from forage.evaluation.curves import align_curves
from forage.runs.curve import Curve
from forage.runs.run import Run

NAMES = {
    "step": ("step", "steps", "global_step", "timesteps", "total_timesteps", "env_steps"),
    "return": ("return", "returns", "episode_return", "episodic_return", "reward", "score", "r"),
    "seed": ("seed", "seeds", "run"),
}
"""The columns of a foreign curve, each with the names that it may have."""


class CurveFile(Run):
    """The learning curves of another program, by seed, read like a run that was never evaluated.

    A CSV has a line for each point: its step, return and seed (without that column, all are of one). A seed's last
    value stands between its points; the curves end at the last step that all seeds reach.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.directory = Path(path)
        self.curves = read_curves(self.directory)
        aligned = align_curves([(steps, values[None]) for steps, values in self.curves.values()])
        if aligned is None or not np.isfinite(aligned[1]).any(axis=1).all():
            raise ForageError(f"The seeds in {self.directory} have no step in common; compare curves that overlap.")
        self.steps, self.returns = aligned
        self.config = {
            "agent": {"part": one_line(self.directory.stem)},
            "environment": {},
            "seeds": list(self.curves),
            "sweep": {},
            "steps": int(self.steps[-1]),
            "spec": {"name": "", "reward_names": []},
        }

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the points of the curve."""
        return [
            {"steps": int(step), "return": [None if math.isnan(value) else value for value in values]}
            for step, values in zip(self.steps.tolist(), self.returns.T.tolist(), strict=True)
        ]

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        return []

    @property
    def evaluation(self) -> dict[str, Any] | None:
        return None

    @property
    def unit(self) -> str:
        return "environment steps"

    def curve(self, evaluated: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps, and the return of each seed at each of them."""
        return Curve(self.steps, self.returns)


def read_curves(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the steps and returns of each seed in a CSV. Raise `ForageError` for columns and lines that are wrong."""
    try:
        lines = csv.reader(io.StringIO(path.read_text("utf-8-sig")))
        head = [name.strip().lower() for name in next(lines, [])]
        rows = [(number, row) for number, row in enumerate(lines, 2) if any(cell.strip() for cell in row)]
    except (OSError, ValueError, csv.Error) as error:
        raise ForageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    places = {what: next((head.index(name) for name in names if name in head), None) for what, names in NAMES.items()}
    for what in ("step", "return"):
        if places[what] is None:
            found = ", ".join(one_line(name) for name in head[:8]) or "none"
            raise ForageError(
                f"{path} has no column {what!r}; its columns are {found}. A curve has step, return, seed."
            )
    points: dict[str, dict[float, float]] = {}
    for number, row in rows:
        try:
            step, value = (float(row[places[what] or 0]) for what in ("step", "return"))
            if not math.isfinite(step) or step < 0 or math.isinf(value):
                raise ValueError(step)
            seed = "0" if places["seed"] is None else one_line(row[places["seed"]].strip())
        except (ValueError, IndexError):
            raise ForageError(
                f"Line {number} of {path} is no point: step and return are numbers, step 0 or more."
            ) from None
        if step in points.setdefault(seed, {}):
            raise ForageError(
                f"Line {number} of {path} has step {step:g} of seed {seed} again; name each seed in a column seed."
            )
        points[seed][step] = value
    if not points:
        raise ForageError(f"{path} has no point below its head.")
    return {
        seed: (np.array(sorted(found)), np.array([found[step] for step in sorted(found)]))
        for seed, found in points.items()
    }


def write_curves(path: str | os.PathLike[str], runs: Sequence[tuple[str, str, Run]]) -> Path:
    """Write the points of runs by seed, as a CSV or a Parquet file by the suffix. Return its path.

    `runs`: a label, an environment and a run each. A line has these, the seed, the settings of a sweep, the step, and
    all metrics of the point; `kind` is `training` or `evaluation`.
    """
    path = check_curve_suffix(path)
    rows = [
        {"label": label, "environment": environment, "kind": kind, "step": point["steps"], **member}
        | {name: value[at] if isinstance(value, list) else value for name, value in point.items() if name != "steps"}
        for label, environment, run in runs
        for kind, points in (("training", run.rows), ("evaluation", run.evaluations))
        for at, member in enumerate(members_of(run.config["sweep"], run.config["seeds"]))
        for point in points
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".parquet":
        data = parquet_bytes(rows, names)
    else:
        file = io.StringIO()
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        data = file.getvalue().encode()
    archives.write_atomically(path, lambda file: file.write(data))
    return path


def check_curve_suffix(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file of curves. Raise `ForageError` if its suffix is that of none."""
    path = Path(path)
    if path.suffix not in (".csv", ".parquet"):
        raise ForageError(f"Curves are a .csv or a .parquet, and {path.name} is neither.")
    return path


def parquet_bytes(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> bytes:
    """Return rows as a Parquet file. Raise `ForageError` without pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ForageError(
            "A Parquet file needs pyarrow: pip install 'forage-rl[parquet]'; a .csv needs none."
        ) from None
    columns = {name: [row.get(name) for row in rows] for name in names}
    columns["seed"] = [str(seed) for seed in columns["seed"]]  # names in foreign curves
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue().to_pybytes()
