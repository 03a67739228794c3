"""The agent's own way of acting, after an optional start at random."""

from __future__ import annotations

from typing import Any

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from forage.behaviours.checks import check_replay
from forage.core import spaces
from forage.core.ports import Agent, Behaviour
from forage.core.types import AGENT, Clock, Spec


class Own(Behaviour):
    """`agent.act`, except that the first `random_steps` environment steps are uniform in the action space.

    Off-policy agents begin so to fill their memory with varied actions (Lillicrap et al., 2015, and since).
    """

    random_steps: int = equinox.field(static=True, default=0)

    def check(self, agent: Agent, spec: Spec) -> None:
        if self.random_steps:
            check_replay("a start at random (random_steps)", agent)

    def act(
        self,
        state: Any,
        agent: Agent,
        agent_state: Any,
        hidden: PyTree[Array],
        observation: PyTree[Array],
        spec: Spec,
        clock: Clock,
        key: Key[Array, ""],
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array], Array]:
        if not self.random_steps:
            return *agent.act(agent_state, hidden, observation, key, explore=True), jnp.int32(AGENT)
        act_key, random_key = jax.random.split(key)
        action, hidden, aux = agent.act(agent_state, hidden, observation, act_key, explore=True)
        _, mask = spaces.split_mask(observation)
        uniform = spaces.sample(spec.action_space, random_key, mask)
        action = jnp.where(clock.steps < self.random_steps, uniform, action)
        return action, hidden, aux, jnp.int32(AGENT)
