"""Values of numbered actions: the best action, the value of one action, and the target network."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree


def best_action(q: Float[Array, "*batch actions"], mask: Bool[Array, "*batch actions"] | None) -> Int[Array, "*batch"]:
    """Return the allowed action of highest value; of equally good ones the first."""
    return jnp.argmax(q if mask is None else jnp.where(mask, q, -jnp.inf), axis=-1).astype(jnp.int32)


def take_values(q: Float[Array, "*batch actions"], action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """Return the values of these actions. A one-hot product rather than a gather: its gradient is a product too."""
    return jnp.sum(jnp.where(jnp.arange(q.shape[-1]) == action[..., None], q, 0.0), axis=-1)


def updates_in(agent: Any, steps: int) -> int:
    """Return the number of updates an agent makes in `steps` environment steps; at least one."""
    return max(1, round(steps * agent.updates_per_rollout / (agent.num_envs * agent.rollout_length)))


def update_target(agent: Any, target: PyTree[Array], network: PyTree[Array], count: Int[Array, ""]) -> PyTree[Array]:
    """Return the target after update number `count`: the network itself, once in `target_update_interval` steps of
    `agent`.

    An agent with a `target_rate` takes the target that share of the way.
    """
    due = count % updates_in(agent, agent.target_update_interval) == 0
    if not hasattr(agent, "target_rate"):
        return jax.tree.map(lambda old, new: jnp.where(due, new, old), target, network)
    share = jnp.where(due, agent.target_rate, 0.0)
    return jax.tree.map(lambda old, new: (1 - share) * old + share * new, target, network)
