"""SIREN: the policy's entropy is drawn to its first value, at the peaks and among the most probable tokens alone."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import AnswerRows, LanguageState, fit_vocabulary, warmth
from forage.agents.language.grpo import GRPO, LossInputs
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.nn.language.generate import ALONE, SharedPrefix
from forage.nn.transformer import Transformer
from forage.ops.sampling import log_distribution, log_probability
from forage.ops.tokens.masks import sequence_mean
from forage_papers.agents.language.kept import keep
from forage_papers.ops.tokens.entropy import nucleus_entropy, peaks


class SIREN(GRPO):
    """Selective entropy regularisation (SIREN): a policy is uncertain as at first, where being uncertain is of use.

        H    = mean over answers of the mean over their peaks of the entropy within the nucleus
        loss = GRPO's loss + entropy_coefficient (H - H_first)^2

    The nucleus is the most probable tokens with less than `nucleus` together, the peaks are the tokens of an answer
    whose entropy there is above the quantile `quantile` of that answer's (`ops/tokens/entropy`). H_first is H of the
    first rollout, before any step. The entropy that is reported is that of the nucleus, over all tokens.

    Jiang, Li, Chen, Liu, Cheng, Shao (2025), "Rethinking Entropy Regularization in Large Reasoning Models", arXiv
    2509.25133, as in the authors' `verl/workers/actor/dp_actor.py` and `exp_scripts/siren.sh` (Linn3a/siren):
    coefficient 0.005, nucleus and quantile 0.8, bound 0.28, no deviation, losses over the longest answer and 16 steps
    of each rollout, here 4, are those of the script. An answer without peaks counts as one of entropy 0 there and here.
    The paper's formulas could not be looked up.
    """

    example: ClassVar[str] = "forage train siren text:addition --env.level 2"
    ranges: ClassVar[Ranges] = {**GRPO.ranges, "nucleus": Range(0, 1, above=True), "quantile": Range(0, 1, below=True)}

    nucleus: float = equinox.field(static=True, default=0.8)  # probability below which the most probable tokens stay
    # together; the entropy among them counts
    quantile: float = equinox.field(static=True, default=0.8)  # share of an answer's tokens, those of least entropy, at
    # which the entropy is left alone
    entropy_coefficient: float = 0.005
    clip_low: float | None = 0.28
    clip_high: float | None = 0.28
    advantage: str = equinox.field(static=True, default="dr-grpo")
    aggregation: str = equinox.field(static=True, default="constant")
    minibatches: int = equinox.field(static=True, default=4)

    def init(self, key: Key[Array, ""], spec: Spec) -> Any:
        return keep(super().init(key, spec), jnp.float32(-1.0))  # an entropy that is none

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        def measure(state: Any) -> Float[Array, ""]:
            lesson = self.collect_answers(batch)
            score = lambda rows: self.score_tokens(state.network, state, rows, self.shared_prefix(rows))[1]  # noqa: E731
            mask = lesson.rows.wrote & (lesson.weight > 0)[:, None]
            return peak_entropy(self.map_rows(score, lesson.rows), mask, self.quantile)

        anchor = jax.lax.cond(state.kept < 0, measure, lambda state: state.kept, state)
        state, metrics, size = super().learn(state._replace(kept=anchor), batch, clock, key)
        return state, metrics | {"anchor": anchor}, size

    def score_tokens(
        self, network: Transformer, state: LanguageState, rows: AnswerRows, together: SharedPrefix = ALONE
    ) -> tuple[Float[Array, "row new"], Float[Array, "row new"]]:
        """Return the log-probability of each written token, and the entropy within its nucleus."""
        known = fit_vocabulary(state.known, network)
        token = rows.tokens[:, -rows.wrote.shape[1] :]

        def score(hidden: Array, token: Array, heat: Array) -> tuple[Array, Array]:
            logits, rule = network.logits(hidden), self.sampling(heat)
            within = nucleus_entropy(log_distribution(logits, rule, known), self.nucleus)
            return log_probability(logits, token, rule, known), within

        heat = jnp.broadcast_to(warmth(rows), (*token.shape, 1))
        inputs = self.compute_hidden(network, rows, together), token, heat
        found = self.map_logits(score, network.architecture.vocabulary, inputs)
        return jax.tree.map(lambda x: jnp.where(rows.wrote, x, 0.0), found)

    def entropy_loss(
        self, state: Any, lesson: LossInputs, entropy: Float[Array, "row new"], mask: Bool[Array, "row new"]
    ) -> Float[Array, ""]:
        return self.entropy_coefficient * (peak_entropy(entropy, mask, self.quantile) - state.kept) ** 2


def peak_entropy(entropy: Float[Array, "row new"], mask: Bool[Array, "row new"], quantile: float) -> Float[Array, ""]:
    """Return the mean over answers of the mean entropy at their peaks."""
    each = sequence_mean(entropy, peaks(jax.lax.stop_gradient(entropy), mask, quantile))
    return jnp.sum(each) / jnp.maximum(jnp.sum(mask.any(1)), 1)
