"""Parameter noise: the perturbed weights and their redraws, the adaptation of the scale, and refusals."""

from dataclasses import replace
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from behaviour_helpers import BOX, FOUR, PENDULUM, AlwaysAgent, OnPolicy, Values, at, begin
from check_helpers import check
from gymnasium import spaces

from forage.agents.actor_critic.sac_discrete import SACDiscrete
from forage.agents.actor_critic.td3 import TD3
from forage.agents.q_learning.dqn import DQN
from forage.config.ranges import check_ranges
from forage.core import prng
from forage.core.ports import ActContext
from forage.core.types import AGENT, GONE, Experience, ForageError, Spec
from forage.nn.layers import Conv, Linear
from forage_papers.behaviours.parameter_noise import SCALES, ParameterNoise, ParameterNoiseState, log_policy, perturb


class Line(NamedTuple):
    """An agent's state: a factor of the observation, and a count that noise must leave alone."""

    weight: jax.Array
    steps: jax.Array


class LinearBehaviour(AlwaysAgent):
    """Its action, or its action values, are `weight` times the first number of the observation."""

    acting: ClassVar[str] = "weight"
    values: bool = False

    def init(self, key, spec):
        return Line(jnp.array([1.0, -1.0]), jnp.zeros(()))

    def act(self, state, inputs):
        assert not inputs.explore
        return state.weight * inputs.observation[0], inputs.hidden, state.steps

    def action_values(self, state, hidden, observation):
        return state.weight * observation[0] if self.values else None


CONTINUOUS = Spec("Two", BOX, spaces.Box(-2, 2, (2,)))
TWO = Spec("Two", BOX, spaces.Discrete(2))


def test_each_episode_has_a_network_of_its_own_that_stays():
    agent, behaviour = LinearBehaviour(), ParameterNoise(initial_scale=0.5)
    first = begin(behaviour, agent, CONTINUOUS)

    @jax.jit
    def run(key):
        state = behaviour.init(key, agent, CONTINUOUS)

        def step(hidden, inputs):
            key, time = inputs
            line = Line(jnp.array([1.0, -1.0]) + time, jnp.ones(()))  # the agent goes on learning
            moment = ActContext(agent, line, CONTINUOUS, at(0.0), key)
            action, hidden, policy_info, source, _ = behaviour.act(state, hidden, jnp.ones(2), moment)
            return hidden, (action, policy_info, source)

        def episode(key):
            return jax.lax.scan(step, first, (jax.random.split(key, 5), jnp.arange(5.0)))[1]

        return jax.vmap(episode)(jax.random.split(key, 3000))

    action, steps, source = jax.device_get(run(prng.key(0)))
    np.testing.assert_array_equal(action, np.broadcast_to(action[:, :1], action.shape))
    assert (steps == 1).all() and (source == AGENT).all()
    np.testing.assert_allclose(action[:, 0].mean(0), [1, -1], atol=0.05)
    np.testing.assert_allclose(np.cov(action[:, 0].T), 0.25 * np.eye(2), atol=0.03)


def rollout_of(observation):
    zero = jnp.zeros(observation.shape[:2])
    return Experience(observation, zero, zero, observation, zero > 0, zero > 0, zero.astype(int), ())


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_scale_grows_until_the_distance_is_what_is_wanted(values, share):
    """In the end its medians agree, measured here apart from the code by many draws."""
    agent = LinearBehaviour(values=values)
    behaviour = ParameterNoise(start=0.9, end=0.3, fraction=0.5, distance=0.1, adaptation=1.05)
    spec = TWO if values else CONTINUOUS
    seen = jnp.array([[[0.5, 0.0], [2.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]]])
    line = agent.init(None, spec)

    @jax.jit
    def run(key):
        def step(state, key):
            state = behaviour.report(state, rollout_of(seen), ActContext(agent, line, spec, at(share), key))
            return state, state.scale

        return jax.lax.scan(step, behaviour.init(key, agent, spec), jax.random.split(key, 1500))[1]

    scales = np.asarray(run(prng.key(0)))
    np.testing.assert_allclose(scales[:40], 0.01 * 1.05 ** np.arange(1, 41), rtol=1e-4)
    scale = np.exp(np.log(scales[500:]).mean())
    weights = np.array([1.0, -1.0]) + scale * np.random.default_rng(0).normal(size=(4000, 1, 2))
    x = np.array([0.5, 2.0, -1.0, 1.0])[:, None]
    if values:
        p = np.exp(x * [1, -1]) / np.exp(x * [1, -1]).sum(-1, keepdims=True)
        q = np.exp(x * weights) / np.exp(x * weights).sum(-1, keepdims=True)
        distance, epsilon = (p * np.log(p / q)).sum(-1).mean(-1), {0.0: 0.9, 1.0: 0.3}[share]
        wanted = -np.log(1 - epsilon + epsilon / 2)
    else:
        distance, wanted = np.sqrt((((weights - [1, -1]) * x / 2) ** 2).mean((1, 2))), 0.1  # the box is 4 wide
    assert np.mean(distance < wanted) == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("values", [False, True])
