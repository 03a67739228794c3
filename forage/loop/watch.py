"""The time of a run in seconds, by activity."""

from __future__ import annotations

import time

MEANINGS = {
    "compile": "compiling, and the first report",
    "loop": "acting, stepping and learning, one program on the device",
    "learn": "waiting for the learner",
    "act": "choosing actions",
    "transfer": "bringing actions to the host",
    "step": "waiting for environments",
    "keep": "keeping what was experienced",
    "evaluate": "playing episodes apart from training",
    "save": "writing checkpoints",
    "rest": "everything else: reports, callbacks, displays",
}
"""The activities that take time, in the order of tables."""


class Watch:
    """Counts seconds by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.since = time.perf_counter()

    def start(self) -> None:
        """Start counting now; earlier time counts nowhere."""
        self.since = time.perf_counter()

    def lap(self, name: str) -> None:
        """Count the time since the last lap, or the start, for this name."""
        now = time.perf_counter()
        self.spent[name] = self.spent.get(name, 0.0) + now - self.since
        self.since = now


def sum_counts(spent: list[dict[str, float]]) -> dict[str, float]:
    """Return the sum of several counts."""
    return {name: sum(one.get(name, 0.0) for one in spent) for name in MEANINGS if any(name in one for one in spent)}


def time_shares(spent: dict[str, float]) -> str:
    """Return shares of the time in words, the largest first, without those below a hundredth."""
    total = sum(spent.values())
    shares = sorted(((seconds / total, name) for name, seconds in spent.items() if total), reverse=True)
    return ", ".join(f"{name} {share:.0%}" for share, name in shares if share >= 0.01)
