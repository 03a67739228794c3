"""What a stored run is, in lines."""

from __future__ import annotations

from forage.runs.changes import flattened, sentences
from forage.runs.run import Run
from forage.runs.scoring import how_scored


def described(run: Run) -> list[str]:
    """Say what a run is and what it scores, which run it came from, what changed on the way, and all its settings."""
    config, evaluation = run.config, run.evaluation
    seeds = ", ".join(map(str, config["seeds"]))
    lines = [f"{run.title}: run", "", f"{config['steps']:,} steps of each seed, seeds {seeds}, in {run.directory}"]
    if evaluation is None:
        lines.append(f"not evaluated; forage evaluate {run.directory} does it")
    else:
        for label, one in run.scores.items():
            lines.append(f"{f'with {label}: ' if label else ''}return {one}")
        lines += [f"  {line}" for line in how_scored(evaluation)]
    if said := sentences(run):
        lines += ["", "history", *(f"  {line}" for line in said)]
    shown = {name: value for name, value in config.items() if name not in ("spec", "parent", "seeds", "steps")}
    return [*lines, "", "settings", *(f"  {name:36} {value}" for name, value in flattened(shown).items())]
