"""SAC Flow: rollouts and their densities by hand, its losses, and learning from data."""

import dataclasses
import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from critic_helpers import inputs_of
from gymnasium import spaces

from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage_papers.agents.actor_critic.sac_flow import Draws, SACFlow, embed_time
from forage_papers.nn.flow import draw_between

small.keep_compiled()
KEY, CLOCK = jax.random.key(0), Clock(jnp.int32(0), jnp.float32(100))
LINE = Spec("Line", spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Box(-2.0, 2.0, (1,), np.float32))
TINY = SACFlow(
    hidden_sizes=(4,), value_sizes=(4,), noise_sizes=(4,), flow_steps=2, decoder_width=8, discount=0.9,
    learning_rate=0.1, initial_temperature=0.5,
)  # fmt: skip
SEEN = np.array([[0.3, -0.2], [0.1, 0.9], [0.5, 0.5]], np.float32)


def constant(network, value):
    """Return the MLP with this constant output."""
    ends = lambda n: (n.layers[-1].weight, n.layers[-1].bias)  # noqa: E731
    return equinox.tree_at(ends, network, replace_fn=lambda x: jnp.zeros_like(x) + (value if x.ndim == 1 else 0))


@functools.cache
def state_of(agent=TINY):
    """A flow towards 0.8 at half speed, noise of log-deviation -1.5, and critics that say 1 and 3."""

    def make():
        state = agent.init(KEY, LINE)
        parts = lambda a: (a.velocity.candidate, a.velocity.deviation)  # noqa: E731
        actor = equinox.tree_at(parts, state.actor, tuple(map(constant, parts(state.actor), (0.8, 0.0))))
        if agent.flow == "gated":
            actor = equinox.tree_at(lambda a: a.velocity.gate, actor, constant(actor.velocity.gate, 0.0))
        say = lambda network, value: equinox.tree_at(lambda n: n.body, network, constant(network.body, value))  # noqa: E731
        each = jax.vmap(say)(state.critics, jnp.array([1.0, 3.0]))
        return state._replace(critics=each, target_critics=each, actor=actor)

    return small.at_once(make)


def rollout(noise, velocity):
    """Actions and log-densities of rollouts in two steps, with log-deviation -1.5."""
    x, log_density = noise[:, 0], -0.5 * noise[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)
    for e in noise[:, 1:].T:
        x = x + velocity(x) / 2 + np.exp(-1.5) * e
        log_density = log_density - 0.5 * e**2 - 0.5 * np.log(2 * np.pi) + 1.5
    return np.tanh(x), log_density - np.log(1 - np.tanh(x) ** 2)


NOISE = np.array([[0.2, -1.0, 0.4], [-0.8, 0.3, 0.1], [1.6, 0.0, -0.7]], np.float32)


@pytest.mark.parametrize(("flow", "velocity"), [("gated", lambda x: 0.5 * (0.8 - x)), ("plain", lambda x: 0.8 + 0 * x)])
def test_rollouts_and_losses_by_hand(flow, velocity):
    agent = dataclasses.replace(TINY, flow=flow, cloning=2.0)
    state, done = state_of(agent), np.array([[0.5], [-0.5], [0.0]], np.float32)

    def work_out(state):
        rollouts = state.actor(SEEN)
        draws, ends = Draws(NOISE, done, KEY), jnp.array([False, False, True])
        inputs = inputs_of(SEEN, reward=1.0, terminated=ends, counts=~ends, noise=draws, next_noise=NOISE)
        loss = agent.actor_loss(state.actor, state, inputs)[0]
        return *rollouts.from_noise(NOISE), rollouts.mode(), loss, agent.target(state, inputs)

    action, log_density, mode, loss, target = small.compute(work_out, state)
    by_hand, density = rollout(NOISE, velocity)
    np.testing.assert_allclose(action[:, 0], by_hand, rtol=1e-4)
    np.testing.assert_allclose(log_density, density, rtol=1e-4)
    still = velocity(0.0) / 2
    np.testing.assert_allclose(mode, np.full((3, 1), np.tanh(still + velocity(still) / 2)), rtol=1e-4)
    each = 0.5 * density - 1 + 2 * (by_hand - done[:, 0]) ** 2
    np.testing.assert_allclose(loss, each[:2].mean(), rtol=1e-4)
    np.testing.assert_allclose(target, 1 + 0.9 * np.where([0, 0, 1], 0, 1 - 0.5 * density), rtol=1e-4)


