"""The loop on both runners: the clock, the ends of episodes, annealing, and evaluation apart from training."""

import concurrent.futures
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces
from tiers import first

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.behaviours.policy import AgentPolicy
from forage.config import part_options, registry
from forage.config.defaults import default_memory
from forage.config.resolve import resolve
from forage.core import prng
from forage.core.errors import ForageError
from forage.core.ports import Environment
from forage.core.types import AGENT, Clock, Step
from forage.environments import spec_of
from forage.environments.adapters.on_host import OnHost
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.programs import batch_seeds
from forage.loop.device.runner import DeviceRunner
from forage.loop.host.loop import HostLoop
from forage.loop.host.programs import actor_of
from forage.loop.host.runner import HostRunner
from forage.loop.learner import Learner
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same

RUNNERS = ("device", "host")
FEW = {"num_envs": 2, "rollout_length": 4, "hidden_sizes": (4,)}
AGENTS = {
    "ppo": (PPO(**FEW, minibatches=1, epochs=1), AgentPolicy()),
    "dqn": (DQN(**FEW, batch_size=4, learning_starts=8), EpsilonGreedy(start=1.0, end=1.0)),
}
ACTIONS = 8


class CountState(NamedTuple):
    time: jax.Array
    luck: jax.Array


class Count(Environment):
    """Rewards the action, plus a fraction drawn at reset; observations are the time, cut by the horizon of 3."""

    observation_space = spaces.Box(0, 10, (1,), np.float32)
    action_space = spaces.Discrete(ACTIONS)
    horizon = 3

    def reset(self, key):
        return CountState(jnp.int32(0), jax.random.uniform(key, maxval=0.9)), jnp.zeros(1)

    def step(self, state, action, key):
        time = state.time + 1
        reward = jnp.where(time == 1, action + state.luck, 0.0)
        return CountState(time, state.luck), Step(time[None] * 1.0, reward, jnp.bool_(False), time >= 3, {})


class TimedAgentPolicy(AgentPolicy):
    """Writes the clock into the source of actions, and the number of the stream into its own information."""

    def act(self, state, hidden, observation, moment):
        decision = super().act(state, hidden, observation, moment)
        return decision._replace(source=AGENT + moment.clock.steps, behaviour_info=moment.stream_index)


def loop(runner, agent, behaviour, seeds=(3,)):
    """Build and begin a run of `Count`. On the device it takes no steps."""
    world = Count()
    learner = Learner(agent, behaviour, EnvironmentReward(), default_memory(agent), spec_of(world, "Count"))
    if runner == "device":
        run = DeviceRunner(batch_seeds(DeviceLoop(learner, world, Same(), Reset()), {}), list(seeds), 1000)
    else:
        run = HostRunner([learner] * len(seeds), lambda num_envs: OnHost(world, num_envs), list(seeds), 1000)
    with small.no_training():
        run.begin()
    return run


def rollout(runner, run):
    """Collect one rollout, and return its experience and the clock it began with."""
    began = 24
    if runner == "device":
        clock = Clock(jnp.int32(began), jnp.float32(1000))
        state = jax.tree.map(lambda x: x[0], run.state)
        return jax.jit(lambda *a: run.varied.common.collect(*a))(state, clock, prng.key(0)).rollout, began
    heard = []
    one = run.loops[0]
    one.steps, one.learn = began, lambda rollout, clock: heard.append(rollout) or {}
    one.advance(1)
    return heard[0], began


@pytest.mark.parametrize("runner", first(1, RUNNERS))
def test_a_rollout_has_its_own_clock_and_ends(runner):
    """The clock moves with every step, and a cut episode's last next observation is that step's own."""
    found, began = rollout(runner, loop(runner, AGENTS["ppo"][0], TimedAgentPolicy()))
    steps = np.asarray(found.source) - AGENT
    np.testing.assert_array_equal(steps, began + 2 * np.arange(4)[:, None] + np.zeros((4, 2), int))
    np.testing.assert_array_equal(found.behaviour_info, np.zeros((4, 2), int) + np.arange(2))
    np.testing.assert_array_equal(np.asarray(found.truncated)[:, 0], [False, False, True, False])
    for env in range(2):
        np.testing.assert_array_equal(np.asarray(found.observation)[:, env, 0], [0, 1, 2, 0])
        np.testing.assert_array_equal(np.asarray(found.next_observation)[:, env, 0], [1, 2, 3, 1])


def test_the_host_acts_with_what_it_has_learned_and_with_its_own_numbers():
    run = loop("host", *AGENTS["dqn"], seeds=(3, 7))
    first = np.array(run.loops[0].actor().leaves[-1])
    run.advance(3)
    run.adopt([1, 1], {"learner.agent.discount": np.float32([0.5, 0.25])}, [False, False])
    for one, discount in zip(run.loops, (0.5, 0.25), strict=True):
        acting, wanted = one.actor(), actor_of(one.learner, one.state)
        assert acting.structure == wanted.structure and acting.tree[0].agent.discount == discount
        assert not small.differing(acting.leaves, jax.tree.map(jnp.asarray, wanted.leaves))
        assert not np.array_equal(acting.leaves[-1], first)


