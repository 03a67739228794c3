"""`forage watch`: make a film of a trained agent."""

from __future__ import annotations

from forage.cli.arguments import display, nothing_left, one_run
from forage.config import options

HELP = """\
forage watch RUN [OPTIONS]

  --output FILE          the film, .gif or .mp4 (pip install 'forage-rl[video]'); otherwise beside the run's files
  --seed N               which seed's agent; the best
  --episodes N           episodes to show
  --steps N              the most steps to show
  --actions greedy | sampled   how the agent acts; otherwise as the run is evaluated
  --quiet                show nothing

Of a sweep, --NAME VALUE of what was swept chooses the setting.

Examples
  forage watch runs/NAME
  forage watch runs/NAME --output film.mp4 --episodes 3
  forage watch runs/SWEEP --learning-rate 0.001
"""


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage watch` ask for."""
    directory = one_run(positional, "watch")
    known = {"output": str, "seed": int, "episodes": int, "steps": int, "actions": str}
    values = {name: options.parse(name, words.pop(name), kind) for name, kind in known.items() if name in words}
    kind = display(words)
    from forage.runs.run import Run
    from forage.runs.training import use_compilation_cache
    from forage.studies.watch import watch as make

    sweep = Run(directory).config["sweep"]
    settings = {name: options.parse(name, words.pop(name), float) for name in sweep if name in words}
    nothing_left(words, "watch", [*known, *sweep])
    use_compilation_cache()
    path, returns = make(directory, **values, settings=settings)
    if kind != "quiet":
        print(f"{path}  (returns {', '.join(f'{value:g}' for value in returns)})")
