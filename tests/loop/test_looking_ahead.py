"""Agents that look ahead: the world that they get, and refusals without one."""

import dataclasses
from pathlib import Path

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from small import PPO as OPTIONS

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.config.resolve import resolve
from forage.core import prng
from forage.core.ports import Tasks, World
from forage.core.types import Clock, ForageError
from forage.environments import spec_of
from forage.environments.classic.cartpole import CartPole
from forage.environments.tabular.mdp import Tabular
from forage.loop.device.evaluate import play_episodes
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.loop.policy import Policy
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.studies.film import Film
from forage.studies.watch import play_native
from forage.tasks.same import Same

KEY, CLOCK = prng.key(0), Clock(jnp.int32(0), jnp.float32(100))
ACTIONS = 3


class Greedy(PPO):
    """Takes the action with the highest immediate reward, found by asking the world."""

    looks_ahead = True

    def act(self, state, inputs):
        world = self.seen_world(inputs.world)
        paid = jax.vmap(lambda action: world.environment.step(world.state, action, inputs.key)[1].reward)
        return jnp.argmax(paid(jnp.arange(ACTIONS))).astype(jnp.int32), inputs.hidden, world.state.time


class ShuffledTasks(Tasks):
    """Move the reward to another action in each task."""

    def next(self, state, environment, key):
        nothing = jax.tree.map(lambda _: None, environment)
        place = jax.random.randint(key, environment.reward.shape[:1], 0, ACTIONS)
        reward = jax.nn.one_hot(place, ACTIONS)
        return equinox.tree_at(lambda task: task.reward, nothing, reward, is_leaf=lambda x: x is None)


def table() -> Tabular:
    """Return two states that alternate under every action; the rewarded action is the task's."""
    transition = jnp.broadcast_to(jnp.eye(2)[::-1][:, None], (2, ACTIONS, 2))
    return Tabular(transition, jnp.zeros((2, ACTIONS)), [0.5, 0.5], [False, False], max_steps=5)


def loop_of(tasks: Tasks, environment=None, behaviour=None, rewards=None) -> DeviceLoop:
    environment = environment or table()
    agent = Greedy(num_envs=4, rollout_length=16, minibatches=1, epochs=1, hidden_sizes=(4,))
    parts = behaviour or AgentPolicy(), rewards or EnvironmentReward(), LastRollout()
    learner = Learner(agent, *parts, spec_of(environment, "a table"))
    return DeviceLoop(learner, environment, tasks, Reset())


@pytest.mark.parametrize(("tasks", "paid"), [(ShuffledTasks(), 1.0), (Same(), 0.0)])
@pytest.mark.thorough
def test_the_world_has_the_task_and_the_state_in_training_and_evaluation(tasks, paid):
    loop = loop_of(tasks)
    loop.check()
    state = jax.jit(lambda: loop.init(KEY))()
    rollout = jax.jit(lambda state: loop.next_rollout(state, CLOCK))(state)
    assert (rollout.reward == paid).all()
    assert rollout.policy_info[:6, 0].tolist() == [
        0,
        1,
        2,
        3,
        4,
        0,
    ]  # the state of the world is the one that is acted in
    played = jax.jit(lambda state: play_episodes(loop, state.learner, KEY, 6, 10))(state)
    assert played.returns.tolist() == [5 * paid] * 6
    after, _ = jax.jit(lambda state: loop.iterate(state, CLOCK))(state)  # shapes of what it notes fit those of memory
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, state)


def test_a_policy_acts_where_it_gets_the_world_and_refuses_where_not(monkeypatch):
    environment = dataclasses.replace(table(), reward=jnp.eye(ACTIONS)[:2])
    loop = loop_of(Same(), environment)
    policy = Policy(loop.agent, loop.agent.init(KEY, loop.learner.spec), loop.learner.spec)
    monkeypatch.setattr(Tabular, "render", lambda self, state: np.zeros((1, 1, 3), np.uint8))
    assert play_native(policy, environment, 9, 0, Film(Path("a.gif"), 30)) == 5.0
    state, observation = environment.reset(KEY)
    assert policy.act(observation, world=World(environment, state)) == int(state.index)
    with pytest.raises(ForageError, match=r"Greedy looks ahead in the environment's own state and cannot act by obs"):
        policy.act(observation)


def test_who_does_not_look_ahead_hears_nothing_of_the_world():
    environment = CartPole()
    spec = spec_of(environment, "CartPole")
    agent = PPO(**OPTIONS)
    policy = Policy(agent, agent.init(KEY, spec), spec)
    state, observation = environment.reset(KEY)
    assert policy.act(observation, world=World(environment, state)) == Policy(agent, policy.state, spec).act(
        observation
    )


@pytest.mark.parametrize(
    ("environment", "rewards", "said"),
    [
        ("gymnasium:CartPole-v1", None, r"Greedy looks ahead .*gymnasium:CartPole-v1 runs on the host.*CartPole-v1\."),
        (small.Pair(), None, r"Greedy looks ahead for one agent, and Pair has 2.*ppo learns there"),
        ("CartPole-v1", "normalise-return", r"NormaliseReturn makes others of them .* use --rewards environment"),
        ("CartPole-v1", "rnd", r"RND makes others of them"),
    ],
)
def test_where_nothing_can_be_foreseen_is_one_sentence(environment, rewards, said):
    setup = resolve(Greedy(), environment, steps=10_000, seeds=1, rewards=rewards)
    with pytest.raises(ForageError, match=said):
        setup.runner()
