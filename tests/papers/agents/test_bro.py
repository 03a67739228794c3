"""BRO's target, explorer and adjustments by hand in NumPy, its resets, and refusals."""

import dataclasses

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from critic_helpers import inputs_of
from gymnasium import spaces
from small import at_once, compute

from forage.core.ports import ActInputs
from forage.core.types import Batch, Experience, ForageError, Spec
from forage.nn.critics import ActionValue, each_value
from forage_papers.agents.actor_critic.bro import BRO, to_weight

SPEC = Spec("Box", spaces.Box(-9.0, 9.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (2,), np.float32))
AGENT = BRO(
    discount=0.9, hidden_sizes=(8,), value_sizes=(8,), quantiles=4, initial_optimism=3.0, initial_penalty=0.5,
    learning_starts=10, updates_per_rollout=2, resets=(11, 13),
)  # fmt: skip
RANDOM = np.random.default_rng(0)
SEEN, AFTER = RANDOM.normal(size=(2, 6, 3)).astype(np.float32)
ACTION, NOISE = RANDOM.uniform(-1, 1, (2, 6, 2)).astype(np.float32)
REWARD, ENDS = np.arange(6.0, dtype=np.float32), np.array([True, False] * 3)


def beginning():
    return at_once(lambda: AGENT.init(jax.random.key(0), SPEC))


def test_target_and_explorer_are_their_formulas():
    state = beginning()
    far = equinox.tree_at(lambda explorer: explorer.shift, state.explorer, 50 * state.explorer.shift)

    def ask_case(state):
        ask = lambda observation, action: each_value(state.critics, observation, action, ask=ActionValue.outputs)  # noqa: E731
        policy, later = state.actor(SEEN), state.actor(AFTER).from_noise(NOISE)
        optimistic = AGENT.explorers(far, policy, SEEN)
        drawn = optimistic.from_noise(NOISE)[0]
        inputs = inputs_of(SEEN, reward=REWARD, next_observation=AFTER, terminated=ENDS, noise=NOISE, next_noise=NOISE)
        target = AGENT.target(state, inputs)
        first, action = (
            AGENT.explorer_loss(far, state, inputs),
            AGENT.act(state, ActInputs((), SEEN[0], None, True, NOISE[0])),
        )
        exploring = state._replace(explorer=far)
        density = AGENT.log_probability(exploring, SEEN, drawn), optimistic.from_noise(NOISE)[1]
        return policy, optimistic, later, ask(AFTER, later[0]), ask(SEEN, drawn), target, first, action[0], density

    policy, optimistic, later, there, here, target, (loss, apart), action, density = compute(ask_case, state)
    np.testing.assert_allclose(*density, rtol=1e-3, atol=1e-3)  # of the explorer that acts, not of the policy
    expected = REWARD + 0.9 * np.where(ENDS, 0, there.mean(0).T - later[1])
    np.testing.assert_allclose(target, expected, rtol=1e-4, atol=1e-5)

    np.testing.assert_allclose(np.exp(optimistic.log_std), 0.75 * np.exp(policy.log_std), rtol=1e-5)
    shift = optimistic.mean - policy.mean
    kl = (shift**2 / (2 * np.exp(policy.log_std) ** 2)).sum(1)
    assert kl.mean() > 1e-3
    bound = (here.mean(0) + 3.0 * np.abs(here[0] - here[1]) / 2).mean(1)
    np.testing.assert_allclose(apart, kl.mean(), rtol=1e-4)
    np.testing.assert_allclose(loss, (0.5 * kl - bound).mean(), rtol=1e-4, atol=1e-5)
    mean = policy.mean[0] + shift[0] / 50
    np.testing.assert_allclose(
        action, np.tanh(mean + 0.75 * np.exp(policy.log_std[0]) * NOISE[0]), rtol=1e-3, atol=1e-4
    )


