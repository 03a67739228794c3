"""OREAL: right answers are cloned and wrong ones unlearned, weighted by a reward model of tokens."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import AnswerRows
from forage.agents.language.grpo import GRPO, LossInputs, Scores, outcomes
from forage.agents.language.ppo_language import Critic
from forage.core.mesh import ONE, Shape
from forage.core.ports import Metrics
from forage.core.ports.needs import Needs, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.nn.language.memory import tree_bytes
from forage.nn.transformer import Transformer
from forage.ops.tokens.advantages import rloo
from forage_papers.agents.language.kept import copy_first_policy, keep, learn_second
from forage_papers.ops.tokens.outcome import outcome_entropy, outcome_loss, pick_pairs, token_weights

SPREAD = 0.02  # deviation of the head's first weights, as in transformers


class AnswerOutcomes(NamedTuple):
    """Answers with their outcomes, for the token reward model."""

    rows: AnswerRows
    right: Bool[Array, " row"]
    counts: Bool[Array, " row"]


class OREAL(GRPO):
    """Outcome reward with token rewards (OREAL): cloning of right answers, unlearning of wrong ones.

        loss = -mean over tokens of right answers of w A log pi
               - negative mean over tokens of wrong answers of w A log pi + divergence k3

    Of each group that has both, a right and a wrong answer are learned from; A = r - mean of the others' r, with r = 1
    and -1. w is 0 to 1, by a token reward model: a copy of the first policy with a head, whose mean score over an
    answer is learned to foretell whether it is right, so that its mean up to a token tells how much was decided there
    (`ops/tokens/outcome`). In the first `freeze` rollouts it learns alone. k3 is GRPO's, from the first policy.

    Lyu, Gao, Gu, Zhang, Gao, Liu and others (2025), "Exploring the Limit of Outcome Reward for Learning Mathematical
    Reasoning", arXiv 2502.06781, as in the authors' `train_oreal.py` and its configuration for 7 billion parameters
    (InternLM/OREAL): 16 answers to a prompt, divergence 0.01, factor 0.5 of wrong answers, threshold 0.5, a step size
    of the reward model of 4 times the policy's, 10 steps before the policy learns, and top-p 0.9 are those. There
    the two answers are drawn at random, here they are the first of their kind. The paper's own pages could not be
    looked up.
    """

    example: ClassVar[str] = "forage train oreal text:countdown"
    corrects_sampler: ClassVar[bool] = False
    replays: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {
        **GRPO.ranges,
        "negative": Range(0),
        "threshold": Range(0, 1, below=True),
        "judge_rate": Range(0, above=True),
        "freeze": Range(0),
    }
    needs: ClassVar[Needs] = Needs(single_turn=True)
    unused: ClassVar[Unused] = {
        "advantage loss clip_low clip_high ratio_cap aggregation zero_variance_groups overlong_buffer kl_placement": (
            "OREAL has advantages and a loss of its own"
        ),
    }

    negative: float = 0.5  # weight of unlearning wrong answers beside cloning right ones
    threshold: float = 0.5  # chance of being right, or wrong, above which a token counts
    judge_rate: float = 4.0  # step size of the token reward model, as a multiple of the policy's
    freeze: int = 10  # rollouts at the beginning in which the token reward model learns alone
    top_p: float | None = 0.9
    divergence: float = equinox.field(static=True, default=0.01)
    aggregation: str = equinox.field(static=True, default="token-mean")
    group_size: int = equinox.field(static=True, default=16)

    def init(self, key: Key[Array, ""], spec: Spec) -> Any:
        width = self.base_model.architecture.width
        head = SPREAD * jax.random.normal(jax.random.fold_in(key, 1), (width,))
        return keep(super().init(key, spec), copy_first_policy(self, head))

    def working_bytes(self, spec: Spec, state: Any, shape: Shape = ONE) -> dict[str, int]:
        found = super().working_bytes(spec, state, shape)
        return found | {"gradients": found["gradients"] + 2 * tree_bytes(state.kept.weights, shape)}

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        learned: Any = super().learn(state, batch, clock, key)
        after, metrics, size = learned
        frozen = (clock.steps <= self.freeze * self.num_envs) & (self.freeze > 0)
        still = lambda new, old: jnp.where(frozen, old, new)  # noqa: E731
        network, optimiser = (
            jax.tree.map(still, new, old)
            for new, old in ((after.network, state.network), (after.optimiser, state.optimiser))
        )
        right = outcomes(batch.experience) > 0.5
        chosen = pick_pairs(right.reshape(-1, self.group_size)).reshape(-1)
        items = AnswerOutcomes(self.rows(batch), right, chosen)
        rate = self.rate(clock) * self.judge_rate
        judge, said = learn_second(
            self, state.kept, self.judge_loss, items, rate, self.updates, jax.random.fold_in(key, 3)
        )
        after = after._replace(network=network, optimiser=optimiser, kept=judge)
        return after, metrics | said | {"compared": chosen.mean()}, size

    def judge_loss(self, judge: Critic, items: AnswerOutcomes) -> tuple[Float[Array, ""], Metrics]:
        """Compute the cross-entropy of outcomes as the token reward model predicts them."""
        score = self.judge_tokens(judge, items.rows)
        loss = outcome_entropy(score, items.rows.wrote, items.right, items.counts)
        return loss, {"judge_loss": loss}

    def judge_tokens(self, judge: Critic, rows: AnswerRows) -> Float[Array, "row new"]:
        """Return the score before each token that was written, in float32."""
        hidden = self.compute_hidden(judge.network, rows, self.shared_prefix(rows))
        return hidden.astype(jnp.float32) @ judge.head

    def with_log_probabilities(self, state: Any, lesson: LossInputs) -> LossInputs:
        """Return the lesson with log-probabilities, and the score of each token as `more`."""
        score = self.map_rows(lambda rows: self.judge_tokens(state.kept.weights, rows), lesson.rows)
        return super().with_log_probabilities(state, lesson._replace(more=score))

    def assign_credit(self, batch: Batch, lesson: LossInputs, reward: Float[Array, "group answer"]) -> LossInputs:
        """Return the lesson with advantages of whole answers, and the weights of tokens and outcomes as `more`."""
        right = (outcomes(batch.experience) > 0.5).reshape(reward.shape)
        flat = right.reshape(-1)
        weight = token_weights(lesson.more, lesson.rows.wrote, flat, self.threshold)
        return lesson._replace(
            advantage=rloo(jnp.where(right, 1.0, -1.0)).reshape(-1, 1),
            weight=lesson.weight * pick_pairs(right).reshape(-1),
            more=(weight, flat),
        )

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        weight, right = lesson.more
        loss = outcome_loss(scores.now, lesson.advantage, weight, scores.mask, right, self.negative)
        decided = jnp.sum(jnp.where(scores.mask, weight, 0.0)) / jnp.maximum(scores.mask.sum(), 1)
        return loss, {"decided": decided}
