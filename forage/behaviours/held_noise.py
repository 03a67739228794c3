"""Held noise: the noise behind an action stays the same for several steps."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from forage.core.ports import ActContext, ActInputs, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Spec


class HeldNoiseState(NamedTuple):
    """The behaviour's memory within an episode."""

    noise: Float[Array, "*noise"]
    time: Int[Array, ""]  # steps taken


class HeldNoise(Behaviour):
    """Standard normal noise for the agent, redrawn every `interval` steps and at the start of an episode.

    For agents whose noise depends on the state (`state_dependent_noise` of ppo and sac) this is generalised
    state-dependent exploration: for so many steps the action is a function of what is seen, and as smooth as that. For
    others the same number is added to each action.

    The noise of any single step is that of the agent's policy, so an on-policy agent may learn from it too, as the
    paper's PPO does; what hangs together is the sequence of actions, of which policy gradients take no notice.

    Source: Raffin, Kober, Stulp, 2020, "Smooth Exploration for Robotic Reinforcement Learning", gSDE, arXiv 2005.05719,
    which takes 8 steps for SAC and 4 for PPO.
    """

    example: ClassVar[str] = "forage train sac Pendulum-v1 --state-dependent-noise true --behaviour held-noise"
    ranges: ClassVar[Ranges] = {"interval": Range(0)}
    needs: ClassVar[Needs] = Needs(normal_noise=True)

    interval: int = equinox.field(static=True, default=8)  # steps that noise is held; 0: the whole episode

    def init_hidden(self, agent: Agent, spec: Spec) -> HeldNoiseState:
        shape = agent.noise(spec)
        assert shape is not None
        return HeldNoiseState(jnp.zeros(shape), jnp.int32(0))

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        act_key, noise_key = jax.random.split(moment.key)
        held: HeldNoiseState = hidden.behaviour
        time = held.time % self.interval if self.interval else held.time
        noise = jnp.where(time == 0, jax.random.normal(noise_key, held.noise.shape), held.noise)
        action, memory, policy_info = moment.agent.act(
            moment.agent_state, ActInputs(hidden.agent, observation, act_key, explore=True, noise=noise)
        )
        return Decision(action, HiddenState(memory, HeldNoiseState(noise, held.time + 1)), policy_info)
