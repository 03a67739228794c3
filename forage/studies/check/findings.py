"""The findings of a check: a line for each aspect, and its verdict."""

from __future__ import annotations

import dataclasses
import html
import textwrap
from typing import Any

OK, NOTE, WRONG = "ok", "note", "wrong"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One finding: `ok`, `wrong`, or a `note` on behaviour that may be intended."""

    verdict: str
    topic: str  # observation, reward, seed, ...
    text: str  # what was found and, where it is wrong, how to mend it

    def __str__(self) -> str:
        left = f"{self.verdict:6} {self.topic:12} "
        return textwrap.fill(
            self.text, 120, initial_indent=left, subsequent_indent=" " * len(left), break_on_hyphens=False
        )


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """The findings of `forage.check` in an environment."""

    environment: str  # its name
    played: str  # how it was played, in words
    findings: tuple[Finding, ...]
    agents: dict[str, str]  # every agent, with why it cannot learn there; empty where it can
    steps_per_second: float | None  # of one environment on the host, of several side by side on the device

    @property
    def ok(self) -> bool:
        """Return whether no finding is wrong."""
        return not self.wrong

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """Return the wrong findings."""
        return tuple(finding for finding in self.findings if finding.verdict == WRONG)

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {"ok": self.ok, **dataclasses.asdict(self)}

    def __str__(self) -> str:
        counts = [sum(finding.verdict == verdict for finding in self.findings) for verdict in (OK, NOTE, WRONG)]
        total = "{} ok, {} to look at, {} wrong".format(*counts)
        return "\n".join([f"{self.environment}: {self.played}", *map(str, self.findings), total])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colours = {OK: "#2a968d", NOTE: "#b07d00", WRONG: "#c94a45"}
        rows = [
            f'<tr><td style="color: {colours[one.verdict]}">{one.verdict}</td><td>{html.escape(one.topic)}</td>'
            f'<td style="text-align: left">{html.escape(one.text)}</td></tr>'
            for one in self.findings
        ]
        title = html.escape(f"{self.environment}: {self.played}")
        return f"<div><b>{title}</b><table>{''.join(rows)}</table></div>"
