"""Mixtures of experts: of many MLPs, each token has the few that a router prefers.

With p = softmax(router h) and the k largest entries of p, of which `normalised` makes a sum of 1,

    y = sum over these k of p_e down_e(activation(gate_e(h)) up_e(h))

Shazeer et al., 2017, "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer", arXiv
1701.06538; as in transformers 5.24 (models/qwen3_moe/modeling_qwen3_moe.py) no token is dropped. Tokens are sorted by
expert, so that each expert's tokens are one matrix.

`load_balance` is the auxiliary loss of Fedus, Zoph, Shazeer, 2021, "Switch Transformers", arXiv 2101.03961, equations
4 to 6, for k experts: E sum_e f_e P_e, with f_e the mean count of choices of e and P_e its mean probability, over
tokens and layers; it is k where all experts are chosen alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key


class Experts(equinox.Module):
    """A router, and the MLPs between which it chooses."""

    router: Float[Array, "width expert"]
    gate: Float[Array, "expert width inner"]
    up: Float[Array, "expert width inner"]
    down: Float[Array, "expert inner width"]

    @classmethod
    def draw(
        cls, key: Key[Array, ""], experts: int, width: int, inner: int, deviation: float, last: float, dtype: Any
    ) -> Experts:
        """Draw weights with a deviation; those of `down` with `last`."""
        shapes = (width, experts), (experts, width, inner), (experts, width, inner), (experts, inner, width)
        scales = deviation, deviation, deviation, last
        keys = jax.random.split(key, 4)
        return cls(*(s * jax.random.normal(k, x, dtype) for k, x, s in zip(keys, shapes, scales, strict=True)))

    def probabilities(self, h: Float[Array, "token width"]) -> Float[Array, "token expert"]:
        """Return the probability of each expert, in float32."""
        return jax.nn.softmax((h @ self.router).astype(jnp.float32), axis=-1)

    def __call__(
        self, h: Float[Array, "token width"], chosen: int, normalised: bool, activation: Callable[[Array], Array]
    ) -> Float[Array, "token width"]:
        """Return the weighted sum of the `chosen` experts' outputs for each token."""
        weight, expert = jax.lax.top_k(self.probabilities(h), chosen)
        if normalised:
            weight = weight / weight.sum(-1, keepdims=True)
        # One row for each pair of token and expert, sorted by expert
        order = jnp.argsort(expert.reshape(-1), stable=True)
        counts = jnp.bincount(expert.reshape(-1), length=len(self.gate)).astype(jnp.int32)
        rows = h[order // chosen]
        inner = activation(jax.lax.ragged_dot(rows, self.gate, counts)) * jax.lax.ragged_dot(rows, self.up, counts)
        out = jax.lax.ragged_dot(inner, self.down, counts)
        out = out * weight.reshape(-1)[order, None].astype(out.dtype)
        return jnp.zeros_like(h).at[order // chosen].add(out)


def load_balance(
    probabilities: Float[Array, "token expert"], mask: Bool[Array, " token"], chosen: int
) -> Float[Array, ""]:
    """Compute the auxiliary loss of the tokens in a mask."""
    experts = probabilities.shape[-1]
    picked = jax.nn.one_hot(jax.lax.top_k(probabilities, chosen)[1], experts).sum(1)
    count = jnp.maximum(mask.sum(), 1)
    share, mean = (jnp.where(mask[:, None], x, 0.0).sum(0) / count for x in (picked, probabilities))
    return experts * (jax.lax.stop_gradient(share) * mean).sum()
