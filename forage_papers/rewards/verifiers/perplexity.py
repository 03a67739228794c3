"""A bonus for answers that surprise the policy itself."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.rewards.verifiers.base import TextRewards, at_the_end, lengths, with_bonus


class CuriosityState(NamedTuple):
    inner: Any
    weight: Float[Array, ""]  # of the bonus, for now


class TextCuriosity(TextRewards):
    """bonus = w(x) min(share |r|, scale B), B = -mean over the answer's tokens of log pi(token).

    B is the logarithm of the answer's perplexity under the policy that wrote it, so its own uncertainty pays; it may
    not be more than a share of the reward's size. Of two right answers the less probable one is paid more. With rewards
    of 0 and 1 wrong answers get nothing; with -1 for wrong ones, as an `inner` that shifts and scales gives, a wrong
    answer that the policy was sure of is worse than another. The weight at share x of the run is
    weight (1 - x (1 - final_weight)), in `stairs` equal steps where these are not 0. The log-probabilities are those
    that the agent kept of each token as it was drawn, at its temperature.

    Source: Dai, Song, Liu et al., 2025, "CDE: Curiosity-Driven Exploration for Efficient Reinforcement Learning in
    Large Language Models", arXiv 2509.09675: the bonus of the actor, by public notes on the paper, whose bound of a
    third and scale of 1 these are. Its weight falls by stairs, too; how many there are and where they end is ours. The
    bonus of the critic is the agent `cde`.
    """

    example: ClassVar[str] = "forage train grpo text:countdown --rewards text-curiosity"
    own_choices: ClassVar[str] = "the number and the end of the stairs by which the weight falls"
    ranges: ClassVar[Ranges] = {
        "weight": Range(0),
        "final_weight": Range(0),
        "share": Range(0),
        "scale": Range(0),
        "stairs": Range(0),
    }

    weight: float = 1.0  # weight of the bonus at the beginning of the run
    final_weight: float = 0.0  # weight at the end of the run, as a share of `weight`
    share: float = 1 / 3  # the bonus is at most this share of the reward's size
    scale: float = 1.0  # weight of B, in nats a token, before the bound; larger reaches it sooner
    stairs: int = equinox.field(static=True, default=4)  # steps in which the weight falls; 0: it falls all the time

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> CuriosityState:
        return CuriosityState(self.inner.init(key, spec, num_envs), jnp.asarray(self.weight, jnp.float32))

    def surprise(self, experience: Experience) -> Float[Array, " env"]:
        """Return B of each episode."""
        kept = getattr(experience.policy_info, "log_probability", None)
        if kept is None or kept.shape != experience.action.shape:
            raise ForageError(
                "TextCuriosity pays for answers that were improbable, and this agent does not keep how probable each "
                "token was; grpo does."
            )
        return -kept.sum((0, 2)) / jnp.maximum(lengths(experience), 1)

    def relabel(self, state: CuriosityState, experience: Experience) -> Experience:
        given = self.inner.relabel(state.inner, experience)
        most = self.share * jnp.abs(given.reward.sum(0))
        bonus = state.weight * jnp.minimum(most, self.scale * self.surprise(experience))
        return with_bonus(given, at_the_end(experience, bonus))

    def learn(
        self, state: CuriosityState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[CuriosityState, PyTree[Array], Metrics]:
        inner, rewards_info, metrics = self.inner.learn(state.inner, rollout, clock, key)
        done = clock.fraction
        if self.stairs:
            done = jnp.floor(done * self.stairs) / self.stairs
        weight = jnp.asarray(self.weight * (1 - done * (1 - self.final_weight)), jnp.float32)
        said = {"surprise": self.surprise(rollout).mean(), "bonus_weight": weight}
        return CuriosityState(inner, weight), rewards_info, metrics | said

    def truncate(self, state: CuriosityState) -> CuriosityState:
        return state._replace(inner=self.inner.truncate(state.inner))
