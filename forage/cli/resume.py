"""`forage resume`: continue a run as if it had never stopped."""

from __future__ import annotations

from forage.cli.arguments import display, nothing_left, one_run
from forage.config import options


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage resume` ask for."""
    directory = one_run(positional, "resume")
    shown, anyway = display(words), bool(words.pop("anyway", False))
    data = words.pop("data", None)
    nothing_left(words, "resume", ["anyway", "data", "quiet", "json", "plain"])
    from forage.runs import training

    training.use_compilation_cache()
    training.resume(directory, display=shown, anyway=anyway, data=None if data is None else str(data))
