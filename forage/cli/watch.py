"""`forage watch`: make a film of a trained agent."""

from __future__ import annotations

from forage.cli.arguments import display, nothing_left, one_run
from forage.config import options


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
