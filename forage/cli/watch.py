"""`forage watch`: make a film of a trained agent, or show what it says."""

from __future__ import annotations

from collections.abc import Callable

from forage.cli.arguments import checkpoint_of, display, nothing_left, one_run, say
from forage.config import options
from forage.core.records import printable

HELP = """\
forage watch RUN [OPTIONS]

Of an agent that writes text, prints conversations about problems held out from training.

  --output FILE          the film, .gif or .mp4 (pip install 'forage-rl[video]'); otherwise beside the run's files
  --seed N               which seed's agent; the best
  --episodes N           episodes to show
  --steps N              the most steps to show
  --checkpoint best|N    the agent that the run has kept, of its best evaluation or of step N; otherwise its newest
  --actions greedy | sampled   how the agent acts; otherwise as the run is evaluated
  --trust                use the code of its maker's own, and the addresses, that the run names: shown, and remembered
  --quiet                show nothing

Of a sweep, --NAME VALUE of what was swept chooses the setting.

Examples
  forage watch runs/NAME
  forage watch runs/NAME --output film.mp4 --episodes 3
  forage watch runs/NAME --checkpoint best
  forage watch runs/SWEEP --learning-rate 0.001
  forage watch runs/TEXT --episodes 5
"""


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage watch` ask for."""
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
        print(f"{path}  (returns {', '.join(f'{value:g}' for value in returns)})")


def filming(tell: Callable[[str], None], episodes: int) -> Callable[[int, int, float], None]:
    """Return what says, after each step, how far a film of so many episodes is."""

    def progress(episode: int, step: int, total: float) -> None:
        tell(f"filming episode {episode + 1} of {episodes}: step {step:,}, return {total:.4g}")

    return progress
