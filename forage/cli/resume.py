"""`forage resume`: continue a run as if it had never stopped, or train it longer."""

from __future__ import annotations

from forage.cli.arguments import display, nothing_left, one_run
from forage.config import options

HELP = """\
forage resume RUN [OPTIONS]

Continues from the newest checkpoint, bit for bit as if the run had never stopped.

  --steps N              train longer: the new total for each seed, of a run that is over too
  --anyway               go on although code (also files of one's own) or versions differ from those the
                         run was made with
  --data FILE            where the run's data set lies now, if it was moved
  --hosts N --coordinator NAME:PORT   share the run with N - 1 other processes or machines (forage join), from this one
  --trust                use the code of its maker's own, and the addresses, that the run names: shown, and remembered
  --quiet | --json | --plain   show nothing; one JSON object a line; lines

With --steps, what is scheduled (learning rates, exploration) follows the new total from then on; the run's history
keeps both totals, and the result is not that of a run which was made with so many steps.

Examples
  forage resume runs/ppo-CartPole-v1-20260101-120000
  forage resume runs/NAME --anyway
  forage resume runs/NAME --steps 2M
"""


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage resume` ask for."""
    directory = one_run(positional, "resume")
    shown, anyway = display(words), bool(words.pop("anyway", False))
    data = words.pop("data", None)
    steps = options.parse("steps", words.pop("steps"), int) if "steps" in words else None
    hosts = options.parse("hosts", words.pop("hosts"), int) if "hosts" in words else 1
    coordinator = str(words.pop("coordinator", ""))
    nothing_left(words, "resume", ["steps", "anyway", "data", "hosts", "coordinator", "quiet", "json", "plain"])
    from forage.runs import training

    training.use_compilation_cache()
    training.resume(
        directory,
        steps=steps,
        display=shown,
        anyway=anyway,
        data=None if data is None else str(data),
        hosts=hosts,
        coordinator=coordinator,
    )
