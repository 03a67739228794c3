"""AMPO: right answers of teachers stand among those of groups that failed, and are learned from as they are."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.language.base import AnswerRows, LanguageState
from forage.agents.language.grpo import GRPO, LossInputs, Scores
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import DATASET, Batch, Clock, ForageError, Replay
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import token_mean
from forage_papers.ops.tokens.off_policy import teacher_loss


class AMPO(GRPO):
    """Adaptive multi-guidance policy optimisation: teachers' answers join the groups that the student fails.

    The memory `teachers` puts right answers of teachers in the place of some of each group whose answers are all wrong.
    Own answers and theirs are compared as one group, and with it

        loss_t = -min(ratio A, clip(ratio, 1 - low, 1 + high) A)        of own answers
        loss_t = -pi / (pi + shape) A                                   of teachers' answers, without a clip

    The teachers' probabilities are unknown and count as 1, and the shape favours tokens that the student finds
    improbable. Losses are summed and divided by the longest answer, A = r - mean, without the deviation.

    Yuan, Ding, Bin, Shao, Cai, Song, Yang, Shen (2025), "More Than One Teacher: Adaptive Multi-Guidance Policy
    Optimization for Diverse Exploration", arXiv 2510.02227, as in the authors' `mix_core_alg.py` and `train_ampo.sh`,
    whose numbers these are (`p_div_p_0.1`, no deviation, no mean over tokens, 8 answers, an entropy bonus of 0.001);
    the shape is LUFFY's (Yan et al., 2025, arXiv 2504.14945). The paper's formulas could not be looked up.
    """

    leaves_out: ClassVar[bool] = False
    example: ClassVar[str] = (
        "forage train ampo text:countdown --env.problems 64 --memory teachers --memory.data one.npz,other.npz"
    )
    replays: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {**GRPO.ranges, "shape": Range(0, above=True)}
    unused: ClassVar[Unused] = {
        "kl_placement": "A divergence of AMPO counts in the loss, as teachers' answers have none"
    }

    shape: float = 0.1  # probability at which a teacher's token has half its weight; smaller favours improbable ones
    entropy_coefficient: float = 0.001
    advantage: str = equinox.field(static=True, default="dr-grpo")
    aggregation: str = equinox.field(static=True, default="constant")

    def likelihood(
        self, state: LanguageState, observation: PyTree[Array], action: Int[Array, "row new"]
    ) -> Float[Array, "row new"]:
        """Return the policy's probability of each token of answers (leaves `row ...`) at temperature 1."""
        whole, wrote = jnp.concatenate([observation["context"], action], axis=1), action != Tokens.PAD
        nothing = jnp.zeros(action.shape)
        rows = AnswerRows(jnp.maximum(whole - 1, 0), whole != Tokens.PAD, wrote, nothing, nothing)
        return jnp.where(wrote, jnp.exp(self.score_tokens(state.network, state, rows)[0]), 0.0)

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " env"]]:
        if not isinstance(batch.replay, Replay):
            raise ForageError(
                "AMPO learns from teachers where it fails; name what they wrote, with --memory teachers --memory.data "
                "ONE,OTHER, or use dr-grpo."
            )
        state, metrics, size = super().learn(state, batch, clock, key)
        return state, metrics | {"taught": (batch.experience.source[0] == DATASET).mean()}, size

    def collect_answers(self, batch: Batch) -> LossInputs:
        """Return the answers of a rollout; `more` is a mask of the teachers' ones."""
        lesson = super().collect_answers(batch)
        given = (batch.experience.source == DATASET).reshape(-1)
        return lesson._replace(weight=jnp.where(given, 1.0, lesson.weight), more=given)

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        given, now, mask = lesson.more[:, None], scores.now, scores.mask
        own = self.token_losses(scores, lesson.advantage)
        each = jnp.where(given, teacher_loss(now, lesson.advantage, mask, shape=self.shape), own)
        return self.aggregate_loss(each, lesson, mask), {
            "taught_probability": jnp.exp(token_mean(jax.lax.stop_gradient(now), mask & given))
        }