def test_what_who_has_left_sees_makes_no_distance(values):
    agent, behaviour = LinearBehaviour(values=values), ParameterNoise(initial_scale=9.0, start=0.01)
    spec = TWO if values else CONTINUOUS
    rollout = rollout_of(jnp.array([[[0.0, 0.0], [2.0, 0.0]]]))

    @jax.jit
    def grows(source):
        state = behaviour.init(prng.key(0), agent, spec)
        told = rollout._replace(source=source)
        moment = ActContext(agent, agent.init(None, spec), spec, at(0.0), prng.key(1))
        return behaviour.report(state, told, moment).scale > state.scale

    assert grows(jnp.array([[AGENT, GONE]])) and not grows(jnp.array([[AGENT, AGENT]]))


@pytest.mark.thorough
def test_a_scale_that_cannot_do_stays_within_bounds():
    """The observation is zero, so that noise has no effect."""
    agent, behaviour = LinearBehaviour(), ParameterNoise(initial_scale=9.9, adaptation=2.0)
    state = small.at_once(lambda: behaviour.init(prng.key(0), agent, CONTINUOUS))
    for _ in range(3):
        moment = ActContext(agent, agent.init(None, CONTINUOUS), CONTINUOUS, at(0.0), prng.key(0))
        state = behaviour.report(state, rollout_of(jnp.zeros((1, 1, 2))), moment)
    assert float(state.scale) == SCALES[1]


def test_all_weights_are_disturbed_but_those_of_convolutions():
    network = {"conv": Conv(prng.key(0), 1, 2, 3, 1, None), "head": Linear(prng.key(0), 200, 50, 1.0)}
    found = perturb(network, jnp.float32(0.1), prng.key(1))
    jax.tree.map(np.testing.assert_array_equal, found["conv"], network["conv"])
    for name in ("weight", "bias"):
        change = np.asarray(getattr(found["head"], name) - getattr(network["head"], name))
        assert change.std() == pytest.approx(0.1, rel=0.3) and np.unique(change).size > 45


@pytest.mark.parametrize("agent", [DQN(hidden_sizes=(4,)), SACDiscrete(hidden_sizes=(4,))], ids=["dqn", "sac-discrete"])
@pytest.mark.thorough
def test_policies_that_are_compared(agent):
    observation = {"observation": jnp.array([0.3, 0.4]), "action_mask": jnp.array([1, 0, 1, 1], jnp.int8)}
    spec = replace(FOUR, observation_space=spaces.Dict({"observation": BOX, "action_mask": spaces.MultiBinary(4)}))

    @jax.jit
    def run(key):
        state = agent.init(key, spec)
        values = agent.action_values(state, (), observation)
        values = state.actor(jax.tree.map(lambda x: x[None], observation))[0] if values is None else values
        return log_policy(agent, state, observation), values

    found, values = jax.device_get(run(prng.key(0)))
    weights = np.exp(values) * [1, 0, 1, 1]
    np.testing.assert_allclose(np.exp(found), weights / weights.sum(), atol=1e-6)
    assert np.isfinite(found).all()


@pytest.mark.thorough
def test_networks_of_agents_fit_in_what_is_remembered():
    for agent, spec in ((DQN(hidden_sizes=(4,)), FOUR), (TD3(hidden_sizes=(4,)), PENDULUM)):
        behaviour = ParameterNoise()
        behaviour.check(agent, spec)
        hidden = behaviour.init_hidden(agent, spec)
        network = getattr(agent.init(prng.key(0), spec), agent.acting)
        assert jax.tree.structure(hidden.network) == jax.tree.structure(network)
        assert not any(leaf.any() for leaf in jax.tree.leaves(hidden))
        state = behaviour.init(prng.key(0), agent, spec)
        assert isinstance(state, ParameterNoiseState) and state.half_range.tolist() == (
            [2.0] if spec is PENDULUM else []
        )


def test_what_it_cannot_do():
    for agent, spec, words in (
        (OnPolicy(), FOUR, "OnPolicy learns only from actions that it chose itself, and ParameterNoise chooses others"),
        (DQN(gru_size=4), FOUR, "needs an agent without memory, and DQN here remembers"),
        (AlwaysAgent(), FOUR, r"AlwaysAgent has none of them for Discrete\(4\); dqn, sac-discrete, sac and td3 do"),
        (Values(), FOUR, "Values acts without one; dqn has one"),
    ):
        with pytest.raises(ForageError, match=words):
            check(ParameterNoise(), agent, spec)
    with pytest.raises(ForageError, match="adaptation of it is above 1, not 1"):
        check_ranges(ParameterNoise(adaptation=1.0), "it")
