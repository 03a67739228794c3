"""A list of the runs below a folder: agent, environment, score, date and state of each. Loads no JAX."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forage.core import records
from forage.core.errors import ForageError, check_path, nearest
from forage.core.sweep import members_of
from forage.evaluation.statistics import Score, by_setting
from forage.runs.locking import is_locked

DONE, RUNNING, STOPPED, DAMAGED = "done", "running", "stopped", "damaged"
STATES = (DONE, RUNNING, STOPPED, DAMAGED)
SORTS = ("date", "agent", "environment", "score", "steps", "state", "directory")
INSIDE = {"checkpoints", "kept"}  # folders of a run in which no other run is


class RunRow(NamedTuple):
    """One run in the list."""

    directory: str
    state: str
    agent: str = ""
    environment: str = ""
    seeds: int = 0
    steps: int = 0  # made by each seed
    total: int = 0  # asked for
    score: Score | None = None  # of a sweep, that of the best setting
    setting: str = ""  # of a sweep, the best setting
    date: str = ""  # of the newest file, to the minute
    why: str = ""  # it is damaged


def list_runs(
    folder: str | os.PathLike[str] = "runs",
    *,
    agent: str = "",
    environment: str = "",
    state: str = "",
    since: str = "",
    above: float | None = None,
    sort: str = "date",
    reverse: bool = False,
) -> list[RunRow]:
    """Return the runs below a folder, newest first.

    `agent`, `environment`: a part of the name. `state`: `done`, `running`, `stopped` or `damaged`. `since`: a date such
    as 2026-01-31, of the newest file. `above`: the lowest score. `sort`: `date`, `score` and `steps` from the highest
    down, names in order; `reverse` turns it around. Runs without a score come last.
    """
    check_path(folder)
    root = Path(folder)
    if not root.is_dir():
        raise ForageError(f"{root} is not a folder; name one that holds runs, such as runs.")
    if state and state not in STATES:
        raise ForageError(f"A run is {', '.join(STATES)}, not {state!r}{nearest(state, STATES)}")
    if sort not in SORTS:
        raise ForageError(f"Runs are sorted by {', '.join(SORTS)}, not {sort!r}{nearest(sort, SORTS)}")
    if since:
        try:
            datetime.date.fromisoformat(since)
        except ValueError:
            raise ForageError(f"A date is written as 2026-01-31, and {since!r} is not.") from None
    tests: list[Callable[[RunRow], bool]] = [
        lambda row: agent.lower() in row.agent.lower(),
        lambda row: environment.lower() in row.environment.lower(),
        lambda row: not state or row.state == state,
        lambda row: row.date >= since,
        lambda row: above is None or (row.score is not None and row.score.value >= above),
    ]
    rows = [row for row in map(describe_run, find_runs(root)) if all(test(row) for test in tests)]
    return sort_rows(rows, sort, reverse)


def sort_rows(rows: Sequence[RunRow], sort: str, reverse: bool = False) -> list[RunRow]:
    """Return the rows in order. Numbers and dates go from the highest down; runs without a score stay last."""
    rows = sorted(rows, key=lambda row: row.directory)
    if sort == "score":
        known = [row for row in rows if row.score is not None and np.isfinite(row.score.value)]
        rest = [row for row in rows if row not in known]
        return sorted(known, key=lambda row: row.score.value if row.score else 0.0, reverse=not reverse) + rest
    downward = sort in ("date", "steps")
    return sorted(rows, key=lambda row: getattr(row, sort), reverse=downward != reverse)


def find_runs(root: Path) -> Iterator[Path]:
    """Yield the directories of all runs below a folder, without following links."""
    for where, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in INSIDE and not name.startswith("."))
        if "config.json" in files:
            yield Path(where)


def describe_run(directory: Path) -> RunRow:
    """Return the row of one run. A run whose files cannot be read is a damaged one."""
    newest = max((path.stat().st_mtime for path in directory.iterdir() if path.is_file()), default=0.0)
    date = datetime.datetime.fromtimestamp(newest).isoformat(" ", "minutes")
    try:
        config = records.read_config(directory)
        evaluation = records.read_evaluation(directory)
        setting, total = best_score(config, evaluation)
        return RunRow(
            str(directory),
            run_state(directory, config, evaluation),
            config["agent"]["part"],
            environment_text(config),
            len(config["seeds"]),
            steps_made(directory, evaluation),
            config["steps"],
            total,
            setting,
            date,
        )
    except ForageError as error:
        return RunRow(str(directory), DAMAGED, date=date, why=str(error))


def run_state(directory: Path, config: dict[str, Any], evaluation: dict[str, Any] | None) -> str:
    """Return whether a run is done, running or stopped.

    Done: its score is of all the steps that were asked for, or of the end that `--stop-at` or a callback made of it.
    """
    if is_locked(directory):
        return RUNNING
    return DONE if is_done(directory, config, evaluation) else STOPPED


def is_done(directory: Path, config: dict[str, Any], evaluation: dict[str, Any] | None) -> bool:
    """Return whether a run has its final score."""
    if evaluation is None:
        return False
    made = evaluation.get("steps", config["steps"])
    if made >= config["steps"]:
        return True
    events, _ = records.read_lines(directory / "history.jsonl", records.wrong_event)
    return any(event["event"] == "stopped" and event["steps"] == made for event in events)


def steps_made(directory: Path, evaluation: dict[str, Any] | None) -> int:
    """Return the steps of each seed at the newest point of the curve, or at the score."""
    scored = (evaluation or {}).get("steps", 0)
    path = directory / "metrics.jsonl"
    if not path.exists():
        return scored
    with path.open("rb") as file:  # its last lines are enough
        file.seek(max(0, path.stat().st_size - 65536))
        lines = file.read().decode(errors="replace").splitlines()
    for line in reversed(lines):
        try:
            row = records.parse_json(line)
        except ValueError:
            continue
        if isinstance(row, dict) and not records.wrong_row(row):
            return max(scored, row["steps"])
    return scored


def best_score(config: dict[str, Any], evaluation: dict[str, Any] | None) -> tuple[str, Score | None]:
    """Return the score of a run, in a sweep that of the best setting, with the setting's name."""
    if evaluation is None:
        return "", None
    members = evaluation.get("members") or members_of(config["sweep"], config["seeds"])
    if len(members) != len(evaluation["return"]) or None in evaluation["return"]:
        return "", None  # it broke, or is of other members
    found = by_setting(members, evaluation["return"], within=records.range_in(evaluation))
    return max(found.items(), key=lambda pair: pair[1].value)


