"""Networks of the distribution of returns: for each action several numbers in place of one value.

Bellemare, Dabney, Munos (2017), "A Distributional Perspective on Reinforcement Learning", arXiv 1707.06887: what is
learned is the distribution of the return, whose mean is the value by which an agent acts.
"""

from __future__ import annotations

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.q_learning.dqn import DQN, QNetwork
from forage.core.spaces import split_mask
from forage.core.types import Experience, ForageError, Spec
from forage.ops.action_values import best


class ReturnNetwork(QNetwork):
    """`QNetwork` with several numbers for each action; `q` is what its subclass makes of them."""

    numbers: int = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, agent: DQN, numbers: int):
        super().__init__(key, spec, agent, numbers)
        self.numbers = numbers

    def spread(self, features: Float[Array, " features"]) -> Float[Array, "actions numbers"]:
        """Return the numbers of all actions; with two streams, those of the state and of each action are added."""
        advantage = self.advantage(features).reshape(-1, self.numbers)
        if self.state_value is None:
            return advantage
        return self.state_value(features) + advantage - advantage.mean(0)

    def value(self, spread: Float[Array, "*batch actions numbers"]) -> Float[Array, "*batch actions"]:
        """Compute the mean return of each action."""
        raise NotImplementedError

    def q(self, features: Float[Array, " features"]) -> Float[Array, " actions"]:
        return self.value(self.spread(features))

    def spreads(self, observations: PyTree[Array]) -> Float[Array, "rows actions numbers"]:
        """Return the numbers of many observations (leaves `rows ...`)."""
        return jax.vmap(self.spread)(self.torso.rows(observations))


def check_distributional(agent: DQN) -> None:
    """Raise `ForageError` for what agents that learn distributions do not have."""
    if agent.memory_size:
        raise ForageError(f"{type(agent).__name__} has no memory yet; leave memory_size out, or take dqn.")


def of_action(
    spread: Float[Array, "batch actions numbers"], action: Int[Array, " batch"]
) -> Float[Array, "batch numbers"]:
    """Return the numbers of one action in each row."""
    is_it = jnp.arange(spread.shape[1]) == action[:, None]
    return jnp.sum(jnp.where(is_it[..., None], spread, 0.0), axis=1)


def both(
    agent: DQN, network: ReturnNetwork, target: ReturnNetwork, experience: Experience
) -> tuple[
    Float[Array, "batch numbers"], Float[Array, " batch"], Float[Array, " batch"], Float[Array, "batch numbers"]
]:
    """Return the numbers of the actions taken, and what they are compared with.

    That is the n-step return, the discount after it (0 after a terminal state), and the target network's numbers of
    its best action in what came after, or with `double` of the online network's.
    """
    total, last, bootstrap = (x[0] for x in agent.fold(experience))
    rows = jnp.arange(last.shape[0])
    after = jax.tree.map(lambda x: x[last, rows], experience.next_observation)
    later = target.spreads(after)
    online = network.spreads(after) if agent.double else later
    action = best(network.value(online), split_mask(after)[1])
    now = network.spreads(jax.tree.map(lambda x: x[0], experience.observation))
    goal = jax.lax.stop_gradient((total, bootstrap, of_action(later, action)))
    return of_action(now, experience.action[0]), *goal
