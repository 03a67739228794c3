"""Starts: the beginnings of episodes."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.core.types import Clock, ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea import DeepSea
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.starts.levels import Levels
from forage.starts.reset import Reset
from forage.tasks.same import Same


@pytest.mark.thorough
def test_levels_are_a_fixed_number_and_evaluation_plays_others():
    starts, environment = Levels(number=7), CartPole()
    keys = jax.random.split(jax.random.key(0), 300)
    _, observations, _ = jax.vmap(lambda key: starts.begin((), environment, key, jnp.int32(0)))(keys)
    found, counts = np.unique(np.asarray(observations), axis=0, return_counts=True)
    assert len(found) == 7
    # Each about 300 / 7 = 43 times, with a standard deviation of 6.
    assert counts.min() > 18 and counts.max() < 70
    beside = jax.vmap(lambda key: Levels(number=7, first=7).begin((), environment, key, jnp.int32(0)))(keys)[1]
    assert not {row.tobytes() for row in np.asarray(beside)} & {row.tobytes() for row in found}
    fresh = jax.vmap(environment.reset)(keys)[1]
    assert not {row.tobytes() for row in np.asarray(fresh)} & {row.tobytes() for row in found}
    with pytest.raises(ForageError, match="1 or more levels"):
        Levels(number=0)


class HeardReset(Reset):
    """Cuts episodes short, and keeps the visited states that `report` gets of the last rollout."""

    every_state = cuts = True
    steps: int = equinox.field(static=True, default=2)

    def cut(self, mark, length):
        return length >= self.steps

    def report(self, state, rollout, review):
        return review.visited, rollout.ended


@pytest.mark.parametrize(
    ("steps", "ended", "gone"),
    [(2, [0, 1, 0, 1, 0, 1, 0, 1], [0] * 8), (3, [0, 0, 1] * 2 + [0, 0], [0, 0, 1] * 2 + [0, 0])],
)
def test_what_is_cut_is_not_gone(steps, ended, gone):
    """In a sea of three steps: cut before its end, and just there."""
    environment = DeepSea(3)
    agent = PPO(num_envs=2, rollout_length=4, epochs=1, minibatches=1, hidden_sizes=(4,))
    spec = Spec("Sea", environment.observation_space, environment.action_space)
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), LastRollout(), spec)
    loop = DeviceLoop(learner, environment, Same(), HeardReset(steps))

    @jax.jit
    def run(loop):
        def turn(state, _):
            state, _ = loop.iterate(state, Clock(jnp.int32(0), jnp.float32(1e6)))
            return state._replace(starts=()), state.starts

        return jax.lax.scan(turn, loop.init(jax.random.key(0)), None, 2)[1]

    visited, over = jax.device_get(run(loop))
    np.testing.assert_array_equal(over.reshape(8, 2).T, np.array([ended] * 2, bool))
    np.testing.assert_array_equal(visited.gone.reshape(8, 2).T, np.array([gone] * 2, bool))
    begun = [True, ended[3] == 1]
    np.testing.assert_array_equal(visited.fresh, np.repeat(np.array(begun)[:, None], 2, 1))
    assert (visited.env_states.time.reshape(8, 2) > 0).all()  # where steps led, rather than fresh starts


class Short(Reset):
    """Episodes that are cut short after five steps."""

    cuts = True

    def cut(self, mark, length):
        return length >= 5


@pytest.mark.thorough
def test_what_cuts_episodes_truncates_them():
    environment = CartPole(max_steps=30, reset_range=0.01)
    agent = PPO(num_envs=4, rollout_length=3, epochs=1, minibatches=1, hidden_sizes=(8,))
    spec = Spec("CartPole", environment.observation_space, environment.action_space)
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), small.KeptRollout(), spec)
    loop = DeviceLoop(learner, environment, Same(), Short())

    @jax.jit
    def run(loop):
        def turn(state, _):
            state, tally = loop.iterate(state, Clock(jnp.int32(0), jnp.float32(1e6)))
            return state, (state.learner.memory.truncated, tally.episodes)

        return jax.lax.scan(turn, loop.init(jax.random.key(0)), None, 10)[1]

    truncated, episodes = jax.device_get(run(loop))
    wanted = np.arange(1, 31) % 5 == 0  # also across rollouts of three steps
    np.testing.assert_array_equal(truncated.reshape(30, 4), np.repeat(wanted[:, None], 4, 1))
    assert episodes.count.sum() == 24 and episodes.length.sum() == 120
