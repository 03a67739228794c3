"""`forage resume`: continue a run as if it had never stopped."""

from __future__ import annotations

from forage.cli.arguments import display, nothing_left, one_run
from forage.config import options

HELP = """\
forage resume RUN [OPTIONS]

Continues from the newest checkpoint, bit for bit as if the run had never stopped.

  --anyway               go on although code, versions or devices differ from those the run was made with
  --data FILE            where the run's data set lies now, if it was moved
  --quiet | --json | --plain   show nothing; one JSON object a line; lines

Examples
  forage resume runs/ppo-CartPole-v1-20260101-120000
  forage resume runs/NAME --anyway
"""


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage resume` ask for."""
    directory = one_run(positional, "resume")
    shown, anyway = display(words), bool(words.pop("anyway", False))
    data = words.pop("data", None)
    nothing_left(words, "resume", ["anyway", "data", "quiet", "json", "plain"])
    from forage.runs import training

    training.use_compilation_cache()
    training.resume(directory, display=shown, anyway=anyway, data=None if data is None else str(data))
