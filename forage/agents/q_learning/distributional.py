"""Networks of the distribution of returns: for each action several numbers in place of one value.

Bellemare, Dabney, Munos (2017), "A Distributional Perspective on Reinforcement Learning", arXiv 1707.06887: what is
learned is the distribution of the return, whose mean is the value by which an agent acts.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from forage.agents.q_learning.dqn import DQN, ReturnNetwork
from forage.core.spaces import split_mask
from forage.core.types import Experience
from forage.ops.action_values import best_action


def of_action(
    spread: Float[Array, "batch actions numbers"], action: Int[Array, " batch"]
) -> Float[Array, "batch numbers"]:
    """Return the numbers of one action in each row."""
    is_it = jnp.arange(spread.shape[1]) == action[:, None]
    return jnp.sum(jnp.where(is_it[..., None], spread, 0.0), axis=1)


def values_and_targets(
    agent: DQN, network: ReturnNetwork, target: ReturnNetwork, experience: Experience
) -> tuple[
    Float[Array, "batch numbers"], Float[Array, " batch"], Float[Array, " batch"], Float[Array, "batch numbers"]
]:
    """Return the network's numbers of the actions taken, and the parts of their target.

    That is the n-step return, the discount after it (0 after a terminal state), and the target network's numbers of
    its best action in what came after, or with `double` of the online network's.
    """
    total, last, bootstrap = (x[0] for x in agent.fold(experience))
    rows = jnp.arange(last.shape[0])
    after = jax.tree.map(lambda x: x[last, rows], experience.next_observation)
    later = target.spreads(after)
    online = network.spreads(after) if agent.double else later
    action = best_action(network.value(online), split_mask(after)[1])
    now = network.spreads(jax.tree.map(lambda x: x[0], experience.observation))
    goal = jax.lax.stop_gradient((total, bootstrap, of_action(later, action)))
    return of_action(now, experience.action[0]), *goal
