"""Agents that learn from episodes of a data set as sequences: their inputs, their losses, and their returns."""

import dataclasses
import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.agents.offline.decision_transformer import DecisionTransformer, DecisionTransformerState, Sequence
from forage.config.defaults import default_behaviour
from forage.core.ports import ActInputs, Environment
from forage.core.types import DATASET, Batch, Clock, Experience, ForageError, Spec, Step
from forage.data import episodes
from forage.environments import spec_of
from forage.environments.adapters.on_host import OnHost
from forage.loop.device.evaluate import play_episodes
from forage.loop.device.programs import batch_seeds
from forage.loop.device.runner import DeviceRunner
from forage.loop.host.runner import HostRunner, play_once
from forage.loop.learner import Learner, LearnerState
from forage.loop.offline.loop import OfflineLoop
from forage.loop.policy import Policy
from forage.memory.dataset import OpenedDataSet
from forage.memory.uniform import UniformReplay
from forage.rewards.environment import EnvironmentReward
from forage.rewards.scaling import Scale
from forage.starts.reset import Reset
from forage.tasks.same import Same

small.keep_compiled()
STEPS, KEY, CLOCK = 4, jax.random.key(0), Clock(jnp.int32(0), jnp.float32(100))
TINY = {"context": 3, "width": 16, "layers": 1, "heads": 2, "dropout": 0.0, "warmup": 1}


class Chain(Environment):
    """Four steps, each with the number of its action as reward; observations are constant."""

    observation_space = property(lambda self: spaces.Box(-1.0, 1.0, (2,), np.float32))
    action_space = property(lambda self: spaces.Discrete(2))
    horizon = property(lambda self: STEPS)

    def reset(self, key):
        return jnp.int32(0), jnp.ones(2)

    def step(self, state, action, key):
        over = state + 1 == STEPS
        return state + 1, Step(jnp.ones(2), action.astype(jnp.float32), over, jnp.bool_(False), {})


SPEC = spec_of(Chain(), "Chain")


def record_episodes(number=256):
    """Episodes of the chain with random actions."""
    action = np.random.default_rng(0).integers(0, 2, number * STEPS).astype(np.int32)
    seen, flags = np.ones((len(action), 2), np.float32), np.zeros(len(action), bool)
    ends = np.arange(len(action)) % STEPS == STEPS - 1
    source = np.full(len(action), DATASET, np.int32)
    return jax.device_put(Experience(seen, action, action.astype(np.float32), seen, ends, flags, source, ()))


def loop_of(agent):
    data = record_episodes()
    memory = OpenedDataSet("chain", "", data).with_returns(agent, np.asarray(data.reward, float))
    learner = Learner(agent, default_behaviour(agent), EnvironmentReward(), memory, SPEC)
    loop = OfflineLoop(learner, Chain(), Same(), Reset())
    loop.check()
    return loop


@functools.cache
def train_agent(agent, updates):
    runner = DeviceRunner(batch_seeds(loop_of(agent), {}), [0], updates)
    runner.begin()
    runner.advance(updates)
    return jax.tree.map(lambda x: x[0], jax.device_get(runner.agent_states()))


ASKED = DecisionTransformer(**TINY, learning_rate=1e-2, max_gradient_norm=1.0, batch_size=64)


@pytest.mark.thorough
def test_it_reaches_the_return_that_it_is_asked_for():
    loop, targets = loop_of(ASKED), np.array([0.0, 1.0, 3.0, 4.0])
    state = LearnerState(train_agent(ASKED, 250), (), (), ())

    def evaluate(target, state):
        agent = dataclasses.replace(ASKED, target_return=target)
        asked = dataclasses.replace(loop, learner=dataclasses.replace(loop.learner, agent=agent))
        return play_episodes(asked, state, KEY, 4, 10).returns

    found = small.compute(jax.vmap(evaluate, (0, None)), targets, state)
    np.testing.assert_array_equal(found, np.tile(targets[:, None], 4))


