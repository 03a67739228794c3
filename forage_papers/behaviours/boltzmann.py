"""Boltzmann exploration: the better an action seems, the more often it is taken."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from forage.core.ports import ActContext, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import Clock, ForageError, Spec
from forage.nn.distributions import Categorical


class Boltzmann(Behaviour):
    """A draw among the allowed actions by the agent's values of them:

        p(a | s) proportional to exp(Q(s, a) / T)

        T(t) = initial_temperature + (final_temperature - initial_temperature) * min(1, t / (fraction * total))

    after t of the run's `total` environment steps. Temperatures are in units of the return: an action that seems worse
    than another by T is taken 0.37 times as often. What seems equally good is taken equally often, and what seems
    clearly bad hardly at all, which epsilon-greedy does as often as the second best.

    Source: Watkins, 1989, "Learning from Delayed Rewards"; Sutton, 1990, "Integrated Architectures for Learning,
    Planning, and Reacting Based on Approximating Dynamic Programming". That a temperature which falls on a schedule may
    fall too early: Cesa-Bianchi, Gentile, Lugosi, Neu, 2017, "Boltzmann Exploration Done Right", arXiv 1705.10257.
    """

    example: ClassVar[str] = "forage train dqn CartPole-v1 --behaviour boltzmann --behaviour.final-temperature 0.1"
    ranges: ClassVar[Ranges] = {"final_temperature": Range(0, above=True), "initial_temperature": Range(0, above=True)}
    needs: ClassVar[Needs] = Needs(actions="choices", off_policy=True)

    initial_temperature: float = 1.0  # temperature at first, in units of action values; larger is more random
    final_temperature: float = 0.05  # temperature after `fraction` of the run, in units of action values
    fraction: float = 0.1  # share of the run until the temperature is `final_temperature`

    def check(self, agent: Agent, spec: Spec) -> None:
        if type(agent).action_values is Agent.action_values:
            raise ForageError(
                f"Boltzmann exploration goes by what an agent thinks actions are worth, which {type(agent).__name__} "
                f"does not say; dqn does."
            )

    def temperature(self, clock: Clock) -> Float[Array, ""]:
        return clock.anneal(self.initial_temperature, self.final_temperature, self.fraction)

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        act_key, draw_key = jax.random.split(moment.key)
        values = moment.agent.action_values(moment.agent_state, hidden.agent, observation)
        assert values is not None
        # The agent's own action is not taken, but what it remembers and wants back is asked for all the same.
        _, memory, policy_info = moment.own(hidden.agent, observation, act_key)
        mask = split_mask(observation)[1]
        best = values.max() if mask is None else jnp.where(mask, values, -jnp.inf).max()
        # Where untried actions are worth infinity, the draw is among those.
        logits = jnp.where(values == best, 0.0, (values - best) / self.temperature(moment.clock))
        action = Categorical.from_logits(logits, mask).sample(draw_key)
        return Decision(action, hidden._replace(agent=memory), policy_info)