@pytest.mark.parametrize("agent", first(1, AGENTS))
@pytest.mark.parametrize("runner", RUNNERS)
def test_evaluation_is_greedy_and_plays_other_episodes(runner, agent):
    run = loop(runner, *AGENTS[agent], seeds=(3, 7))
    some, others = (run.evaluate(8, 3, seed)[0] for seed in (500_009, 1_000_003))
    for found in (some, others):  # seed, episode: one observation, so one action
        assert (np.floor(found) == np.floor(found[:, :1])).all()
    luck = np.concatenate([np.ravel(found % 1) for found in (some, others)])
    assert len(np.unique(luck)) == luck.size, "evaluations share episodes, or seeds do"


def test_evaluation_has_other_keys_than_training():
    run = loop("device", *AGENTS["ppo"], seeds=(3, 7))
    keys = []

    def play(varied, learner, given, *_):
        keys.append(given)
        return np.zeros((2, 1)), np.zeros((2, 1))

    program = concurrent.futures.Future()
    program.set_result(play)
    run._evaluation, run._jitted = lambda *_: program, lambda *_, **__: play
    for seed in (500_009, 1_000_003):
        run.evaluate(1, 3, seed)
        run.evaluate_points((), 1, 3, seed)
    training = [prng.key(seed) for seed in run.seeds]
    used = [tuple(np.ravel(jax.random.key_data(key))) for key in (*training, *jnp.concatenate([keys[0], keys[2]]))]
    assert len(set(used)) == 6
    for one, points in (keys[:2], keys[2:]):
        np.testing.assert_array_equal(jax.random.key_data(one), jax.random.key_data(points))


def test_the_host_resets_evaluation_with_other_seeds(monkeypatch):
    seeds, reset = [], OnHost._reset
    monkeypatch.setattr(OnHost, "_reset", lambda self, seed: seeds.append(seed) or reset(self, seed))
    run = loop("host", *AGENTS["ppo"], seeds=(3, 7))
    for seed in (500_009, 1_000_003):
        run.evaluate(1, 3, seed)
    assert len(seeds) == 6 and len(set(map(str, seeds))) == 6


def anneals(name):
    """Whether an agent has a learning rate that is annealed."""
    return any(field.name == "final_learning_rate" for field in part_options.fields(registry.part_class("agent", name)))


ANNEALED = [name for name in small.AGENTS if name in registry.PORTS["agent"] and anneals(name)]


@pytest.mark.parametrize("name", ANNEALED)
@pytest.mark.thorough
def test_the_learning_rate_is_annealed(name):
    """With a rate that falls to 0, weights move at the beginning of a run, and no more at its end."""
    agent, environment, options = small.ROWS[name]
    settings, parts = options | {"final_learning_rate": 0.0}, small.PARTS.get(name, {})
    runner = resolve(agent, environment, steps=10**6, seeds=[3], agent_options=settings, **parts).runner()
    runner.begin()
    runner.advance(8)  # past the start of learning

    def move_by(total):
        runner.total_steps = total
        before = jax.device_get(runner.agent_states().network)
        runner.advance(2)
        changes = jax.tree.map(lambda a, b: np.abs(a - b).max(initial=0.0), before, runner.agent_states().network)
        return max(map(float, jax.tree.leaves(changes)))

    assert move_by(10**6) > 0 and move_by(1) == 0


def test_training_ends_where_no_episode_of_a_rollout_could_be_judged():
    """Judged together: of two environments the first ends an episode at both steps, the second at the last."""
    ended = np.array([[True, False], [True, True]])
    rollout = SimpleNamespace(terminated=ended & [True, False], truncated=ended & [False, True])
    environment = SimpleNamespace(name="sums", unjudged_reason="the verifier returned nan")
    loop = SimpleNamespace(environment=environment)
    for judged in ([[0, 0], [0, 1]], [[1, 0], [0, 0]], [[1, 0], [1, 1]]):
        HostLoop.check_judged(loop, rollout, ended & ~np.array(judged, bool))
    with pytest.raises(
        ForageError, match=r"^None of the 3 episodes of a rollout of sums could be judged, as the verif"
    ):
        HostLoop.check_judged(loop, rollout, ended)
    HostLoop.check_judged(loop, rollout, ~ended & ended)
    rollout.truncated = rollout.terminated = np.array([[False, False], [False, True]])
    with pytest.raises(
        ForageError, match=r"^The only episode of a rollout of sums could not be judged, as the verifier"
    ):
        HostLoop.check_judged(loop, rollout, rollout.terminated)
