"""Advantages of single tokens, and of the turns of a dialogue: credit for the parts of an answer."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage.core.types import ForageError
from forage.ops.tokens.advantages import rloo
from forage.ops.tokens.masks import where_mask

Scalar = float | Float[Array, ""]


def entropy_shaped(
    advantage: Float[Array, "sequence #time"],
    entropy: Float[Array, "sequence time"],
    mask: Bool[Array, "sequence time"],
    scale: Scalar = 0.4,
    share: Scalar = 2.0,
) -> Float[Array, "sequence time"]:
    """Add a bonus for tokens of high entropy, too small to turn the sign of an advantage.

        A + min(scale entropy, |A| / share)

    Nothing flows through the entropy. `share` must be above 1; an advantage of 0 stays 0.

    Source: Cheng et al., 2025, "Reasoning with Exploration: An Entropy Perspective", arXiv:2506.14758, as a public fork
    of verl has it (`adv += min(alpha * entropy.detach(), |adv|/kappa)`); the paper's pages, and so the source of both
    defaults, could not be looked up.
    """
    if isinstance(share, float | int) and share <= 1:
        raise ForageError(f"The bonus may be 1/{share} of an advantage; the divisor must be above 1.")
    advantage = jnp.broadcast_to(advantage, mask.shape)
    bonus = jnp.minimum(scale * where_mask(entropy, mask), jnp.abs(advantage) / share)
    return jax.lax.stop_gradient(jnp.where(mask, advantage + bonus, 0.0))


def branch_advantage(
    branch_return: Float[Array, "step branch"],
    reward: Float[Array, " step"],
    discount: Scalar = 1.0,
) -> Float[Array, " step"]:
    """Compute the advantages of an answer's steps from branches at the beginning of each step (VinePPO).

        V_t = mean over branches of the return of an answer that was drawn anew from the prefix before step t
        A_t = r_t + discount V_{t+1} - V_t,    V after the last step = 0

    An answer of S steps has S rows of branches; the reward of the whole answer is that of its last step. With discount
    1 their sum is the answer's return minus the value of the prompt.

    Source: Kazemnejad et al., 2024, "VinePPO: Unlocking RL Potential For LLM Reasoning Through Refined Credit
    Assignment", arXiv:2410.01679, whose pages could not be looked up.
    """
    value = jnp.mean(branch_return, axis=-1)
    following = jnp.concatenate([value[1:], jnp.zeros_like(value[:1])])
    return jax.lax.stop_gradient(reward + discount * following - value)


def of_tokens(step_advantage: Float[Array, " step"], step: Int[Array, " time"]) -> Float[Array, " time"]:
    """Give each token its step's advantage, and 0 to tokens with a negative `step`: those of no step."""
    return jnp.where(step >= 0, jnp.asarray(step_advantage)[jnp.maximum(step, 0)], 0.0)


def trajectory_advantage(
    reward: Float[Array, "group answer time"], mask: Bool[Array, "group answer time"]
) -> Float[Array, "group answer time"]:
    """Compute leave-one-out advantages of whole trajectories, at every token that the policy wrote (LOOP).

        R_i = sum_t r_it,   A_it = R_i - mean of the other trajectories' R at t in the mask, else 0

    The trajectories of a group begin in the same state; rewards may stand at any token, also at the environment's. Its
    loss is `clip` at each token.

    Source: Chen et al., 2025, "Reinforcement Learning for Long-Horizon Interactive LLM Agents", arXiv:2502.01600, whose
    pages could not be looked up.
    """
    advantage = rloo(jnp.sum(reward, axis=-1))
    return jax.lax.stop_gradient(jnp.where(mask, advantage[..., None], 0.0))
