"""Rewards of any goal by an environment on the host, and hindsight replay with them."""

import pickle

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from forage.agents.actor_critic.sac import SAC
from forage.behaviours.policy import AgentPolicy
from forage.core.ports import ActContext
from forage.core.types import Clock, Experience, ForageError
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment
from forage.loop.host.loop import HostLoop
from forage.loop.learner import Learner
from forage.memory.hindsight import Hindsight
from forage.rewards.environment import EnvironmentReward


class Line(gymnasium.Env):
    """A walk on a line to a goal: -1 a step until it is nearer than 0.3, which ends the episode if it `ends`."""

    def __init__(self, ends=True, wrong=0.0):
        box = spaces.Box(-10, 10, (1,), np.float32)
        self.observation_space = spaces.Dict({"observation": box, "achieved_goal": box, "desired_goal": box})
        self.action_space, self.ends, self.wrong = spaces.Box(-1, 1, (1,), np.float32), ends, wrong

    def look(self):
        return {"observation": self.at, "achieved_goal": self.at, "desired_goal": self.goal}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.time = np.zeros(1, np.float32), 0
        self.goal = self.np_random.uniform(-3, 3, 1).astype(np.float32)
        return self.look(), {}

    def compute_reward(self, achieved, desired, info):
        return -(np.abs(achieved - desired)[..., 0] >= 0.3).astype(np.float32)

    def compute_terminated(self, achieved, desired, info):
        return self.ends and bool(np.abs(achieved - desired)[0] < 0.3)

    def step(self, action):
        self.at, self.time = self.at + action, self.time + 1
        paid = float(self.compute_reward(self.at, self.goal, {})) + self.wrong
        return self.look(), paid, self.compute_terminated(self.at, self.goal, {}), self.time == 6, {}


@pytest.mark.parametrize("ends", [True, False])
def test_rewards_and_ends_of_other_goals_are_the_environments(ends):
    reward = GymnasiumEnvironment(Line, 2, ends=ends).spec.goal_reward
    achieved, desired = jnp.array([[[0.0], [1.0]], [[2.0], [0.5]]]), jnp.array([[0.1], [2.0]])
    found, over = jax.jit(lambda a, d: (reward.reward_of(a, d), reward.terminates(a, d)))(achieved, desired)
    assert found.tolist() == [[0, -1], [-1, -1]] and over.tolist() == [[ends, False], [False, False]]
    each = jax.jit(jax.vmap(reward.reward_of))(achieved, jnp.stack([desired, desired]))
    assert each.tolist() == found.tolist()


def test_one_environment_is_one_static_value():
    one, same, other = (GymnasiumEnvironment(Line, 1, **words).spec for words in ({}, {}, {"ends": False}))
    assert one == same and hash(one) == hash(same) and one != other
    assert pickle.loads(pickle.dumps(one)) == one
    assert GymnasiumEnvironment("CartPole-v1", 1).spec.goal_reward is None
    assert GymnasiumEnvironment(Line, 1, flatten=True).spec.goal_reward is None


def test_hindsight_takes_the_rewards_of_the_host():
    spec = GymnasiumEnvironment(Line, 1).spec
    seen = {name: jnp.zeros(1) for name in ("observation", "achieved_goal", "desired_goal")}
    flag = jnp.zeros((), bool)
    example = Experience(seen, jnp.zeros(1), jnp.zeros(()), seen, flag, flag, jnp.zeros((), jnp.int32), ())
    assert Hindsight(8).init(example, 1, 4, spec, None).goal_reward == spec.goal_reward


@pytest.mark.thorough
def test_hindsight_relabels_what_the_host_has_played():
    environment = GymnasiumEnvironment(Line, 2, name="Line")
    agent = SAC(num_envs=2, rollout_length=12, batch_size=8, learning_starts=1000, hidden_sizes=(4,))
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), Hindsight(capacity=64), environment.spec)
    learner.check()
    loop = HostLoop(learner, environment, 0, 1000)
    loop.begin()
    loop.advance(2)  # the second rollout is not in the memory yet
    clock = Clock(jnp.int32(24), jnp.float32(1000))
    moment = ActContext(None, None, environment.spec, clock, jax.random.key(1))
    batch = jax.device_get(jax.jit(lambda s: learner.memory.sample(s, 400, 1, moment))(loop.state.memory).experience)
    achieved, desired = batch.next_observation["achieved_goal"], batch.observation["desired_goal"]
    reached = np.abs(achieved - desired)[..., 0] < 0.3
    np.testing.assert_array_equal(batch.reward, np.where(reached, 0, -1))
    np.testing.assert_array_equal(batch.terminated, reached)
    assert len(np.unique(desired)) > 8 and 0.2 < reached.mean() < 0.8  # few of the run's own goals are reached


def test_what_pays_another_reward_is_refused():
    with pytest.raises(ForageError, match=r"pays 0.5 for a step and -1 by compute_reward"):
        GymnasiumEnvironment(Line, 1, wrong=1.5).spec.goal_reward.check()
    GymnasiumEnvironment(Line, 1).spec.goal_reward.check()
