"""The loop without environment steps: each iteration is one update from a data set.

The memory holds the data set and is part of the loop, not of the state, so seeds share it and checkpoints leave it out.
`DeviceRunner` runs it for many seeds as it runs the loop with an environment, which here only plays in evaluation.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from forage.core import prng
from forage.core.ports import Environment, Metrics
from forage.core.types import Clock, Experience, ForageError
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.state import DeviceState
from forage.loop.learner import ChunkStats, Episodes, LearnerState


class OfflineLoop(DeviceLoop):
    """The loop that learns from an `offline` memory. Its steps are updates; its environment plays in evaluation."""

    @property
    def steps_per_iteration(self) -> int:
        return 1

    environment: Environment | None  # that evaluation episodes are played in; `None`: in none, or on the host

    def check(self) -> None:
        """Raise `ForageError` if a part needs more than a data set gives."""
        if self.environment is None:
            self.learner.check()
        else:
            super().check()
        check_offline(self)

    def init(self, key: Key[Array, ""]) -> DeviceState:
        key, learner_key = jax.random.split(key)
        learner_state = self.learner.init(learner_key, self.environment)
        return DeviceState(key, learner_state, (), (), (), (), ())  # pyrefly: ignore[bad-argument-type]

    def iterate(self, state: DeviceState, clock: Clock) -> tuple[DeviceState, ChunkStats]:
        """Make one update."""
        key, learn_key = jax.random.split(state.key)
        next_key = jax.random.split(key)[1]  # as the next iteration will split it
        learner_state, metrics = self.learner.study(state.learner, clock, learn_key, next_key)
        none = Episodes(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))
        return state._replace(key=key, learner=learner_state), ChunkStats(none, metrics, jnp.zeros(()))

    def measure(self, state: LearnerState, clock: Clock) -> Metrics:
        """Return the metrics of held episodes, and the agent's values at their starts; empty without any."""
        return self.learner.measure(state, clock)

    def next_rollout(self, state: DeviceState, clock: Clock) -> Experience:
        """Raise `ForageError`: a run from a data set collects no rollout."""
        raise ForageError("A run that learns from a data set collects no rollout.")


def check_offline(loop: OfflineLoop) -> None:
    """Raise `ForageError` for rewards and agents that need rollouts of their own."""
    learner = loop.learner
    rewards = jax.eval_shape(lambda: learner.rewards.init(prng.key(0), learner.spec, 1))
    if jax.tree.leaves(rewards):
        raise ForageError(
            f"{type(learner.rewards).__name__} learns from rollouts, and a run with --data has none; use --rewards "
            f"environment, scale or shift."
        )

    if learner.agent.texts:
        return

    def example_info() -> Any:
        agent, spec, key = learner.agent, learner.spec, prng.key(0)
        return learner.example(agent.init(key, spec), learner.behaviour.init(key, agent, spec)).policy_info

    if jax.tree.leaves(jax.eval_shape(example_info)):
        raise ForageError(
            f"{type(learner.agent).__name__} learns from what it noted while it acted, and a data set has no such "
            f"notes; use an agent without memory, such as bc, iql, dqn, sac or td3."
        )