@pytest.mark.thorough
def test_a_policy_is_told_what_its_steps_pay_and_aims_at_the_best_of_the_data():
    policy = Policy(ASKED, train_agent(ASKED, 250), SPEC)
    for batch in ((), (2,)):
        seen, total = np.ones((*batch, 2), np.float32), 0
        for _ in range(STEPS):
            action = policy.act(seen)
            with pytest.raises(ForageError, match=r"call paid\(reward\)"):
                policy.act(seen)
            policy.observe_reward(np.float32(action))
            total = total + action
        np.testing.assert_array_equal(total, np.full(batch, STEPS))
        policy.reset()


@pytest.mark.thorough
def test_evaluation_on_the_host_tells_it_too():
    agent = dataclasses.replace(ASKED, target_return=1.0)
    learner = loop_of(agent).learner
    runner = HostRunner([learner], lambda num_envs: OnHost(Chain(), num_envs), [0], 10)
    runner.begin()
    loop = runner.loops[0]
    loop.state = loop.state._replace(agent=jax.device_put(train_agent(ASKED, 250)))
    played = play_once(loop, OnHost(Chain(), 3), 10, 0, 0, False)
    np.testing.assert_array_equal(played.returns, 1.0)


def test_what_a_data_set_tells_of_episodes():
    ended, reward = np.array([0, 1, 0, 0, 1], bool), np.array([1.0, 2.0, 4.0, 3.0, -1.0])
    np.testing.assert_allclose(episodes.sums_to_go(reward, ended), [3, 2, 6, 2, -1])
    np.testing.assert_allclose(episodes.sums_to_go(reward, ended, 0.5), [2, 2, 5.25, 2.5, -1])
    np.testing.assert_array_equal(episodes.times(ended), [0, 1, 0, 1, 2])


LINE = Spec("Line", spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32), horizon=5)


def test_its_loss_by_hand():
    """Two sub-sequences; the second episode ends after its first step, and later steps are another's."""
    agent = DecisionTransformer(**TINY, learning_rate=0.5)
    state = small.at_once(lambda: agent.init(KEY, LINE))
    head = (lambda s: s.network.head.weight, lambda s: s.network.head.bias)
    state = equinox.tree_at(lambda s: tuple(h(s) for h in head), state, (jnp.zeros((16, 1)), jnp.array([0.5])))
    action = np.array([[0.1, 0.2], [0.3, -0.9], [-0.4, 0.9]], np.float32)[..., None]
    ended = np.array([[0, 1], [0, 0], [1, 0]], bool)
    seen, zeros = np.zeros((3, 2, 2), np.float32), np.zeros((3, 2), np.float32)
    experience = Experience(seen, action, zeros, seen, ended, ended & False, zeros.astype(int), ())
    experience = experience._replace(return_to_go=zeros, time=zeros.astype(np.int32))
    batch = Batch(experience, np.ones(2, np.float32), np.zeros(2, np.int32))
    after, metrics, error = small.compute(lambda s: agent.learn(s, batch, CLOCK, KEY), state)
    squares = (np.tanh(0.5) - action[..., 0]) ** 2
    np.testing.assert_allclose(metrics["policy_loss"], (squares[:, 0].sum() + squares[0, 1]) / 4, rtol=1e-5)
    np.testing.assert_allclose(error, [squares[:, 0].mean(), squares[0, 1]], rtol=1e-5)
    assert after.updates == 1 and not np.allclose(after.network.head.bias, 0.5)


def test_it_reads_the_time_and_the_returns_of_the_data():
    """A segment from the middle of an episode, then the first step of another; the end of the first is not seen."""
    agent = DecisionTransformer(**TINY, learning_rate=0.0)
    seen, action = np.random.default_rng(0).uniform(-1, 1, (2, 3, 2, 2)).astype(np.float32)
    action, no = action[..., :1], np.zeros((3, 2), bool)
    ended = np.array([[0, 0], [1, 0], [0, 0]], bool)
    time, to_go = np.array([[3, 0], [4, 1], [0, 2]], np.int32), np.array([[4, 6], [2, 5], [9, 3]], np.float32)
    rows = Experience(seen, action, to_go, seen, ended, no, no * 0, (), return_to_go=to_go, time=time)
    batch = Batch(rows, np.ones(2, np.float32), np.zeros(2, np.int32))

    def find_results():
        state = agent.init(KEY, LINE)._replace(scale=jnp.float32(2))
        there = np.array([[True, True], [True, True], [False, True]])
        outputs = [
            state.network(Sequence(to_go[:, i] / 2, seen[:, i], action[:, i], time[:, i], there[:, i])) for i in (0, 1)
        ]
        return jnp.stack(outputs, 1), agent.learn(state, batch, CLOCK, KEY)[2]

    outputs, error = small.compute(find_results)
    squares = (np.tanh(outputs) - action)[..., 0] ** 2
    np.testing.assert_allclose(error, [squares[:2, 0].mean(), squares[:, 1].mean()], rtol=1e-4)