def test_deviations_begin_with_a_smaller_gain_than_means():
    """As in the authors' networks/policies.py: the root of 2 for means, 1 for deviations, 0.01 for the explorer."""
    state = jax.device_get(beginning())
    size = lambda weight: np.linalg.svd(weight, compute_uv=False)  # noqa: E731
    for weight, gain in (
        (state.actor.head.weight[:, :2], 2**0.5), (state.actor.head.weight[:, 2:], 1.0), (state.explorer.shift, 0.01)
    ):  # fmt: skip
        np.testing.assert_allclose(size(weight), gain, rtol=1e-4)


@pytest.mark.thorough
def test_adjustments_aim_at_the_divergence_and_resets_keep_the_count():
    """Too near the policy, optimism rises and the penalty falls; after the fifth update all is new."""
    now = Experience(SEEN, ACTION, REWARD, AFTER, ENDS, ~ENDS, np.zeros(6, np.int32), ())
    batch = Batch(jax.tree.map(lambda x: np.asarray(x)[None], now), np.ones(6), np.arange(6))
    agent = dataclasses.replace(AGENT, divergence=1e6)  # first deviations may be near exp(-10), and far from others so

    @jax.jit
    def run_learn(state):
        state, metrics, _ = agent.learn(state, jax.device_put(batch), None, jax.random.key(1))
        renewed = [
            AGENT.reset_networks(state._replace(updates=jnp.int32(n)), batch, jax.random.key(2), SPEC)[0]
            for n in (5, 4)
        ]
        return state, metrics, renewed, AGENT.init(jax.random.key(2), SPEC)

    first = beginning()
    np.testing.assert_allclose([to_weight(first.optimism), to_weight(first.penalty)], [3.0, 0.5], rtol=1e-4)
    state, metrics, (fresh, kept), other = jax.device_get(run_learn(first))
    np.testing.assert_allclose(metrics["optimism"], 3.0 * (1 + rise(3.0) * 3e-5), rtol=1e-5)
    np.testing.assert_allclose(metrics["penalty"], 0.5 * (1 - rise(0.5) * 3e-5), rtol=1e-5)
    assert metrics["optimism"] > 3.0 and metrics["penalty"] < 0.5
    assert np.any(state.explorer.shift != np.asarray(first.explorer.shift))
    jax.tree.map(np.testing.assert_array_equal, fresh._replace(updates=0), other._replace(updates=0))
    jax.tree.map(np.testing.assert_array_equal, kept._replace(updates=0), state._replace(updates=0))
    assert (fresh.updates, kept.updates) == (5, 4)


@pytest.mark.parametrize(("starts", "reset"), [(10, [5, 9]), (0, [23, 27])])
def test_resets_come_with_the_first_update_after_their_steps(starts, reset):
    """A run stopped at step 11, after all updates due by then, keeps its networks, and so its score."""
    agent = dataclasses.replace(AGENT, learning_starts=starts)
    now = Experience(SEEN, ACTION, REWARD, AFTER, ENDS, ~ENDS, np.zeros(6, np.int32), ())
    batch = Batch(jax.tree.map(lambda x: np.asarray(x)[None], now), np.ones(6), np.arange(6))

    def is_new(state, updates):
        renewed = agent.reset_networks(state._replace(updates=updates), batch, jax.random.key(2), SPEC)[0]
        return (renewed.explorer.shift != state.explorer.shift).any()

    found = compute(lambda: jax.vmap(is_new, (None, 0))(AGENT.init(jax.random.key(0), SPEC), jnp.arange(30)))
    assert np.flatnonzero(found).tolist() == reset


def rise(weight):
    """Return the derivative of a weight w = exp(-10 + 8.75 (1 + tanh x)) by x, over w."""
    inside = (np.log(weight) + 10) / 8.75 - 1
    return 8.75 * (1 - inside**2)


def test_says_what_does_not_go_with_it():
    for options, sentence in (
        ({"critics": 3}, "leave critics out"),
        ({"quantiles": 0, "bins": 11}, "leave bins out"),
        ({"dropped_quantiles": 1}, "leave dropped_quantiles out"),
        ({"state_dependent_noise": True, "squash_deviation": False}, "leave state_dependent_noise out"),
        ({"optimiser": "adamw"}, "leave optimiser out"),
    ):
        with pytest.raises(ForageError, match=rf"^BRO.*{sentence}\.$"):
            BRO(**options)
