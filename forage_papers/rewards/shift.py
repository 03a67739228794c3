"""A constant added to the reward: optimism or caution without touching the agent."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
from jaxtyping import Array, Key, PyTree

from forage.core.ports import Metrics, Rewards
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock, Experience, Spec
from forage.rewards.environment import EnvironmentReward


class Shift(Rewards):
    """r' = r + shift, with r the reward of `inner`; a bonus for exploration is left unchanged.

    Where episodes go on, this adds shift / (1 - discount) to all values and leaves what is best. To learn from that
    is to learn from r with every value begun at -shift / (1 - discount) more: a negative shift makes an agent that
    learns values optimistic, as what it has not tried seems better than what it has; a positive one makes it cautious,
    as learning from data alone asks for. Where episodes end, a negative shift is also a price of time, and a positive
    one a wage, but for episodes of one length. Policy gradients are not moved by a constant.

    The paper's agents for discrete actions are this: DQN with -0.5, and with a bonus of random network distillation
    less 1.5. Its bonus is the squared error, clipped to [-1, 1]; divided by the spread of its returns, as that of `rnd`
    is, it is smaller and wants a smaller shift. Its agent for continuous control, with critics of several constants, is
    `forage.agents.actor_critic.rrs`. Not here: its offline agents, which are caution for agents that Forage does not
    have yet.

    Source: Sun, Han, Yang, Ma, Guo, Zhou (2022), "Exploit Reward Shifting in Value-Based Deep-RL: Optimistic
    Curiosity-Based Exploration and Conservative Exploitation via Linear Reward Shaping", arXiv 2209.07288.
    """

    example: ClassVar[str] = "forage train dqn tabular:RiverSwim-6 --rewards shift --rewards.shift=-0.5"
    ranges: ClassVar[Ranges] = {"shift": Range()}

    shift: float = -0.5  # constant added to the reward; negative makes learners of values explore, positive makes them
    # cautious
    inner: Rewards = equinox.field(default_factory=EnvironmentReward)

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Any:
        return self.inner.init(key, spec, num_envs)

    def relabel(self, state: Any, experience: Experience) -> Experience:
        experience = self.inner.relabel(state, experience)
        return experience._replace(reward=experience.reward + self.shift)

    def example_info(self, spec: Spec) -> PyTree[Array]:
        return self.inner.example_info(spec)

    def learn(
        self, state: Any, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, PyTree[Array], Metrics]:
        return self.inner.learn(state, rollout, clock, key)

    def truncate(self, state: Any) -> Any:
        return self.inner.truncate(state)