@pytest.mark.thorough
def test_a_decoder_reads_a_token_beside_the_states():
    agent = dataclasses.replace(TINY, flow="decoder", decoder_layers=1)
    state = small.at_once(lambda: agent.init(KEY, LINE))
    x, time = np.array([[0.1], [0.2], [-0.4]], np.float32), np.full((3, 1), 0.5, np.float32)
    velocity, deviation = small.compute(lambda s: s.actor.velocity(SEEN, x, time), state)
    net = jax.device_get(state.actor.velocity)
    linear = lambda layer, x: x @ layer.weight + layer.bias  # noqa: E731
    norm = lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-6)  # noqa: E731

    def mlp(network, x, function):
        for layer in network.layers[:-1]:
            x = np.asarray(function(linear(layer, x)))
        return linear(network.layers[-1], x)

    layer = net.layers[0]
    seen = mlp(net.state, SEEN, jax.nn.silu)
    y = linear(net.place, x) + mlp(net.time, time, jax.nn.silu)
    y = norm(y + linear(layer.own[1], linear(layer.own[0], y)))
    y = norm(y + linear(layer.cross[1], linear(layer.cross[0], seen)))
    y = norm(y + mlp(layer.inner, y, jax.nn.gelu))
    np.testing.assert_allclose(velocity, linear(net.velocity, y), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(deviation, linear(net.deviation, y), rtol=1e-3, atol=1e-5)


def test_times_are_told_as_waves():
    found = np.asarray(embed_time(jnp.array([[0.5]]))[0])
    np.testing.assert_allclose(found[[0, 15, 16, 31]], [np.sin(0.5), 0.5e-4, np.cos(0.5), 1], rtol=1e-5)


def batch():
    flags = np.zeros((1, 3), bool)
    action = np.array([[[1.6], [-2.0], [0.4]]], np.float32)
    now = Experience(SEEN[None], action, np.full((1, 3), 10, np.float32), SEEN[None], ~flags, flags, flags * 0, ())
    return jax.device_put(Batch(now, np.ones(3, np.float32), np.zeros(3, np.int32)))


@pytest.mark.thorough
def test_its_first_stage_imitates_and_the_next_climbs():
    imitating = dataclasses.replace(TINY, imitate=True)

    def work_out(state, now):
        return imitating.learn(state, now, CLOCK, KEY)[:2], TINY.learn(state, now, CLOCK, KEY)[:2]

    before = state_of()
    (taught, metrics), (climbed, plain) = small.compute(work_out, before, batch())
    ends = np.arctanh([[0.8], [-0.99], [0.2]])
    point, _, speed = draw_between(jnp.asarray(ends, jnp.float32), jax.random.fold_in(KEY, 2))
    np.testing.assert_allclose(metrics["actor_loss"], np.mean((0.5 * (0.8 - point) - speed) ** 2), rtol=1e-4)
    bias = lambda state, name: getattr(state.actor.velocity, name).layers[-1].bias  # noqa: E731
    assert abs(bias(taught, "candidate") - 0.8) > 0.09 and bias(taught, "deviation") == 0
    assert taught.log_temperature == before.log_temperature
    # Critics say the same of all actions, so that SAC's loss widens the noise where entropy is below its aim.
    assert bias(climbed, "deviation") > 0.09 and climbed.log_temperature != before.log_temperature
    np.testing.assert_allclose(metrics["critic_loss"], plain["critic_loss"])
    np.testing.assert_allclose(metrics["critic_loss"], (9**2 + 7**2) / 2, rtol=1e-4)


@pytest.mark.thorough
def test_what_it_draws_and_refuses():
    state = state_of()
    assert TINY.noise(LINE) == (3,)
    draw = jax.vmap(lambda key, noise: TINY.act(state, ActInputs((), SEEN[0], key, True, noise))[0], (None, 0))
    np.testing.assert_allclose(draw(KEY, NOISE)[:, 0], 2 * rollout(NOISE, lambda x: 0.5 * (0.8 - x))[0], rtol=1e-4)
    with pytest.raises(ForageError, match="not the actions that they end in"):
        TINY.log_probability(state, SEEN, SEEN[:, :1])
    with pytest.raises(ForageError, match="There is no flow 'river'"):
        SACFlow(flow="river")
    for wrong in ({"torso": "simba"}, {"state_dependent_noise": True}, {"count_dormant": True}):
        with pytest.raises(ForageError):
            SACFlow(**wrong)
