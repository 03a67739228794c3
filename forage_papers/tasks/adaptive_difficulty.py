"""AdaRFT: a target difficulty follows the reward, and the problems nearest to it come next."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError
from forage_papers.tasks.numbered import NumberedProblems, ProblemOutcomes


class AdaptiveDifficulty(NumberedProblems):
    """The problems with a difficulty nearest to a target T, which starts at the easiest.

    After each rollout with the mean score R, clipped to 0 and 1,

        T <- T + eta tanh(alpha (R - goal))

    The next rollout's groups are the problems with the smallest |difficulty - T|, each once; equal ones come in random
    order. Difficulties are the environment's (of text: levels) on a scale from 0, the easiest of its problems, to 1,
    the hardest.

    Source: Shi, Wu, Song, Zhou, Zhao (2025), "Efficient Reinforcement Finetuning via Adaptive Curriculum Learning",
    arXiv 2504.05520, and the authors' program, github.com/limenlp/verl (`custom_sampler.py`, `ray_trainer.py`), which
    the rule and the defaults are from (there difficulties go from 0 to 100, and eta is 50); the paper's text could not
    be looked up.
    """

    example: ClassVar[str] = (
        "forage train grpo text:addition --env.problems 1000 --env.level 0-7 --tasks adaptive-difficulty"
    )
    ranges: ClassVar[Ranges] = {"eta": Range(0), "alpha": Range(0, above=True), "goal": Range(0, 1)}

    eta: float = 0.5  # the largest change of the target after a rollout
    alpha: float = 2.0  # how sharply the target follows the reward
    goal: float = 0.5  # mean score at which the target stays

    def check(self, environment: Any) -> None:
        super().check(environment)
        if np.ptp(np.asarray(environment.difficulty)) == 0:
            raise ForageError(
                f"All problems of {environment.spec.name} are equally difficult, and AdaptiveDifficulty "
                f"chooses by difficulty; give several levels, as in --env.level 0-3."
            )

    def first(self, environment: Any) -> Float[Array, ""]:
        return jnp.zeros(())

    def update_state(self, own: Float[Array, ""], heard: ProblemOutcomes, environment: Any) -> Float[Array, ""]:
        target = jnp.clip(own + self.eta * jnp.tanh(self.alpha * (heard.mean - self.goal)), 0, 1)
        return jnp.where(heard.met.any(), target, own)

    def rank(self, own: Float[Array, ""], key: Key[Array, ""], environment: Any) -> Float[Array, " number"]:
        distance = jnp.abs(scale(environment.difficulty) - own)
        order = jnp.lexsort((jax.random.uniform(key, distance.shape), distance))
        return jnp.zeros_like(distance).at[order].set(jnp.arange(len(distance), dtype=jnp.float32))


def scale(difficulty: Float[Array, " number"]) -> Float[Array, " number"]:
    """Scale difficulties so that the least is 0 and the greatest 1, as steps of the target are shares of that range."""
    least, greatest = jnp.min(difficulty), jnp.max(difficulty)
    return (difficulty - least) / (greatest - least)
