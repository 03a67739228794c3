"""Eight learning rates, three seeds each, in one compiled program."""

import forage


def main(steps: int = 50_000, seeds: int = 3, directory: str = "runs/sweep") -> None:
    rates = [1e-4, 3e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 3e-2]
    forage.train("ppo", "CartPole-v1", steps=steps, seeds=seeds, directory=directory, sweep={"learning_rate": rates})


if __name__ == "__main__":
    main()
