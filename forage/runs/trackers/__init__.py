"""Trackers: further destinations of a run's numbers during training. The run's own metrics.jsonl stays the source."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from forage.config.registry import load
from forage.core.errors import ForageError
from forage.core.loading import load_class, target_name
from forage.runs.run import read_json, write_json
from forage.runs.trackers.base import Tracker, final, flatten_row

TRACKERS = {
    "tensorboard": "forage.runs.trackers.services:TensorBoard",
    "wandb": "forage.runs.trackers.services:WandB",
    "mlflow": "forage.runs.trackers.services:MLflow",
    "trackio": "forage.runs.trackers.services:Trackio",
    "csv": "forage.runs.trackers.services:Csv",
}
"""`module:Class` of every tracker, by name."""

REGISTERED: dict[str, type[Tracker]] = {}

Names = str | type | Sequence[str | type]


def register_tracker(name: str, tracker: type[Tracker]) -> None:
    """Register a tracker class of the user under a name for `track=`; a resumed run looks the same name up again."""
    check_class(name, tracker)
    REGISTERED[name] = tracker


def tracker_names(asked: Names) -> list[str]:
    """Return the requested trackers' names, each once. Raise `ForageError` for an invalid tracker.

    A class of the user is named by its registered name, or by its file.
    """
    names = []
    for one in [asked] if isinstance(asked, str | type) or not isinstance(asked, Iterable) else asked:
        if isinstance(one, type):
            check_class(one.__name__, one)
            registered = next((name for name, known in REGISTERED.items() if known is one), None)
            if (found := registered or target_name(one)) is None:
                raise ForageError(
                    f"{one.__name__} is in no file that a resumed run could find; "
                    f"forage.register_tracker('name', {one.__name__}) gives it a name."
                )
            one = next((name for name, target in TRACKERS.items() if target == found), found)
        elif not isinstance(one, str):
            raise ForageError(f"A tracker is a name such as 'wandb' or a class, not a {type(one).__name__}.")
        cls = tracker_class(one)
        if (package := getattr(cls, "package", "")) and importlib.util.find_spec(package) is None:
            raise ForageError(f"The tracker {one} needs a package: pip install 'forage-rl[{one}]'.")
        names.append(one)
    return list(dict.fromkeys(names))


def tracker_class(name: str) -> type[Tracker]:
    """Return the class of a tracker: a built-in or registered name, or `module:Class` or `file.py:Class`."""
    if name in REGISTERED:
        return REGISTERED[name]
    if name not in TRACKERS and ":" not in name:
        raise ForageError(
            f"Unknown tracker {name!r}. Available: {', '.join([*TRACKERS, *REGISTERED])}, or your own as file.py:Class."
        )
    cls = load(TRACKERS[name]) if name in TRACKERS else load_class(name)
    check_class(name, cls)
    return cls


def check_class(name: str, cls: Any) -> None:
    """Raise `ForageError` for a class that is not a tracker."""
    missing = [method for method in ("write", "close") if not callable(getattr(cls, method, None))]
    if not isinstance(cls, type) or missing:
        raise ForageError(
            f"{name} is not a tracker: it has no {' and no '.join(missing)}; a subclass of forage.Tracker works."
        )


def open_trackers(
    names: Sequence[str],
    directory: Path,
    config: dict[str, Any],
    again: bool = False,
    note: Callable[[str], None] = print,
) -> list[TrackerRecord]:
    """Open the trackers called `names`; `again` if the run is resumed. `note` reports a failing one."""
    tracker_names(names)  # a package may be missing on resuming
    record = directory / "tracked.json"
    known: dict[str, Any] = read_json(record) if again and record.exists() else {}
    opened: list[TrackerRecord] = []
    for name in names:
        cls = tracker_class(name)
        try:
            tracker = cls(directory, config, again)
        except ForageError:
            raise
        except Exception as error:
            for one in opened:
                one.close()
            raise ForageError(f"The tracker {name} could not start: {error_line(error)}.") from error
        opened.append(TrackerRecord(name, tracker, known, record, note))
    return opened


class TrackerRecord:
    """A tracker with a record of the steps it has received, so that it gets each point once, even after a kill.

    The record is `RUN/tracked.json`. A tracker that `rewrites` starts over and gets all points again. One that fails is
    left out from then on, and training continues.
    """

    def __init__(
        self, name: str, tracker: Tracker, known: dict[str, Any], record: Path, note: Callable[[str], None]
    ) -> None:
        self.name, self.tracker, self.known, self.record, self.note = name, tracker, known, record, note
        self.failed = False
        if getattr(tracker, "rewrites", False) or name not in known:
            known[name] = {}

    def write(self, row: dict[str, Any]) -> None:
        """Write the numbers of a point of the curve or of an evaluation, unless the tracker has them."""
        kind = "evaluated" if any(key.startswith("evaluation/") for key in row) else "trained"
        if row["steps"] > self.known[self.name].get(kind, -1) and (numbers := flatten_row(row)):
            self.tell(lambda: self.tracker.write(row["steps"], numbers), kind, row["steps"])

    def write_score(self, result: dict[str, Any]) -> None:
        """Write the final score."""
        numbers = final(result)
        if numbers != self.known[self.name].get("score"):
            finish = getattr(self.tracker, "finish", self.tracker.write)
            self.tell(lambda: finish(result["steps"], numbers), "score", numbers)

    def close(self) -> None:
        """Close the tracker."""
        self.tell(self.tracker.close)

    def tell(self, do: Callable[[], None], kind: str = "", reached: Any = None) -> None:
        """Call the tracker, and record that it succeeded."""
        if self.failed:
            return
        try:
            do()
        except Exception as error:
            self.failed = True
            self.note(f"The tracker {self.name} failed: {error_line(error)}. Training goes on without it.")
            return
        if kind:
            self.known[self.name][kind] = reached
            write_json(self.record, self.known)


def error_line(error: Exception) -> str:
    """Return the first line of an error, without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
