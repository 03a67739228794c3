"""Python for a policy: each call is a program of its own, in the sandbox."""

from __future__ import annotations

import dataclasses
import textwrap
from typing import Any, ClassVar

from forage.environments.text.tools.sandbox.guard import Outcome, Sandbox, guarantee
from forage.environments.text.tools.tool import Answer


@dataclasses.dataclass(frozen=True)
class Python:
    """A tool that runs Python programs, each in a fresh process without memory of the earlier ones.

    Raises ForageError when it is made on a system where programs cannot be confined. `record` gives a run's files the
    promises of the sandbox. Time is measured, so a program near its limit may end differently when it is run again.
    """

    waits: ClassVar[bool] = True  # a program runs in a process of its own

    sandbox: Sandbox = dataclasses.field(default_factory=Sandbox)

    name: str = "python"
    description: str = (
        "runs a Python program, which has the standard library and no network; print what you want to see."
    )

    def __post_init__(self) -> None:
        """Find out at once whether programs can be confined here."""
        self.sandbox.layers()

    def call(self, text: str) -> Answer:
        """Return a program's output, and the reason of its end if it did not finish."""
        first, _, rest = text.partition("\n")
        program = textwrap.dedent(rest) if not first.strip() else f"{first.lstrip()}\n{rest}"
        outcome = self.sandbox.run(program)
        return Answer(outcome_text(outcome, self.sandbox), outcome.ended != "finished", outcome.seconds)

    def record(self) -> dict[str, Any]:
        """Return the limits, and the layers of the sandbox in force here."""
        return {"limits": dataclasses.asdict(self.sandbox), **guarantee().record()}


def outcome_text(outcome: Outcome, sandbox: Sandbox) -> str:
    """Return a program's outcome as text for the policy."""
    ends = {
        "finished": "" if outcome.text.strip() else "The program wrote nothing.",
        "failed": "" if outcome.text.strip() else f"The program ended with exit code {outcome.code}.",
        "time": f"The program was stopped after {sandbox.wall:g} seconds.",
        "cpu": f"The program was stopped after {sandbox.cpu} seconds of computing.",
        "output": f"The program was stopped after {sandbox.output:,} bytes of output.",
        "killed": "The program was ended by the system.",
    }
    return "\n".join(part for part in (outcome.text.rstrip("\n"), ends[outcome.ended]) if part)
