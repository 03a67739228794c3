"""The agent's own way of acting, after an optional start at random."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from forage.core import spaces
from forage.core.ports import ActContext, Agent, Behaviour, Decision, HiddenState
from forage.core.types import ForageError, Spec


class AgentPolicy(Behaviour):
    """`agent.act`, except that the first `random_steps` environment steps are uniform in the action space.

    Off-policy agents begin so to fill their memory with varied actions (Lillicrap et al., 2015, and since).
    """

    example: ClassVar[str] = "forage train sac Pendulum-v1 --behaviour policy --behaviour.random-steps 1000"

    random_steps: int = equinox.field(static=True, default=0)  # environment steps that begin the run with uniform
    # actions; more fill the memory with more varied ones

    def check(self, agent: Agent, spec: Spec) -> None:
        if self.random_steps and agent.on_policy and agent.usual_behaviour == "policy":
            raise ForageError(
                f"{type(agent).__name__} learns only from actions that it chose itself, and the first random_steps are "
                f"not; leave random_steps out, or use an agent that learns from a replay memory, such as dqn."
            )

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        if not self.random_steps:
            action, memory, policy_info = moment.own(hidden.agent, observation, moment.key)
            return Decision(action, hidden._replace(agent=memory), policy_info)
        act_key, random_key = jax.random.split(moment.key)
        action, memory, policy_info = moment.own(hidden.agent, observation, act_key)
        _, mask = spaces.split_mask(observation)
        uniform = spaces.sample(moment.spec.action_space, random_key, mask)
        action = jnp.where(moment.clock.steps < self.random_steps, uniform, action)
        return Decision(action, hidden._replace(agent=memory), policy_info)
