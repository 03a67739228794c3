"""The history of a run: extensions, stops and changed settings, each at its step, and the parent run."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Mapping
from typing import Any

from forage.config.checks import check_steps
from forage.config.run_config import RunConfig
from forage.core.plain import dumps
from forage.core.types import ForageError
from forage.runs.curve import CurveRows
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


def record_event(
    run: Run, event: str, steps: int, what: Mapping[str, Any], now: Mapping[str, Any] | None = None
) -> None:
    """Append an event at a step to a run's history, and write the settings as of `now` into its configuration."""
    row = {"event": event, "steps": steps, "date": datetime.date.today().isoformat(), **what}
    CurveRows(run.directory / "history.jsonl").append(row)
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
        record_event(run, "changed", steps, what, now if settings else None)


def history_sentences(run: Run) -> list[str]:
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


@dataclasses.dataclass
class Extension:
    """The changes to a run that continues to more steps than it was made with."""

    run: Run
    before: int  # steps of each seed before the extension
    capacity: int | None  # of a memory that keeps its size

    def lines(self, setup: RunConfig, steps: int) -> list[str]:
        """Describe the changes from the current step on."""
        unit = "updates" if setup.offline else "steps"
        was, now = (100 * min(1, steps / total) for total in (self.before, setup.steps))
        lines = [
            f"goes on from {steps:,} to {setup.steps:,} {unit}, where {self.before:,} were asked for before: what is "
            f"scheduled follows the new total, so its progress falls from {was:.0f} % to {now:.0f} %, and the result "
            f"is not that of a run made with {setup.steps:,} {unit}"
        ]
        if self.capacity is not None:
            lines.append(f"its memory keeps the newest {self.capacity:,} transitions, as many as the shorter run had")
        return lines

    def record(self, setup: RunConfig, steps: int) -> None:
        """Write the new total into the run's configuration, and both totals into its history."""
        now: dict[str, Any] = {"steps": setup.steps}
        if self.capacity is not None:
            now["memory"] = self.run.config["memory"] | {"capacity": self.capacity}
        record_event(self.run, "extended", steps, {"from": self.before, "to": setup.steps}, now)


def extend_setup(run: Run, setup: RunConfig, steps: int | None) -> tuple[RunConfig, Extension | None]:
    """Return the setup with `steps` as its new total, and the extension; `None` if the total is unchanged.

    A memory counts its places from the start of a run, so it keeps the size that the shorter run gave it.
    """
    if steps is None or steps == setup.steps:
        return setup, None
    if steps < setup.steps:
        raise ForageError(
            f"{run.directory} is a run of {setup.steps:,} steps of each seed, and resume can make it longer: --steps "
            f"is the new total, {setup.steps:,} or more, not {steps:,}."
        )
    check_steps(setup.agent, setup.spec, steps, setup.offline)
    memory = setup.learner(learns=False).memory
    capacity = getattr(memory, "capacity", None)
    longer = dataclasses.replace(setup, steps=steps, memory=memory)
    same = capacity == getattr(setup.memory, "capacity", None)
    return longer, Extension(run, setup.steps, None if same else capacity)
