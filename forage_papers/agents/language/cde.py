"""CDE: several heads of one critic, whose disagreement before a token is a bonus for exploring there."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import AnswerRows
from forage.agents.language.ppo_language import Critic, LossInputs, PPOLanguage, ValuedState
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import token_mean

SPREAD = 0.02  # deviation of the heads' first weights, as in transformers


class CDE(PPOLanguage):
    """PPO of language with curiosity: the bonus of the critic, where its heads disagree.

        B_t = deviation over the heads of their values before token t
        A'  = A + weight min(|A| / divisor, scale B_t)

    The heads stand on one transformer and begin with different weights. The value that advantages are made of is the
    mean over heads; each head learns by its own squared error, from a share `subset` of the rollout's conversations
    that is drawn for it anew.

    Dai, Song, Liu, Liang, Yu, Mi, Tu, Liu, Zheng, Zhu, Yu (2025), "CDE: Curiosity-Driven Exploration for Efficient
    Reinforcement Learning in Large Language Models", arXiv 2509.09675, by public notes on the paper: 4 heads that learn
    from all conversations (16 from a half of them), divisor 3, scale 0.5, a weight that stays, a critic's step size of
    10 times the policy's. Not known, and so ours: that the bonus stands behind the normalisation of advantages, and the
    heads' first weights. There is no public program. The bonus of the actor, an answer's own perplexity, is the reward
    `text-curiosity`.
    """

    example: ClassVar[str] = "forage train cde text:countdown"
    own_choices: ClassVar[str] = "the bonus behind the normalisation of advantages, and the heads' first weights"
    ranges: ClassVar[Ranges] = {
        **PPOLanguage.ranges,
        "heads": Range(2),
        "subset": Range(0, 1, above=True),
        "weight": Range(0),
        "divisor": Range(0, above=True),
        "scale": Range(0),
    }
    unused: ClassVar[Unused] = {"value_clip": "The heads of CDE learn by a plain squared error"}

    weight: float = 1.0  # weight of the bonus; 0: none, and only the critic differs from ppo-language
    divisor: float = 3.0  # a bonus is at most the advantage's size over this
    scale: float = 0.5  # bonus for a unit of disagreement, before the bound
    critic_rate: float = 10.0
    heads: int = equinox.field(static=True, default=4)  # values of each token that are learned
    subset: float = equinox.field(static=True, default=1.0)  # share of the conversations that a head learns from

    def first_head(self, key: Key[Array, ""], width: int) -> Float[Array, "head width"]:
        return SPREAD * jax.random.normal(jax.random.fold_in(key, 1), (self.heads, width))

    def value(self, critic: Critic, rows: AnswerRows) -> Float[Array, "row new"]:
        return self.head_values(critic, rows).mean(-1)

    def head_values(self, critic: Critic, rows: AnswerRows) -> Float[Array, "row new head"]:
        """Return the value of each head before each token, in float32."""
        return self.compute_hidden(critic.network, rows).astype(jnp.float32) @ critic.head.T

    def with_targets(self, state: ValuedState, rows: AnswerRows, batch: Batch, key: Key[Array, ""]) -> LossInputs:
        """Return the answers with advantages that hold the bonus, and the heads that learn from each as `more`."""
        lesson = super().with_targets(state, rows, batch, key)
        parts = jax.tree.map(lambda x: x.reshape(self.updates, -1, *x.shape[1:]), rows)
        apart = jax.lax.map(lambda part: self.head_values(state.critic, part).std(-1), parts)
        bonus = critic_bonus(lesson.advantage, apart.reshape(lesson.advantage.shape), self.divisor, self.scale)
        heard = draw_subsets(jax.random.fold_in(key, 2), self.heads, self.num_envs, self.subset)
        heard = jnp.tile(heard, (self.rollout_length, 1))
        return lesson._replace(advantage=lesson.advantage + self.weight * bonus, more=heard)

    def value_loss(self, critic: Critic, lesson: LossInputs, mask: Bool[Array, "row new"]) -> Float[Array, ""]:
        """Compute the mean over heads of their squared errors, each over the conversations that it learns from."""
        error = (self.head_values(critic, lesson.rows) - lesson.target[..., None]) ** 2 / 2
        counts = mask[..., None] & lesson.more[:, None]
        each = jnp.sum(jnp.where(counts, error, 0.0), (0, 1)) / jnp.maximum(counts.sum((0, 1)), 1)
        return each.mean()

    def objective(
        self, network: Transformer, critic: Critic, state: ValuedState, lesson: LossInputs, first: Bool[Array, ""]
    ) -> tuple[Float[Array, ""], Metrics]:
        loss, metrics = super().objective(network, critic, state, lesson, first)
        apart = jax.lax.stop_gradient(self.head_values(critic, lesson.rows).std(-1))
        return loss, metrics | {"disagreement": token_mean(apart, lesson.rows.wrote)}


def critic_bonus(
    advantage: Float[Array, "row new"], apart: Float[Array, "row new"], divisor: Array | float, scale: Array | float
) -> Float[Array, "row new"]:
    """Compute min(|A| / divisor, scale B), the bonus of tokens before which heads disagree by B."""
    return jnp.minimum(jnp.abs(advantage) / divisor, scale * apart)


def draw_subsets(key: Key[Array, ""], heads: int, count: int, share: float) -> Bool[Array, "count head"]:
    """Draw for each head a share of the conversations, without replacement, as a mask."""
    rank = jnp.argsort(jnp.argsort(jax.random.uniform(key, (heads, count)), axis=1), axis=1)
    return (rank < max(round(share * count), 1)).T
