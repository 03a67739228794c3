"""A bonus for right answers that are written unlike the others of their group."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock, Experience, Spec
from forage.rewards.verifiers.base import TextRewards, at_the_end, with_bonus, wrote
from forage_papers.ops.tokens.novelty import textual_diversity


class DiversityState(NamedTuple):
    inner: Any
    weight: Float[Array, ""]  # of the bonus, for now


class Diversity(TextRewards):
    """bonus_i = weight [right_i] min(d_i, most), d_i = 1 - mean over the others of BLEU(i, j) both ways.

    d_i is the textual diversity of answer i in its group (`ops.tokens.novelty.textual_diversity`), of the first
    `compared` tokens of the episode's turns. Two rules keep it from being had for nothing: wrong answers get none, and
    none counts as more unlike than `most`. After the share `fraction` of the run nothing is paid.

    Source: Hu, Zhang, Li, Yan, Hu, Cui, Qu, Chen, Cheng, Wang, 2025, "Diversity-Incentivized Exploration for Versatile
    Reasoning" (DIVER), arXiv 2509.26209, as in the authors' `ray_trainer.py`: pays right answers (`belu_equ_mix`),
    bounds BLEU from below by 0.09, adds the bonus to the reward of the whole answer and ends after 100 updates. Of the
    paper itself only the abstract could be looked up: it says that the bonus is a potential-based shaping, which the
    program shows as a reward at the end, and nothing of the weight, so that is ours. Not here: diversity of equations,
    which counts formulas in LaTeX that no other answer has.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --rewards diversity"
    own_choices: ClassVar[str] = "the weight"
    ranges: ClassVar[Ranges] = {
        "weight": Range(0),
        "most": Range(0, 1),
        "right": Range(),
        "fraction": Range(0, 1),
        "compared": Range(1),
        "group_size": Range(2),
    }

    weight: float = 0.3  # weight of the bonus, which is at most `most`, beside the reward
    most: float = 0.91  # diversity that counts at most
    right: float = 1.0  # reward of an episode from which its answer counts as right
    fraction: float = 1.0  # share of the run in which the bonus is paid
    compared: int = equinox.field(static=True, default=256)  # tokens of each answer that are compared; DIVER: 1000
    # characters
    group_size: int = equinox.field(static=True, default=8)  # answers to one prompt, side by side; the agent's

    @property
    def group(self) -> int:
        return self.group_size

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> DiversityState:
        return DiversityState(self.inner.init(key, spec, num_envs), jnp.asarray(self.weight, jnp.float32))

    def diversity(self, experience: Experience) -> Float[Array, " env"]:
        """Return d_i of each episode."""
        there = wrote(experience)
        tokens, there = (jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1) for x in (experience.action, there))
        # Turns are padded behind; here tokens come first, in their order, and padding after them.
        order = jnp.argsort(~there, axis=1, stable=True)[:, : self.compared]
        tokens, there = (jnp.take_along_axis(x, order, 1) for x in (tokens, there))
        groups = (x.reshape(-1, self.group_size, x.shape[1]) for x in (tokens, there))
        return jax.lax.map(lambda group: textual_diversity(*group), tuple(groups)).reshape(-1)

    def relabel(self, state: DiversityState, experience: Experience) -> Experience:
        given = self.inner.relabel(state.inner, experience)
        right = given.reward.sum(0) >= self.right
        bonus = state.weight * jnp.where(right, jnp.minimum(self.diversity(experience), self.most), 0.0)
        return with_bonus(given, at_the_end(experience, bonus))

    def learn(
        self, state: DiversityState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[DiversityState, PyTree[Array], Metrics]:
        inner, rewards_info, metrics = self.inner.learn(state.inner, rollout, clock, key)
        pays = (clock.fraction < self.fraction) | (jnp.asarray(self.fraction) >= 1)
        weight = jnp.asarray(jnp.where(pays, self.weight, 0.0), jnp.float32)
        said = {"diversity": self.diversity(rollout).mean(), "bonus_weight": weight}
        return DiversityState(inner, weight), rewards_info, metrics | said

    def truncate(self, state: DiversityState) -> DiversityState:
        return state._replace(inner=self.inner.truncate(state.inner))