def test_the_best_return_is_of_a_whole_episode():
    """Returns of 1 and 3 from the start, though 6 still came after a loss of 5."""
    data = record_episodes(2)._replace(reward=jnp.array([-5.0, 6.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0]))
    data = OpenedDataSet("chain", "", data).with_returns(ASKED, np.asarray(data.reward, float)).data
    np.testing.assert_array_equal(data.time, [0, 1, 2, 3] * 2)
    state = small.compute(lambda: ASKED.init_from_dataset(ASKED.init(KEY, SPEC), data))
    assert (state.best, state.scale) == (3, 6)


def test_what_it_reads_while_it_acts():
    agent = DecisionTransformer(**TINY, target_return=10.0)
    state = small.at_once(lambda: agent.init(KEY, LINE))._replace(scale=jnp.float32(2))

    def play():
        hidden, told = agent.init_hidden(LINE), []
        for number in range(4):
            _, hidden, _ = agent.act(state, ActInputs(hidden, jnp.full(2, number / 10), KEY, False))
            told.append(agent.context_inputs(state, hidden))
            hidden = agent.observe_action(state, hidden, jnp.array([0.1 * number]))
            hidden = agent.observe_reward(state, hidden, jnp.float32(number + 1))
        return told[1], told[3]

    early, told = small.compute(play)
    np.testing.assert_array_equal(early.there, [False, True, True])
    np.testing.assert_array_equal(early.time[1:], [0, 1])
    np.testing.assert_allclose(early.to_go[1:], [5, 4.5])
    np.testing.assert_array_equal(told.there, True)
    np.testing.assert_array_equal(told.time, [1, 2, 3])
    np.testing.assert_allclose(told.to_go, [(10 - 1) / 2, (10 - 3) / 2, (10 - 6) / 2])
    np.testing.assert_allclose(told.observation[:, 0], [0.1, 0.2, 0.3], rtol=1e-5)
    np.testing.assert_allclose(told.action[:2, 0], [0.1, 0.2], rtol=1e-5)


def test_returns_and_observations_are_scaled_by_the_data():
    data = record_episodes(8)._replace(observation=np.random.default_rng(0).normal(3, 2, (32, 2)).astype(np.float32))
    data = OpenedDataSet("chain", "", data).with_returns(ASKED, 2 * np.asarray(data.reward, float)).data
    state: DecisionTransformerState = small.compute(lambda: ASKED.init_from_dataset(ASKED.init(KEY, SPEC), data))
    assert state.best == state.scale == np.asarray(data.return_to_go).max() > 2
    np.testing.assert_allclose(state.norm.mean, np.asarray(data.observation).mean(0), rtol=1e-4)


def test_where_it_does_not_go():
    learner = loop_of(ASKED).learner
    with pytest.raises(ForageError, match="makes others of them"):
        dataclasses.replace(learner, rewards=Scale()).check()
    with pytest.raises(ForageError, match="learns from a data set alone"):
        dataclasses.replace(learner, memory=UniformReplay()).check()
    with pytest.raises(ForageError, match="a guide is not told"):
        ASKED.check_unpaid("a guide")
    with pytest.raises(ForageError, match="normalises each block"):
        dataclasses.replace(ASKED, layer_norm=True).check(SPEC)
    with pytest.raises(ForageError, match="a file is not told"):
        Policy(ASKED, small.at_once(lambda: ASKED.init(KEY, SPEC)), SPEC).export("policy.npz")
