"""Relatives of GRPO with one rule of their own for the reward of an answer or the loss of a token."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.agents.language.base import AnswerRows, LanguageState, warmth
from forage.agents.language.grpo import GRPO, LossInputs, Scores, outcomes
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices, Unused
from forage.core.ranges import Range, Ranges, check_order
from forage.core.types import Batch, ForageError, Spec
from forage.nn.transformer import Transformer
from forage.ops.sampling import log_distribution, token_value
from forage.ops.tokens.masks import MEANS
from forage_papers.ops.tokens.credit import entropy_shaped
from forage_papers.ops.tokens.lengths import length_discount, length_gate
from forage_papers.ops.tokens.off_policy import low_probability_loss, moving_bounds, proxy


class GRPOLambda(GRPO):
    """GRPO-lambda: a penalty for long answers only on prompts with enough right answers.

    Of a rollout's groups, ranked by their share of right answers (above 1/2), the best `share` are paid less for
    right answers that are longer than the group's other right ones, by up to `scale`; the others are paid 1 or 0.

    Dai, Liu, Si (2025), "Stable Reinforcement Learning for Efficient Reasoning", arXiv 2505.18086, whose abstract and
    summaries alone could be looked up: the share, the penalty's formula and its scale are ours (`ops/tokens/lengths`).
    Another method of this name, with eligibility traces along tokens, is arXiv 2510.00194.
    """

    example: ClassVar[str] = "forage train grpo-lambda text:countdown"
    own_choices: ClassVar[str] = "the share, the penalty's formula and its scale"
    corrects_sampler: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {**GRPO.ranges, "share": Range(0, 1), "scale": Range(0, 1)}
    unused: ClassVar[Unused] = {"overlong_buffer": "GRPO-lambda has a price of length of its own"}

    share: float = equinox.field(static=True, default=0.2)  # share of the groups whose right answers are paid by length
    scale: float = 0.2  # most that a right answer's length may cost it

    def penalised_rewards(self, batch: Batch, rows: AnswerRows) -> Float[Array, " env"]:
        length = rows.wrote.sum(1).reshape(self.rollout_length, -1).sum(0)
        right = (outcomes(batch.experience) > 0.5).reshape(-1, self.group_size)
        penalised = length_discount(length.reshape(right.shape), right, self.scale)
        return length_gate(right, penalised, self.share).reshape(-1)


class EntropyShaped(GRPO):
    """GRPO with a bonus in the advantage of each token that the policy is unsure of.

        A_t = A + min(scale H_t, |A| / divisor)

    H_t is the entropy of what token t is drawn from, through which nothing flows, so this explores by learning more
    from unsure tokens, and not by raising the entropy. The bonus never turns the sign of an advantage.

    Cheng et al. (2025), "Reasoning with Exploration: An Entropy Perspective", arXiv 2506.14758, as in a public fork of
    verl; 0.4 and 2 are that fork's (`ops/tokens/credit.entropy_shaped`).
    """

    example: ClassVar[str] = "forage train entropy-shaped text:addition --env.level 2"
    ranges: ClassVar[Ranges] = {**GRPO.ranges, "scale": Range(0), "divisor": Range(1, above=True)}

    scale: float = 0.4  # bonus for each nat of entropy; larger learns more from unsure tokens
    divisor: float = equinox.field(static=True, default=2.0)  # a bonus is at most the advantage over this; above 1

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.loss == "gmpo":
            raise ForageError("The loss gmpo has one advantage for each answer, and this agent one for each token.")

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        shaped = entropy_shaped(lesson.advantage, scores.entropy, scores.mask, self.scale, self.divisor)
        return self.total_loss(lesson, scores, shaped), {}


class BAPO(GRPO):
    """BAPO: before each step the bounds of the ratio move until good answers have enough weight against bad ones.

    While the tokens with a positive advantage make less than `target` of what the negative ones make, first the lower
    bound rises, then the upper one (`ops/tokens/off_policy.moving_bounds`); the loss is PPO's with these bounds and a
    third one, 3, for bad tokens.

    Xi et al. (2025), "BAPO: Stabilizing Off-Policy Reinforcement Learning for LLMs via Balanced Policy Optimization
    with Adaptive Clipping", arXiv 2510.18927, as in the authors' `recipe/bapo`: target, first and last bounds, 2 passes
    of 4 steps and 16 answers to a prompt are those of `run_bapo_example.sh`, whose top-k of 100 is left out; the step
    of 0.05 is that of `config.py`. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train bapo text:addition --env.level 2"
    ranges: ClassVar[Ranges] = {
        **GRPO.ranges,
        "target": Range(0),
        "floor": Range(0, 1),
        "last_floor": Range(0, 1),
        "top": Range(1),
        "last_top": Range(1),
        "step": Range(0, above=True),
    }
    unused: ClassVar[Unused] = {"loss clip_low clip_high": "BAPO moves the bounds of the loss clip by itself"}

    target: float = 0.5  # what good tokens are to make of what bad ones make before bounds stop moving
    floor: float = equinox.field(static=True, default=0.8)  # lower bound of the ratio at first
    last_floor: float = equinox.field(static=True, default=0.95)  # lower bound of the ratio at most
    top: float = equinox.field(static=True, default=1.2)  # upper bound of the ratio at first
    last_top: float = equinox.field(static=True, default=2.0)  # upper bound of the ratio at most
    step: float = equinox.field(static=True, default=0.05)  # how far a bound moves at a time
    ratio_cap: float | None = 3.0
    group_size: int = equinox.field(static=True, default=16)
    aggregation: str = equinox.field(static=True, default="token-mean")
    epochs: int = equinox.field(static=True, default=2)
    minibatches: int = equinox.field(static=True, default=4)

    def check(self, spec: Spec) -> None:
        super().check(spec)
        check_order(self, "floor", "last_floor", equal=True)
        check_order(self, "top", "last_top", equal=True)

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        floor, top, balance = moving_bounds(
            scores.now,
            scores.old,
            lesson.advantage,
            scores.mask,
            target=self.target,
            floor=(self.floor, self.last_floor, self.step),
            ceiling=(self.top, self.last_top, self.step),
        )
        loss = self.total_loss(lesson, scores, lesson.advantage, low=1 - floor, high=top - 1)
        # Without bad tokens the balance is infinite, and metrics are to be finite.
        return loss, {"floor": floor, "top": top, "balance": jnp.minimum(balance, 1e6)}


