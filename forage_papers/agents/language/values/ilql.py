"""ILQL: values of tokens by temporal differences in recorded text, which tilt a cloned policy."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.nn.layers import MLP
from forage.ops.tokens.masks import token_mean
from forage_papers.agents.language.values.mc_returns import MCReturns, ValuedTexts, Values


def following_values(value: Float[Array, "row new"], wrote: Bool[Array, "row new"]) -> Float[Array, "row new"]:
    """Return the value before the next token that was written, for each; 0 behind the last."""

    def pass_on(after: Array, column: tuple[Array, Array]) -> tuple[Array, Array]:
        own, there = column
        return jnp.where(there, own, after), after

    return jax.lax.scan(pass_on, jnp.zeros(len(value)), (value.T, wrote.T), reverse=True)[1].T


def ilql_losses(
    q: tuple[Float[Array, "row new"], ...],
    slow: Float[Array, "row new"],
    value: Float[Array, "row new"],
    reward: Float[Array, "row new"],
    wrote: Bool[Array, "row new"],
    discount: Any,
    expectile: Any,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Compute the losses of Q and of V. `slow`: the lower of the slowly following Q of each token."""
    target = jax.lax.stop_gradient(reward + discount * following_values(value, wrote))
    of_q = sum((token_mean((one - target) ** 2 / 2, wrote) for one in q), jnp.zeros(()))
    weight = jnp.where(slow >= value, expectile, 1 - expectile)
    return of_q, token_mean(jax.lax.stop_gradient(weight) * (value - slow) ** 2 / 2, wrote)


class ILQL(MCReturns):
    """Implicit language Q-learning (Snell et al., 2022): two Q and V of each token, by temporal differences.

        L_Q = mean_t sum_i (Q_i(s_t, a_t) - r_t - discount V(s_t+1))^2 / 2 - cql_weight sum_i log softmax Q_i(s_t)[a_t]
        L_V = mean_t |expectile - [Q' < V]| (V(s_t) - Q')^2 / 2,        Q' = min_i slow Q_i(s_t, a_t)

    with V 0 behind the last token, slow copies that follow by `target_rate`, and texts written from the first policy's
    logits + beta min_i Q_i. All else is as in `mc-returns`.

    Snell, Kostrikov, Su, Yang, Levine (2022), "Offline RL for Natural Language Generation with Implicit Language Q
    Learning", arXiv 2206.11871, as LMRL-Gym's program has it (`algorithms/ilql/base_interface.py`: `ilql_loss`).
    """

    example: ClassVar[str] = "forage train ilql --data scored.jsonl --model DIRECTORY"
    doubled: ClassVar[bool] = True
    ranges: ClassVar[Ranges] = {**MCReturns.ranges, "expectile": Range(0, 1), "target_rate": Range(0, 1)}

    expectile: float = 0.7  # above 0.5 V follows the better of the recorded tokens
    target_rate: float = 0.005  # how far the slow copies follow at each update

    def follow(self, slow: Values, heads: Values) -> Values:
        return jax.tree.map(lambda old, new: old + self.target_rate * (new - old), slow, heads)

    def value_loss(self, heads: Values, slow: Values, items: ValuedTexts) -> tuple[Float[Array, ""], Metrics]:
        rows, wrote = items.rows, items.rows.wrote
        hidden = self.compute_hidden(heads.base, rows)
        scored = self.score_q(heads, rows, hidden)
        later = self.score_q(slow, rows, self.compute_hidden(slow.base, rows))
        behind = jax.lax.stop_gradient(jnp.minimum(*(q for q, _ in later)))
        assert isinstance(heads.state, MLP)
        value = heads.state(hidden.astype(jnp.float32))[..., 0]
        q = tuple(one for one, _ in scored)
        of_q, of_v = ilql_losses(q, behind, value, items.reward, wrote, self.discount, self.expectile)
        cql = sum((token_mean(apart, wrote) for _, apart in scored), jnp.zeros(()))
        loss = of_q + of_v + self.cql_weight * cql
        return loss, {"loss": loss, "q_loss": of_q, "v_loss": of_v, "cql": cql, "value": token_mean(value, wrote)}
