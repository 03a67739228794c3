"""PACS: right and wrong are labels, and the policy's log-ratio of an answer is the score that predicts them."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import LanguageState
from forage.agents.language.grpo import GRPO, LossInputs, Scores, outcomes
from forage.core.ports import Metrics
from forage.core.ports.needs import Needs, Unused
from forage.core.ranges import Range, Ranges, check_minibatches
from forage.core.types import Batch, Spec
from forage.nn.transformer import Transformer
from forage.ops.tokens.losses import log_ratios
from forage.ops.tokens.masks import sequence_sum
from forage_papers.ops.tokens.coupling import label_loss


class PACS(GRPO):
    """Policy and critic in one score, learned by supervision (PACS).

        s_i  = beta (log pi(answer i) - log old(answer i)) - the mean of the group's others
        loss = mean_i w_i cross-entropy(sigmoid(s_i), whether answer i is right)

    where old is the policy that wrote the answer and w_i lets right and wrong answers of a group count as much
    (`ops/tokens/coupling.label_loss`). Its gradient is a policy gradient whose advantage is the error of that
    prediction. Right is what the verifier finds above 1/2. Minibatches hold whole groups.

    Li, Chen, Gong, Chen, Wang, He, Luo, Yang (2025), "Implicit Actor Critic Coupling via a Supervised Learning
    Framework for RLVR", arXiv 2509.02522, as in the authors' `src/pacs/pacs_core_algos.py` and
    `scripts/pacs/pacs_beta_1.0.sh` (ritzz-ai/PACS), whose leave-one-out scores, weights, 8 answers to a prompt, 4 steps
    of each rollout and beta 1 these are; the other script has 2. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train pacs text:addition --env.level 2"
    corrects_sampler: ClassVar[bool] = False
    replays: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {**GRPO.ranges, "beta": Range(0, above=True)}
    needs: ClassVar[Needs] = Needs(single_turn=True)
    unused: ClassVar[Unused] = {
        "advantage loss clip_low clip_high ratio_cap aggregation entropy_share kl_placement zero_variance_groups": (
            "PACS has a loss of whole answers and their labels"
        ),
        "divergence estimator": "PACS has no divergence",
    }

    beta: float = 1.0  # how much a nat of log-ratio says about being right; larger moves the policy less
    minibatches: int = equinox.field(static=True, default=4)

    def check(self, spec: Spec) -> None:
        super().check(spec)
        check_minibatches(self, self.num_envs // self.group_size, "groups")

    def assign_credit(self, batch: Batch, lesson: LossInputs, reward: Float[Array, "group answer"]) -> LossInputs:
        """Return the lesson with a mask of right answers as `more`."""
        lesson = super().assign_credit(batch, lesson, reward)
        return lesson._replace(more=outcomes(batch.experience) > 0.5)

    def descend(
        self, state: LanguageState, lesson: LossInputs, rate: Float[Array, ""], key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics]:
        grouped = jax.tree.map(lambda x: x.reshape(-1, self.group_size, *x.shape[1:]), lesson)
        return super().descend(state, grouped, rate, key)

    def objective(
        self, network: Transformer, state: LanguageState, lesson: LossInputs, first: Bool[Array, ""]
    ) -> tuple[Float[Array, ""], Metrics]:
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), lesson)
        return super().objective(network, state, flat, first)

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        ratio = sequence_sum(log_ratios(scores.now, scores.old, scores.mask), scores.mask)
        groups: Any = (x.reshape(-1, self.group_size) for x in (ratio, lesson.more, lesson.weight > 0))
        ratio, right, there = groups
        ordered = ((ratio > 0) == right) & there
        share = ordered.sum() / jnp.maximum(there.sum(), 1)
        return label_loss(ratio, right, there, self.beta), {"predicted": share}
