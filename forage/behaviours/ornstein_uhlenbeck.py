"""Ornstein-Uhlenbeck action noise: a random walk that is pulled back to zero."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from forage.core.ports import ActContext, ActInputs, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Spec


class Walk(NamedTuple):
    """The behaviour's memory within an episode."""

    noise: Float[Array, "*noise"]  # at the step before
    goes_on: Bool[Array, ""]  # there was a step before


class OrnsteinUhlenbeck(Behaviour):
    """Ornstein-Uhlenbeck noise, one independent process for each number that actions are made from.

        x_t = (1 - reversion) x_{t-1} + sqrt(1 - (1 - reversion)^2) e_t,  e_t and x_0 standard normal

    So x is standard normal at every step, steps k apart correlate by (1 - reversion)^k, and the agent's own scale
    applies. It takes the place of white noise from the first step on; there is no uniform start.

    Source: Uhlenbeck, Ornstein, 1930, "On the Theory of the Brownian Motion", used as in Lillicrap, Hunt, Pritzel,
    Heess, Erez, Tassa, Silver, Wierstra, 2015, "Continuous control with deep reinforcement learning", arXiv 1509.02971:
    x_t = (1 - 0.15) x_{t-1} + 0.2 e_t, which comes to a standard deviation of 0.38 (the `exploration_noise` of td3),
    after a start at 0 that is left out here.
    """

    example: ClassVar[str] = (
        "forage train td3 MountainCarContinuous-v0 --exploration-noise 0.38 --behaviour ornstein-uhlenbeck"
    )
    ranges: ClassVar[Ranges] = {"reversion": Range(0, 1, above=True)}
    needs: ClassVar[Needs] = Needs(normal_noise=True)

    reversion: float = 0.15  # share of the way back to zero at each step (theta); 1: white noise

    def init_hidden(self, agent: Agent, spec: Spec) -> Walk:
        shape = agent.noise(spec)
        assert shape is not None
        return Walk(jnp.zeros(shape), jnp.bool_(False))

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        act_key, noise_key = jax.random.split(moment.key)
        walk: Walk = hidden.behaviour
        fresh = jax.random.normal(noise_key, walk.noise.shape)
        kept = 1 - self.reversion
        noise = jnp.where(walk.goes_on, kept * walk.noise + jnp.sqrt(1 - kept**2) * fresh, fresh)
        action, memory, policy_info = moment.agent.act(
            moment.agent_state, ActInputs(hidden.agent, observation, act_key, explore=True, noise=noise)
        )
        return Decision(action, HiddenState(memory, Walk(noise, jnp.bool_(True))), policy_info)
