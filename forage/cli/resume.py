"""`forage resume`: continue a run as if it had never stopped, or train it longer."""

from __future__ import annotations

from forage.cli.arguments import display, nothing_left, one_run
from forage.config import options

HELP = """\
forage resume RUN [OPTIONS]

  --steps N              train longer: the new total for each seed, of a run that is over too
  --data FILE            where the run's data set lies now
  --anyway               go on with other code or versions, not bit for bit
  --quiet | --json | --plain   show nothing; one JSON object a line; lines

With --steps, what is scheduled (learning rates, exploration) follows the new total from then on; the run's config.json
keeps both totals, and the result is not that of a run which was made with so many steps.
"""


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage resume` ask for."""
    directory = one_run(positional, "resume")
    shown, anyway = display(words), bool(words.pop("anyway", False))
    data = words.pop("data", None)
    steps = options.parse("steps", words.pop("steps"), int) if "steps" in words else None
    nothing_left(words, "resume", ["steps", "anyway", "data", "quiet", "json", "plain"])
    from forage.runs import training

    training.use_compilation_cache()
    training.resume(directory, steps=steps, display=shown, anyway=anyway, data=None if data is None else str(data))
