"""`forage data record`: write transitions of a trained run into a data set."""

from __future__ import annotations

from typing import Any

from forage.cli.arguments import display, nothing_left, say
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage data record RUN --steps N --output FILE [OPTIONS]

  --steps N              transitions to record
  --output FILE          the data set, a NumPy archive (.npz): forage train iql ENVIRONMENT --data FILE learns from it
  --actions greedy | sampled | random   otherwise as the run is evaluated
  --random SHARE         the share of episodes that random actions play; 0
  --seed N               which seed's agent; the best
  --start N              another number begins other episodes; 0
  --quiet | --json       show nothing; one JSON object

Examples
  forage data record runs/NAME --steps 100k --output cartpole.npz
  forage data record runs/NAME --steps 100k --output mixed.npz --random 0.5
"""


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage data` ask for."""
    if len(positional) != 2 or positional[0] != "record":
        raise ForageError(
            "forage data records a run's transitions: forage data record runs/NAME --steps N --output FILE."
        )
    kind = display(words)
    for needed in ("steps", "output"):
        if needed not in words:
            raise ForageError(f"forage data record needs --{needed} {'N' if needed == 'steps' else 'FILE'}.")
    steps, output = options.parse("steps", words.pop("steps"), int), str(words.pop("output"))
    given: dict[str, Any] = {}
    for name, wanted in {"actions": str, "random": float, "seed": int, "start": int}.items():
        if name in words:
            given[name] = options.parse(name, words.pop(name), wanted)
    nothing_left(words, "data record", ["steps", "output", "actions", "random", "seed", "start", "json", "quiet"])
    from pathlib import Path

    from forage.data import files
    from forage.runs.training import use_compilation_cache
    from forage.studies.record import record

    use_compilation_cache()
    found = record(positional[1], steps, output, **given)
    _, header = files.read(Path(output))
    if kind == "json":
        say({"file": output} | {name: header[name] for name in ("transitions", "episodes", "mean_return", "source")})
    elif kind != "quiet":
        mean = header["mean_return"]
        said = "no whole one" if mean is None else f"mean return of the whole ones {mean:.5g}"
        print(f"{output}: {found.transitions:,} transitions in {found.episodes:,} episodes, {said}")
