"""Make data sets of an agent of our own, look at one, and learn from it without an environment."""

from pathlib import Path

import forage
from forage.studies.datasets import make, show_data_set


def main(steps: int = 60_000, seeds: int = 5, directory: str = "runs/data-sets") -> None:
    tiers = ["random", "expert"]
    folder = Path(directory).with_name(f"{Path(directory).name}-data")
    manifest = make("CartPole-v1", tiers=tiers, steps=2000, agent="ppo", train_steps=max(steps, 10_000), output=folder)
    print(show_data_set(folder / manifest["sets"]["expert"]["file"]))
    run = forage.train(
        "bc",
        "CartPole-v1",
        data=folder / "expert.npz",
        steps=max(steps // 20, 100),
        seeds=seeds,
        directory=directory,
        display="quiet",
    )
    print(f"return {run.score}, normalised {run.normalised_scores['']}")


if __name__ == "__main__":
    main()
