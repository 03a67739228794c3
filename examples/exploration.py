"""Parts that explore fit together: one bonus for three agents, and a bonus, an archive and a guide in one run."""

import jax.numpy as jnp

import forage
from forage.rewards.bonuses.rnd import RND
from forage_papers.behaviours.guide import Guide
from forage_papers.starts.go_explore import GoExplore


def pump(observation, key):
    """Pushes the way the car moves: 0 is left, 2 is right."""
    return jnp.where(observation[1] < 0, 0, 2).astype(jnp.int32)


def main(steps: int = 100_000, seeds: int = 3, directory: str = "runs/exploration") -> None:
    bonus = RND()
    for agent, environment in (("ppo", "DeepSea-10"), ("dqn", "DeepSea-10"), ("sac", "Pendulum-sparse")):
        few = steps if agent != "sac" else max(1_100, steps // 10)  # it begins to learn after 1,000
        run = forage.train(
            agent, environment, rewards=bonus, steps=few, seeds=seeds, visits=True, directory=f"{directory}-{agent}"
        )
        print(f"{agent} on {environment}: {run.score}, first paid at {run.rows[-1]['first_reward']}")

    run = forage.train(
        "ppo",
        "MountainCar-v0",
        rewards=bonus,
        starts=GoExplore(cells="binned", probability=0.5),
        behaviour=Guide(pump, steps=100),
        steps=steps,
        seeds=seeds,
        visits=True,
        directory=directory,
    )
    print(f"bonus, archive and guide: {run.score}, first paid at {run.rows[-1]['first_reward']}")


if __name__ == "__main__":
    main()
