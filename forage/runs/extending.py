"""The extension of a run to more steps than it was made with."""

from __future__ import annotations

import dataclasses
from typing import Any

from forage.config.checks import check_steps
from forage.config.run_config import RunConfig
from forage.core.types import ForageError
from forage.runs.changes import record
from forage.runs.run import Run


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
        record(self.run, "extended", steps, {"from": self.before, "to": setup.steps}, now)


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
