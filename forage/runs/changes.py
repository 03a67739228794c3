"""The history of a run: extensions, stops and changed settings, each at its step, and the parent run."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from typing import Any

from forage.core.plain import dumps
from forage.runs.curve import Rows
from forage.runs.run import Run, write_json


def changed_settings(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[str | None]]:
    """Return the settings that differ between two configurations, as pairs of the old and the new value.

    An option that only one of them has counts only if its part was exchanged; otherwise the versions of the library
    differ.
    """
    before, after = flatten_config(then), flatten_config(json.loads(dumps(now)))
    found: dict[str, list[str | None]] = {}
    for name in before | after:
        was, now_is = before.get(name), after.get(name)
        if (was is None or now_is is None) and not other_part(name, before, after):
            continue
        if without_address(was or "") != without_address(now_is or ""):
            found[name] = [was, now_is]
    return found


def other_part(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether a setting belongs to a part, or an environment, that was exchanged for another."""
    port = name.partition(".")[0]
    marks = [f"{port}.{mark}" for mark in ("part", "id", "object")]
    return [before.get(mark) for mark in marks] != [after.get(mark) for mark in marks]


def record(run: Run, event: str, steps: int, what: Mapping[str, Any], now: Mapping[str, Any] | None = None) -> None:
    """Append an event at a step to a run's history, and write the settings as of `now` into its configuration."""
    row = {"event": event, "steps": steps, "date": datetime.date.today().isoformat(), **what}
    Rows(run.directory / "history.jsonl").append(row)
    if now:
        run.config |= now
        write_json(run.directory / "config.json", run.config)


def record_changes(run: Run, now: Mapping[str, Any], steps: int, versions: str = "") -> None:
    """Record the settings that changed at `steps`, if any did.

    `now`: the configuration of a setup; settings that it lacks stay. `versions`: the differences from the code and
    versions that the run started with.
    """
    settings = changed_settings({name: run.config.get(name) for name in now}, now)
    if settings or versions:
        what = {"settings": settings} | ({"versions": versions} if versions else {})
        record(run, "changed", steps, what, now if settings else None)


def sentences(run: Run) -> list[str]:
    """Describe the parent run and each event of the history, in a line each."""
    said = []
    if parent := run.parent:
        said.append(f"begun from {parent['run']} as of its step {parent['steps']:,}")
    for row in run.history:
        steps = f"{row['steps']:,}"
        if row["event"] == "stopped":
            said.append(f"stopped at step {steps}: {row['reason']}")
        elif row["event"] == "extended":
            said.append(f"extended at step {steps} to {row['to']:,}, before {row['from']:,}")
        said += [
            f"from step {steps} on {name} {'nothing' if now is None else now}, before "
            f"{'nothing' if was is None else was}"
            for name, (was, now) in row.get("settings", {}).items()
        ]
        said += [f"from step {steps} on not as begun with {row['versions']}"] if "versions" in row else []
    return said


def flatten_config(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """`{"agent.part": "ppo", ...}`."""
    found: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            value = {str(number): item for number, item in enumerate(value)}
        if isinstance(value, Mapping) and value:
            found |= flatten_config(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return found


def without_address(text: str) -> str:
    """Return Python's description of an object without its memory address, as that differs between processes."""
    return re.sub(r" at 0x[0-9a-f]*", "", text)
