"""`forage watch`: make a film of a trained agent, or show its texts."""

from __future__ import annotations

from collections.abc import Callable

from forage.cli.arguments import checkpoint_of, display, nothing_left, one_run, say
from forage.config import options
from forage.core.records import printable

HELP = """\
forage watch RUN [OPTIONS]

Makes a film of a run's agent. For an agent on text, prints conversations about problems held out from training.

  --output FILE          the film, .gif or .mp4 (pip install 'forage-rl[video]'); by default in the run's directory
  --seed N               the seed of the agent; by default the best
  --episodes N           episodes to show
  --steps N              maximal number of steps to show
  --checkpoint best|N    a kept agent, of the best evaluation or of step N; by default the newest
  --actions greedy | sampled   the kind of actions; by default as in the run's evaluation
  --trust                use the maker's code and addresses named in the run; they are shown and remembered
  --quiet                show nothing

In a sweep, --NAME VALUE chooses the setting by a swept option.

Examples
  forage watch runs/NAME
  forage watch runs/NAME --output film.mp4 --episodes 3
  forage watch runs/NAME --checkpoint best
  forage watch runs/SWEEP --learning-rate 0.001
  forage watch runs/TEXT --episodes 5
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage watch`."""
    directory = one_run(positional, "watch")
    known = {"output": str, "seed": int, "episodes": int, "steps": int, "actions": str, "megabytes": float}
    values = {name: options.parse(name, words.pop(name), kind) for name, kind in known.items() if name in words}
    checkpoint, kind = checkpoint_of(words), display(words)
    from forage.runs.display import Waiting
    from forage.runs.run import Run
    from forage.runs.training import use_compilation_cache
    from forage.studies.watch import watch as make

    sweep = Run(directory).config["sweep"]
    settings = {name: options.parse(name, words.pop(name), float) for name in sweep if name in words}
    nothing_left(words, "watch", [*known, "checkpoint", *sweep])
    use_compilation_cache()
    with Waiting(kind) as tell:
        progress = filming(tell, values.get("episodes", 1))
        path, returns = make(directory, **values, settings=settings, checkpoint=checkpoint, progress=progress)
    if kind == "json":
        say({"film": str(path), "returns": returns})
    elif kind != "quiet":
        if path.suffix == ".txt":
            print(printable(path.read_text()))
        said = ("none" if value is None else f"{value:g}" for value in returns)
        print(f"{path}  (returns {', '.join(said)})")


def filming(tell: Callable[[str], None], episodes: int) -> Callable[[int, int, float], None]:
    """Return a callback that reports the progress of a film after each step."""

    def progress(episode: int, step: int, total: float) -> None:
        tell(f"filming episode {episode + 1} of {episodes}: step {step:,}, return {total:.4g}")

    return progress