class LpReg(GRPO):
    """Lp-Reg: improbable tokens that may be valuable are shielded from being unlearned.

    Of the tokens with a negative advantage, the `least` share with the least probability are pulled towards what a
    proxy gives them, where that is more: the policy of the rollout without tokens below `noise` of the most probable
    one. A token that the proxy leaves out is noise and gets no shield.

    Huang et al. (2025), "Low-probability Tokens Sustain Exploration in Reinforcement Learning with Verifiable Reward",
    arXiv 2510.03222, as in the authors' `recipe/lp_reg/Qwen3_14b_lp_reg_onpolicy_64gpu.sh`: share 0.01, noise 0.02,
    pull 1, bounds 1 and 9, one step of each rollout, 8 answers to a prompt and a mean over tokens are those of that
    script. Its bound of 10 for bad tokens is left out. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train lp-reg text:addition --env.level 2"
    corrects_sampler: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {**GRPO.ranges, "least": Range(0, 1), "noise": Range(0, 1, above=True), "pull": Range(0)}
    choices: ClassVar[Choices] = {"aggregation": MEANS}
    unused: ClassVar[Unused] = {"loss ratio_cap": "Lp-Reg has a loss of its own with bounds of its own"}

    least: float = 0.01  # share of the bad tokens, those of least probability, that may be shielded
    noise: float = 0.02  # tokens with less than this share of the most probable one's probability are noise
    pull: float = 1.0  # weight of the pull towards the proxy
    clip_low: float | None = 1.0
    clip_high: float | None = 9.0
    aggregation: str = equinox.field(static=True, default="token-mean")

    def check(self, spec: Spec) -> None:
        if self.clip_low is None or self.clip_high is None:
            raise ForageError("Lp-Reg has a loss of its own with the bounds clip_low and clip_high; give both.")
        super().check(spec)

    def with_log_probabilities(self, state: LanguageState, lesson: LossInputs) -> LossInputs:
        lesson = super().with_log_probabilities(state, lesson)

        def of_proxy(rows: AnswerRows) -> Float[Array, "row new"]:
            logits = self.logits(state.network, rows, self.shared_prefix(rows))
            policy = log_distribution(logits, self.sampling(warmth(rows)), state.known)
            return token_value(proxy(policy, self.noise), rows.tokens[:, -rows.wrote.shape[1] :])

        return lesson._replace(more=self.map_rows(of_proxy, lesson.rows))

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        now, old, _, mask = scores
        low, high = self.clip_low, self.clip_high
        assert low is not None and high is not None
        loss = low_probability_loss(
            now, old, lesson.advantage, mask, lesson.more, low=low, high=high, share=self.least, scale=self.pull
        )
        return self.aggregate_loss(loss, lesson, mask), {}
