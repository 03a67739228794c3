"""Clip-Cov: a few of the tokens whose probability and advantage vary together most are left out."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import LanguageState
from forage.agents.language.grpo import GRPO, LossInputs, Scores
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges, check_order
from forage.ops.tokens.masks import token_mean, where_mask


def choose_covarying(
    advantage: Float[Array, "row #new"],
    log_probability: Float[Array, "row new"],
    mask: Bool[Array, "row new"],
    allowed: Bool[Array, "row new"],
    draw: Float[Array, "row new"],
    share: float | Array,
    low: float | Array,
    high: float | Array,
) -> Bool[Array, "row new"]:
    """Return a mask of tokens with a covariance (A - mean A) (log pi - mean log pi) between `low` and `high`.

    Of those that are also `allowed`, max(1, floor(share tokens)) are taken, the ones with the smallest `draw`.
    """
    advantage = jnp.broadcast_to(advantage, mask.shape)
    apart = (advantage - token_mean(advantage, mask)) * (log_probability - token_mean(log_probability, mask))
    found = mask & allowed & (apart > low) & (apart < high)
    most = jnp.maximum(jnp.floor(share * mask.sum()), 1)
    order = jnp.argsort(jnp.argsort(jnp.where(found, draw, jnp.inf).reshape(-1))).reshape(mask.shape)
    return found & (order < most)


class ClipCov(GRPO):
    """GRPO without the tokens by which the policy grows sure too fast (Clip-Cov), also among replayed answers (SPEAR).

    To first order the entropy of a policy falls by the covariance of log pi and A. A share of the tokens for which

        (A - mean A) (log pi - mean log pi)

    lies between two bounds is drawn anew for each rollout, and their loss is 0; they still count in the mean. Tokens
    that the ratio's bounds stop anyway are not among them. Answers of earlier rollouts (`--memory self-imitation`) have
    means, bounds and a share of their own, as an update on them has in SPEAR.

    Sources: Cui and others (2025), "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models",
    arXiv 2505.22617; Qin and others (2025), "Learn the Ropes, Then Trust the Wins", arXiv 2509.22601, as in the
    authors' `verl-agent/verl/trainer/ppo/core_algos.py` (`compute_policy_loss_clip_cov`), `ppo_trainer.yaml` for the
    share and bounds of the rollout, and `run_alfworld_spear.sh` for those of replayed answers and of the ratio. In the
    program covariances are over a micro-batch; here they are over a minibatch. Not here: the entropy bonus and the
    price of invalid actions of that file.
    """

    example: ClassVar[str] = "forage train clip-cov text:countdown --memory self-imitation"
    unused: ClassVar[Unused] = {"loss": "Clip-Cov chooses tokens of the clipped loss"}
    ranges: ClassVar[Ranges] = {
        **GRPO.ranges,
        "covariance_share": Range(0, 1, above=True),
        "older_share": Range(0, 1, above=True),
        "covariance_low": Range(),
        "covariance_high": Range(),
        "older_low": Range(),
        "older_high": Range(),
    }

    covariance_share: float = 0.0002  # share of a minibatch's tokens that are left out, at least one where one fits
    covariance_low: float = 1.0  # tokens of a larger covariance may be left out
    covariance_high: float = 5.0  # tokens of a smaller covariance may be left out
    older_share: float = 0.02  # share of the tokens of replayed answers that are left out
    older_low: float = 2.0  # replayed tokens of a larger covariance may be left out
    older_high: float = 60.0  # replayed tokens of a smaller covariance may be left out
    clip_low: float | None = 0.2
    clip_high: float | None = 0.28
    aggregation: str = equinox.field(static=True, default="token-mean")

    def __check_init__(self):
        check_order(self, "covariance_low", "covariance_high")
        check_order(self, "older_low", "older_high")

    def descend(
        self, state: LanguageState, lesson: LossInputs, rate: Float[Array, ""], key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics]:
        key, own = jax.random.split(key)
        return super().descend(state, lesson._replace(more=jax.random.uniform(own, lesson.rows.wrote.shape)), rate, key)

    def surrogate(self, network: Any, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        left_out = self.covarying(lesson, scores)
        loss = self.token_losses(scores, lesson.advantage) * ~left_out
        if not isinstance(lesson.correction, tuple):
            loss = loss * lesson.correction
        said = {"left_out": token_mean(left_out.astype(jnp.float32), scores.mask)}
        return self.aggregate_loss(loss, lesson, scores.mask), said

    def covarying(self, lesson: LossInputs, scores: Scores) -> Bool[Array, "row new"]:
        """Return a mask of the tokens that are left out, chosen apart among new and replayed answers."""
        now = jax.lax.stop_gradient(where_mask(scores.now, scores.mask))
        ratio, advantage = jnp.exp(now - where_mask(scores.old, scores.mask)), lesson.advantage
        low, high = self.clip_low, self.clip_high
        assert low is not None and high is not None
        allowed = ~jnp.where(advantage > 0, ratio > 1 + high, (advantage < 0) & (ratio < 1 - low))

        def choose(rows: Bool[Array, "row 1"], share: Any, low: Any, high: Any) -> Bool[Array, "row new"]:
            return choose_covarying(advantage, now, scores.mask & rows, allowed, lesson.more, share, low, high)

        newest = lesson.newest
        new = choose(newest, self.covariance_share, self.covariance_low, self.covariance_high)
        return new | choose(~newest, self.older_share, self.older_low, self.older_high)
