"""Held noise: what an action is made from stays the same for several steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.behaviours.checks import check_noise
from forage.core.ports import Agent, Behaviour
from forage.core.types import AGENT, Clock, ForageError, Spec


class Held(NamedTuple):
    """What is remembered within an episode."""

    noise: Float[Array, "*noise"]
    time: Int[Array, ""]  # steps taken
    agent: PyTree[Array]  # the agent's own memory


class HeldNoise(Behaviour):
    """Hands the agent standard normal noise that is drawn anew every `interval` steps, and as an episode begins.

    For agents whose noise depends on the state (`state_dependent_noise` of ppo and sac) this is generalised
    state-dependent exploration: for so many steps the action is a function of what is seen, and as smooth as that. For
    others the same number is added to each action.

    The noise of any single step is that of the agent's policy, so an on-policy agent may learn from it too, as the
    paper's PPO does; what hangs together is the sequence of actions, of which policy gradients take no notice.

    Source: Raffin, Kober, Stulp, 2020, "Smooth Exploration for Robotic Reinforcement Learning", gSDE, arXiv 2005.05719,
    which takes 8 steps for SAC and 4 for PPO.
    """

    interval: int = equinox.field(static=True, default=8)  # steps; 0: the whole episode

    def __check_init__(self):
        if self.interval < 0:
            raise ForageError(f"Noise is held for 1 step or more, or 0 for the whole episode, not {self.interval}.")

    def check(self, agent: Agent, spec: Spec) -> None:
        check_noise("held noise", agent, spec)

    def hidden(self, agent: Agent, spec: Spec) -> Held:
        shape = agent.noise(spec)
        assert shape is not None
        return Held(jnp.zeros(shape), jnp.int32(0), agent.hidden(spec))

    def act(
        self,
        state: Any,
        agent: Agent,
        agent_state: Any,
        hidden: Held,
        observation: PyTree[Array],
        spec: Spec,
        clock: Clock,
        key: Key[Array, ""],
    ) -> tuple[PyTree[Array], Held, PyTree[Array], Array]:
        act_key, noise_key = jax.random.split(key)
        time = hidden.time % self.interval if self.interval else hidden.time
        noise = jnp.where(time == 0, jax.random.normal(noise_key, hidden.noise.shape), hidden.noise)
        action, memory, aux = agent.act(agent_state, hidden.agent, observation, act_key, explore=True, noise=noise)
        return action, Held(noise, hidden.time + 1, memory), aux, jnp.int32(AGENT)

    def acted(self, agent: Agent, agent_state: Any, hidden: Held, action: PyTree[Array]) -> Held:
        return hidden._replace(agent=agent.acted(agent_state, hidden.agent, action))
