"""VERL: advantages are shaped by the effective rank of an answer's hidden states, and by how it moves."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import AnswerRows
from forage.agents.language.grpo import GRPO, LossInputs, Scores
from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.nn.transformer import Transformer
from forage_papers.agents.language.kept import keep
from forage_papers.ops.tokens.rank import rank_bonus, rank_dynamics

NAMES = "effective_rank", "velocity", "acceleration"
"""The metrics of an answer's hidden states, in the order of `rank_dynamics`."""


class RankHistory(NamedTuple):
    """The effective rank, its velocity and its acceleration as they have been."""

    usual: Float[Array, "3"]  # moving average
    last: Float[Array, "3"]  # mean of the last rollout
    begun: Bool[Array, ""]  # whether there was one


class VelocityRank(GRPO):
    """Velocity-exploiting rank-learning (VERL): advantages shaped by the hidden states of answers.

        A' = A + min(max(bonus, 0), |A| / divisor)

    The bonus rewards an answer's effective rank, a measure of exploring, where that rank accelerates along the answer,
    and its velocity where it slows down (`ops/tokens/rank`), each relative to a moving average. The first rollout has
    no bonus. Hidden states are those that each token of the answer was drawn from.

    Huang, Huang, Fan, He, Liang, Chen, Jiang, Khan, Jiang, Wang (2025), "Beyond the Exploration-Exploitation Trade-off:
    A Hidden State Approach for LLM Reasoning in RLVR", arXiv 2509.23808, as in the authors' `verl/trainer` and
    `train.sh` (hf618/VERL), whose stride, gain, share of the moving average and divisor these are; 40 tokens is a
    stride for answers of 1536. There the average of a rollout enters after the next one was judged, and so it does
    here. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train velocity-rank text:countdown --stride 4"
    corrects_sampler: ClassVar[bool] = False
    replays: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {
        **GRPO.ranges,
        "stride": Range(1),
        "gain": Range(0),
        "recent": Range(0, 1, above=True),
        "divisor": Range(1, above=True),
    }
    needs: ClassVar[Needs] = Needs(single_turn=True)

    gain: float = 2.0  # how sharply the acceleration chooses between rank and velocity
    recent: float = 0.3  # share of the newest rollout in the moving averages
    divisor: float = 2.0  # a bonus is at most the advantage's size over this; above 1
    stride: int = equinox.field(static=True, default=40)  # tokens between two looks at an answer's rank

    def init(self, key: Key[Array, ""], spec: Spec) -> Any:
        return keep(super().init(key, spec), RankHistory(jnp.zeros(3), jnp.zeros(3), jnp.bool_(False)))

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        history: RankHistory = state.kept
        learned: Any = super().learn(state, batch, clock, key)
        state, metrics, size = learned
        usual = history.usual + self.recent * (history.last - history.usual) * history.begun
        now = jnp.stack([metrics.pop(name) for name in NAMES])
        said = dict(zip(NAMES, now, strict=True))
        return state._replace(kept=RankHistory(usual, now, jnp.bool_(True))), metrics | said, size

    def with_log_probabilities(self, state: Any, lesson: LossInputs) -> LossInputs:
        """Return the lesson with log-probabilities, and ranks and bonus of each answer as `more`."""

        def measure(rows: AnswerRows) -> Float[Array, "row 3"]:
            hidden = self.compute_hidden(state.network, rows, self.shared_prefix(rows))
            return jax.lax.map(lambda one: rank_dynamics(one[0], one[1], self.stride), (hidden, rows.wrote))

        ranks = self.map_rows(measure, lesson.rows)
        bonus = jnp.where(state.kept.begun, rank_bonus(ranks, state.kept.usual, self.gain), 0.0)
        return super().with_log_probabilities(state, lesson._replace(more=(ranks, bonus)))

    def assign_credit(self, batch: Batch, lesson: LossInputs, reward: Float[Array, "group answer"]) -> LossInputs:
        lesson = super().assign_credit(batch, lesson, reward)
        most = jnp.abs(lesson.advantage) / self.divisor
        shaped = lesson.advantage + jnp.minimum(jax.nn.relu(lesson.more[1])[:, None], most)
        return lesson._replace(advantage=shaped)

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        loss, metrics = super().surrogate(network, lesson, scores)
        return loss, metrics | dict(zip(NAMES, lesson.more[0].mean(0), strict=True))