def environment_text(config: dict[str, Any]) -> str:
    """Return the name of a run's environment, with its options and wrappers."""
    stored, text = config["environment"], config["spec"]["name"]
    options = stored.get("options") or {}
    text += "".join(f" {name}={records.one_line(str(options[name]))}" for name in sorted(options))
    return text + "".join(f" +{records.one_line(str(wrapper))}" for wrapper in stored.get("wrap", []))


def row_data(row: RunRow) -> dict[str, Any]:
    """Return a row for JSON."""
    kept = None if row.score is None else {"value": row.score.value, "interval": [row.score.low, row.score.high]}
    return row._asdict() | {"score": kept}


def run_table(rows: Sequence[RunRow]) -> list[str]:
    """Return the list as lines of text, its columns as wide as their content."""
    head = ("agent", "environment", "state", "steps", "score", "date", "directory")
    body = [
        (
            row.agent,
            row.environment,
            row.state,
            f"{row.steps:,}" + (f" of {row.total:,}" if row.state != DONE and row.total else ""),
            ("" if row.score is None else str(row.score)) + (f" with {row.setting}" if row.setting else ""),
            row.date,
            records.one_line(row.directory) + (f": {row.why}" if row.why else ""),
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    lines = ([f"{text:{width}}" for text, width in zip(line, widths, strict=True)] for line in (head, *body))
    return ["  ".join(line).rstrip() for line in lines]
