"""A part of your own: a rewards part that pays for keeping the cart in the middle. It works with every agent."""

import jax.numpy as jnp

import forage
from forage.core.ports import Rewards


class Centred(Rewards):
    """r' = r - weight |x|, with x the cart's position."""

    weight: float = 0.5

    def relabel(self, state, experience):
        position = experience.next_observation[..., 0]
        return experience._replace(reward=experience.reward - self.weight * jnp.abs(position))


def main(steps: int = 100_000, seeds: int = 3, directory: str = "runs/centred") -> None:
    run = forage.train("ppo", "CartPole-v1", rewards=Centred(), steps=steps, seeds=seeds, directory=directory)
    print(run.score)


if __name__ == "__main__":
    main()
