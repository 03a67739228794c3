"""Epsilon-greedy: now and then an action at random, less and less often."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from forage.core import spaces
from forage.core.ports import ActContext, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock


class EpsilonGreedy(Behaviour):
    """With probability epsilon a uniform action (among the allowed ones), else the agent's.

        epsilon(t) = start + (end - start) * min(1, t / (fraction * T))

    after t of the run's T environment steps. A multi-discrete action is replaced as a whole.

    Source: Watkins, 1989, "Learning from Delayed Rewards"; the linear schedule of Mnih et al., 2015, "Human-level
    control through deep reinforcement learning", Nature 518.
    """

    example: ClassVar[str] = "forage train dqn CartPole-v1 --behaviour epsilon-greedy --behaviour.end 0.01"
    ranges: ClassVar[Ranges] = {"schedule": Range(0, 1)}
    needs: ClassVar[Needs] = Needs(actions="choices", off_policy=True)

    start: float = 1.0  # epsilon at first, the probability of a random action
    end: float = 0.05  # epsilon after `fraction` of the run; larger explores more to the end
    fraction: float = 0.1  # share of the run until epsilon reaches `end`
    schedule: float | None = None  # epsilon itself, a number or a schedule, in place of `start`, `end` and `fraction`

    def epsilon(self, clock: Clock) -> Float[Array, ""]:
        if self.schedule is not None:
            return jnp.asarray(self.schedule, jnp.float32)
        return clock.anneal(self.start, self.end, self.fraction)

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        act_key, coin_key, random_key = jax.random.split(moment.key, 3)
        action, memory, policy_info = moment.own(hidden.agent, observation, act_key)
        uniform = spaces.sample(moment.spec.action_space, random_key, spaces.split_mask(observation)[1])
        action = jnp.where(jax.random.uniform(coin_key) < self.epsilon(moment.clock), uniform, action)
        return Decision(action, hidden._replace(agent=memory), policy_info)
