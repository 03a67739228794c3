"""Which runs share what is compiled: those that differ in numbers alone."""

import copy

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from tiers import gated

from forage.agents.ppo import PPO
from forage.behaviours.own import Own
from forage.compiling import kind
from forage.device import DeviceRoad, vary
from forage.environments import spec_of
from forage.environments.adapters.native import OnHost
from forage.environments.classic.cartpole import CartPole
from forage.experiment import Experiment
from forage.host import HostRoad
from forage.learner import Learner
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same
from forage.types import Spec

traced = []


class Traced(PPO):
    """Says when it is traced."""

    def learn(self, state, batch, clock, key):
        traced.append(self)
        return super().learn(state, batch, clock, key)


def weights(road, learning_rate=1e-3):
    """What two iterations make of the agent, and how often it was traced."""
    agent = Traced(
        num_envs=2, rollout_length=4, minibatches=1, epochs=1, hidden_sizes=(4,), learning_rate=learning_rate
    )
    learner = Learner(agent, Own(), EnvironmentReward(), LastRollout(), spec_of(CartPole(), "CartPole-v1"))
    if road == "device":
        run = DeviceRoad(vary(Experiment(learner, CartPole(), Same(), Reset()), {}), [0], 16)
    else:
        run = HostRoad([learner], lambda num_envs: OnHost(CartPole(), num_envs), [0], 16)
    before = len(traced)
    run.begin()
    run.advance(2)
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(run.agent_states().network)]), len(traced) - before


@pytest.mark.parametrize("road", gated(["device", "host"], ["device"]))
@pytest.mark.thorough
def test_another_number_is_not_traced_again_and_counts(road, no_programs):
    first, traces = weights(road)
    assert traces
    other, traces = weights(road, learning_rate=1e-1)
    assert not traces
    again, traces = weights(road)
    assert not traces
    assert np.array_equal(first, again) and not np.allclose(first, other)


@pytest.mark.parametrize("road", gated(["device", "host"], ["device"]))
@pytest.mark.thorough
def test_a_class_whose_code_was_replaced_is_traced_again(road, monkeypatch):
    """As a notebook does when a file was edited."""
    before, _ = weights(road)

    def lazy(self, state, batch, clock, key):
        traced.append(self)
        _, *rest = PPO.learn(self, state, batch, clock, key)
        return state, *rest

    monkeypatch.setattr(Traced, "learn", lazy)
    after, traces = weights(road)
    assert traces and not np.array_equal(before, after)


def test_kinds_differ_by_structure_and_class_and_not_by_numbers():
    agent, same = PPO(hidden_sizes=(4,)), PPO(hidden_sizes=(4,), learning_rate=0.5)
    assert kind(agent) == kind(same) and hash(kind(agent)) == hash(kind(same))
    assert kind(agent) != kind(PPO(hidden_sizes=(5,)))
    assert kind(agent) != kind(Traced(hidden_sizes=(4,)))


SPACES = {
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "nearly the same box": spaces.Box(-1, np.nextafter(np.float32(1), np.float32(2)), (2,), np.float32),
    "larger box": spaces.Box(-1, 1, (3,), np.float32),
    "double box": spaces.Box(-1, 1, (2,), np.float64),
    "discrete": spaces.Discrete(3),
    "discrete from 1": spaces.Discrete(3, start=1),
    "choices": spaces.MultiDiscrete([3, 2]),
    "dictionary": spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 1, (2,))}),
    "other dictionary": spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 2, (2,))}),
    "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2))),
}


def test_specs_are_equal_when_they_say_the_same_to_the_bit():
    def spec(space: gymnasium.Space, **more) -> Spec:
        return Spec("x", space, spaces.Discrete(2), **more)

    specs = [spec(space) for space in SPACES.values()]
    assert len(set(specs)) == len(SPACES)
    for name, one in zip(SPACES, specs, strict=True):
        space = copy.deepcopy(SPACES[name])
        space.seed(1)
        assert spec(space) == one and hash(spec(space)) == hash(one), name
    assert spec(SPACES["box"]) != spec(SPACES["box"], horizon=3)
    assert spec(SPACES["box"]) != Spec("y", SPACES["box"], spaces.Discrete(2))
