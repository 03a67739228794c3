"""SQIRL: its returns, learning and decisions, and a task within its horizon."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium import spaces
from tiers import gate_cases

from forage.behaviours.policy import AgentPolicy
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.environments import spec_of
from forage.environments.tabular.mdp import Tabular
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.programs import batch_seeds
from forage.loop.device.runner import DeviceRunner
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same
from forage_papers.agents.q_learning.sqirl import SQIRL, Place, returns_to_go

KEY = jax.random.key(0)


def two_ways(last):
    """Three steps. Left at first gives 1 and ends; right continues, and only right and right again gives `last`.

    At random the second way is worth last / 4, so it is seen at once if `last` is above 4, and with a step of planning
    if it is above 2.
    """
    transition, reward = np.zeros((4, 2, 4)), np.zeros((4, 2))
    transition[:, :, 3] = 1.0
    for state in (0, 1):
        transition[state, 1] = np.eye(4)[state + 1]
    reward[0, 0], reward[2, 1] = 1.0, last
    return Tabular(transition, reward, np.eye(4)[0], np.eye(4, dtype=bool)[3], 3)


AGENT = SQIRL(num_envs=16, rollout_length=24, regression_steps=150, minibatch_size=64, hidden_sizes=(16,))


@functools.cache
def train_agent(last, depth):
    """The agent's state after as many rollouts as there are steps, and one more."""
    environment, agent = two_ways(last), dataclasses.replace(AGENT, planning_depth=depth)
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), LastRollout(), spec_of(environment, "TwoWays"))
    learner.check()
    runner = DeviceRunner(batch_seeds(DeviceLoop(learner, environment, Same(), Reset()), {}), [0], 4 * 16 * 24)
    runner.begin()
    runner.advance(4)
    return agent, jax.tree.map(lambda x: x[0], runner.agent_states())


def at(agent, state, time, where):
    place = Place(jnp.int32(time), jnp.int32(0))
    observation = jax.nn.one_hot(where, 4)
    return (
        np.asarray(agent.action_values(state, place, observation)),
        int(agent.act(state, ActInputs(place, observation, KEY, explore=False))[0]),
    )


@pytest.mark.parametrize(
    ("last", "depth", "first"),
    # Values of the two first actions: the random policy's, then with the best of two or three actions planned.
    gate_cases(
        [(3.0, 1, [1, 0.75]), (3.0, 2, [1, 1.5]), (1.5, 2, [1, 0.75]), (1.5, 3, [1, 1.5])], [(1.5, 3, [1, 1.5])]
    ),
)
def test_values_are_those_of_shallow_iteration(last, depth, first):
    agent, state = train_agent(last, depth)
    assert int(state.stage) == 3
    values, action = at(agent, state, 0, 0)
    np.testing.assert_allclose(values, first, atol=0.25)  # from some hundred random episodes
    assert action == int(np.argmax(first))
    if action == 1:  # what comes later is learned on the way that was decided
        assert at(agent, state, 1, 1)[1] == at(agent, state, 2, 2)[1] == 1
        np.testing.assert_allclose(at(agent, state, 2, 2)[0], [0, last], atol=0.1)


def test_returns_go_to_the_end_of_the_episode():
    reward = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    ended = np.array([[0, 0], [1, 0], [0, 1], [0, 0]], bool)
    returns, whole = returns_to_go(reward, ended, 0.5)
    np.testing.assert_allclose(returns[:3], [[2.5, 5.5], [3.0, 7.0], [8.5, 6.0]])
    np.testing.assert_array_equal(whole, [[1, 1], [1, 1], [0, 1], [0, 0]])


@pytest.mark.thorough
def test_it_acts_at_random_from_the_first_time_that_is_not_decided():
    agent, state = train_agent(3.0, 2)
    act = jax.vmap(lambda s, p, k: agent.act(s, ActInputs(p, jnp.zeros(4), k, True)), in_axes=(None, None, 0))
    keys = jax.random.split(KEY, 2000)
    for time, stage, random in ((0, 1, False), (1, 1, True), (2, 3, False)):
        actions, after, told = act(state._replace(stage=jnp.int32(stage)), Place(jnp.int32(time), jnp.int32(1)), keys)
        if random:
            assert 0.42 < np.mean(actions) < 0.58  # more than seven standard deviations
        else:
            assert len(np.unique(actions)) == 1
        assert (after.time == time + 1).all() and (told.time == time).all()
        assert (told.stage == (stage if time == 0 else 1)).all()  # i when the episode began


@pytest.mark.thorough
def test_masked_actions_are_never_drawn():
    seen = spaces.Dict({"observation": spaces.Discrete(2), "action_mask": spaces.MultiBinary(3)})
    spec = Spec("Masked", seen, spaces.Discrete(3), horizon=4)
    state = small.at_once(lambda: AGENT.init(KEY, spec))
    observation = {"observation": jnp.int32(0), "action_mask": np.array([1, 0, 1], jnp.int8)}
    act = jax.vmap(lambda key: AGENT.act(state, ActInputs(AGENT.init_hidden(spec), observation, key, True))[0])
    assert set(np.asarray(act(jax.random.split(KEY, 200))).tolist()) == {0, 2}


@pytest.mark.parametrize(("first_only", "usable"), [(False, 4), (True, 1)])
@pytest.mark.thorough
def test_late_episodes_that_happened_to_be_short_do_not_count(first_only, usable):
    environment = two_ways(3.0)
    options = {"num_envs": 1, "rollout_length": 6, "first_only": first_only}
    spec, agent = spec_of(environment, "TwoWays"), dataclasses.replace(AGENT, **options)
    column = lambda x: np.asarray(x)[:, None]  # noqa: E731
    seen, ended, none = np.zeros((6, 1, 4)), column([True] * 6), column([0] * 6)
    rollout = Experience(
        seen, none, none * 1.0, seen, ended, ~ended, none, Place(none, none)
    )  # six episodes of a step each, of which the last two had no room for three
    batch = Batch(rollout, np.ones(1), np.zeros(1, int))
    _, metrics, _ = jax.jit(agent.learn)(agent.init(KEY, spec), batch, Clock(jnp.int32(0), jnp.float32(100)), KEY)
    assert metrics["usable_episodes"] == usable
    assert not set(metrics) & {"episodes", "return", "length", "updates"}  # which the curve's points have of their own


@pytest.mark.parametrize(
    ("options", "spec", "words"),
    [
        ({}, {}, "have no limit"),
        ({"rollout_length": 30}, {"horizon": 20}, "a rollout_length of 40 or more"),
        ({"planning_depth": 0}, {"horizon": 3}, "planning-depth of SQIRL is 1 or more, not 0"),
        ({}, {"action_space": spaces.Box(-1, 1, (2,)), "horizon": 3}, "try ppo"),
    ],
)
def test_what_it_cannot_do(options, spec, words):
    spec = Spec(
        **({"name": "Here", "observation_space": spaces.Discrete(3), "action_space": spaces.Discrete(2)} | spec)
    )
    with pytest.raises(ForageError, match=words):
        check(SQIRL(**options), spec)
