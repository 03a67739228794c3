"""Train, look at the number, act with what was learned, load it again."""

import forage


def main(steps: int = 100_000, seeds: int = 5, directory: str = "runs/example") -> None:
    run = forage.train("ppo", "CartPole-v1", steps=steps, seeds=seeds, directory=directory)
    print(run.score)  # interquartile mean over seeds, 95 % interval

    agent = forage.load(directory)  # needs nothing but the directory
    action = agent.act([0.0, 0.1, 0.05, 0.0])
    print("push", ["left", "right"][int(action)])


if __name__ == "__main__":
    main()
