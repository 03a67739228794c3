"""CartPole trained on poles of many lengths, which it may see or not, and tested on lengths within and beyond them.

The question of Benjamins et al. (2023), "Contextualize Me - The Case for Context in Reinforcement Learning", arXiv
2202.04500: does an agent that is trained in many contexts do better outside of them, and does it help to see them?
"""

from pathlib import Path

import numpy as np

import forage
from forage.evaluation.plots import curve
from forage.evaluation.statistics import score
from forage.tasks.contexts import Contexts

TRAINED = (0.25, 1.0)  # m, half of the pole
LENGTHS = [0.05, 0.1, 0.175, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0, 1.5, 2.0, 3.0, 4.0]


def main(steps: int = 200_000, seeds: int = 5, directory: str = "runs/contexts", episodes: int = 32) -> None:
    low, high = TRAINED
    drawn = Contexts((f"length={low}:{high}",))
    settings = {
        "one length": {},
        "many lengths, hidden": {"tasks": drawn},
        "many lengths, seen": {"tasks": drawn, "wrap": [f"context-visible:length:{low}:{high}"]},
    }
    lines, lengths = [], np.array(LENGTHS)
    within = (lengths >= low) & (lengths <= high)
    for name, setting in settings.items():
        path = Path(directory) / name.replace(", ", "-").replace(" ", "-")
        run = forage.train("ppo", "CartPole-v1", steps=steps, seeds=seeds, directory=path, **setting)
        result = forage.evaluate_under(run.directory, {"length": LENGTHS}, episodes=episodes)
        returns = np.array([point.returns for point in result.points]).T  # seed, length
        lines.append((name, lengths, returns))
        print(
            f"{name}: return {score(returns[:, within].mean(1))} within {low:g} to {high:g} m, "
            f"{score(returns[:, ~within].mean(1))} outside, {result.worst_case} at worst"
        )
    title = "PPO on CartPole; shaded: the lengths trained on"
    print(curve(Path(directory) / "curve.png", lines, title, xlabel="half length of the pole (m)", span=TRAINED))


if __name__ == "__main__":
    main()
