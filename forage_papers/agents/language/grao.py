"""GRAO: own answers and a reference are one group, whose advantages weigh imitation, exploration and both."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.agents.language.grpo import LossInputs, Scores
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch
from forage.nn.transformer import Transformer
from forage.ops.rows import concatenate_rows
from forage.ops.tokens.masks import sequence_mean, token_mean
from forage_papers.agents.language.rl_plus import WithReferences
from forage_papers.ops.tokens.coupling import alignment_weights


class GRAO(WithReferences):
    """Group relative alignment optimisation (GRAO): imitate a reference, explore, and come to be better than it.

        J = mean_i A_i l_i + imitation A_y l_y + alignment mean_i A_i (l_i - l_y)

    l_i is the mean log-probability of the tokens of answer i and l_y that of the reference, A are advantages over the
    mean of answers and reference, divided by their deviation (`ops/tokens/coupling.alignment_weights`). There is
    neither a ratio nor a clip. The reference counts as right, with a reward of 1; once own answers are as good, its
    advantage is 0 and they learn from one another. A prompt without a reference has the group's answers alone.

    Wang, Yue, Ye, Zhang, Fan, Liang, Jiang, Wei, Deng, Han, Li, Guo, Wei, Wang, Gu (2025), "Learning to Align, Aligning
    to Learn: A Unified Approach for Self-Optimized Alignment", arXiv 2508.07750, equations 2 to 4 in a public text of
    the paper, whose 0.5 and 0.6, 8 answers to a prompt, temperature 0.7 and batches of 64 these are. There a language
    model rates answer and reference; there is no public program.
    """

    example: ClassVar[str] = "forage train grao text:countdown"
    ranges: ClassVar[Ranges] = {**WithReferences.ranges, "imitation": Range(0), "alignment": Range(0)}
    unused: ClassVar[Unused] = {
        "advantage loss clip_low clip_high ratio_cap aggregation zero_variance_groups": (
            "GRAO has advantages and a loss of its own, of whole answers"
        ),
        "kl_placement": "GRAO takes means of losses",
    }

    imitation: float = 0.5  # weight of imitating the reference by its advantage
    alignment: float = 0.6  # weight of moving from the reference to better answers, and to it from worse ones
    temperature: float = 0.7
    aggregation: str = equinox.field(static=True, default="sequence-mean")

    def assign_credit(self, batch: Batch, lesson: LossInputs, reward: Float[Array, "group answer"]) -> LossInputs:
        """Return the lesson with the factor of each row's log-likelihood as its advantage."""
        own, extra = self.split_rows(lesson, reward)
        given = extra.rows.wrote.any(1)
        factor, other = alignment_weights(reward, jnp.ones(len(reward)), given, self.imitation, self.alignment)
        own = own._replace(advantage=factor.reshape(-1, 1))
        return concatenate_rows(own, extra._replace(advantage=other[:, None]))

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        likelihood = sequence_mean(scores.now, scores.mask)
        groups = len(likelihood) / (self.group_size + 1)
        loss = -jnp.sum(lesson.advantage[:, 0] * lesson.weight * likelihood) / groups
        known = token_mean(jax.lax.stop_gradient(scores.now), scores.mask & (lesson.more[:, None] > 0))
        return loss, {"reference_probability": jnp.exp(known)}
