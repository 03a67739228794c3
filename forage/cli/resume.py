"""`forage resume`: continue a run as if it had never stopped, or train it longer."""

from __future__ import annotations

from forage.cli.arguments import display, nothing_left, one_run, take_options
from forage.config import options

HELP = """\
forage resume RUN [OPTIONS]

Continues from the newest checkpoint, bit for bit as if the run had never stopped.

  --steps N              train longer: the new total for each seed, also of a finished run
  --anyway               continue although code (also your own files) or versions differ from those that the
                         run was made with
  --data FILE            the new path of the run's data set, if it was moved
  --mesh data:N,model:M  share a language model among other devices than at the start; data:1 is one device
  --hosts N --coordinator NAME:PORT   lead N - 1 other processes or machines that share the run (forage join)
  --trust                use the maker's code and addresses named in the run; they are shown and remembered
  --quiet | --json | --plain   show nothing; one JSON object a line; lines

With --steps, schedules (learning rates, exploration) follow the new total from then on. The run's history keeps both
totals, and the result differs from that of a run made with the new total.

Examples
  forage resume runs/ppo-CartPole-v1-20260101-120000
  forage resume runs/NAME --anyway
  forage resume runs/NAME --steps 2M
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage resume`."""
    directory = one_run(positional, "resume")
    shown, anyway = display(words), bool(words.pop("anyway", False))
    changed = take_options(words, "steps", "data", "hosts", "coordinator", "mesh")
    nothing_left(words, "resume", ["steps", "anyway", "data", "hosts", "coordinator", "mesh", "quiet", "json", "plain"])
    from forage.runs import training

    training.use_compilation_cache()
    training.resume(directory, display=shown, anyway=anyway, **changed)
