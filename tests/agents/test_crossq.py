"""CrossQ's joint pass and running statistics, by hand in NumPy, and refusals."""

import dataclasses

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from critic_helpers import inputs_of
from gymnasium import spaces
from small import compute, first_state
from tiers import gate_cases

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.crossq import CrossQ
from forage.core.ports import ActInputs
from forage.core.types import GONE, Batch, Clock, Experience, ForageError, Spec
from forage.nn.batch_norm import BatchNorm

SPEC = Spec("Box", spaces.Box(-9.0, 9.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (2,), np.float32))
AGENT = CrossQ(discount=0.9, hidden_sizes=(8,), value_sizes=(16,), initial_temperature=0.5, policy_delay=2)
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
RANDOM = np.random.default_rng(0)
SEEN, AFTER = RANDOM.normal(2.0, 3.0, (2, 6, 3)).astype(np.float32)
ACTION, NOISE = RANDOM.uniform(-1, 1, (2, 6, 2)).astype(np.float32)
REWARD, ENDS = np.arange(6.0, dtype=np.float32), np.array([True, False] * 3)


def transitions(source=None):
    source = np.zeros(6, np.int32) if source is None else source
    return Experience(SEEN, ACTION, REWARD, AFTER, ENDS, ~ENDS, source, ())


def batch(now):
    return jax.device_put(Batch(jax.tree.map(lambda x: np.asarray(x)[None], now), np.ones(6), np.arange(6)))


def beginning(agent=AGENT):
    return first_state(agent, SPEC)


def normalise(x):
    return (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3)


def outputs(critic, x):
    """Return a critic's values of a batch, normalised by the batch, and the inputs of its two norms."""
    first, last = critic.body.layers
    inside = np.maximum(normalise(x) @ np.asarray(first.weight) + np.asarray(first.bias), 0)
    return (normalise(inside) @ np.asarray(last.weight) + np.asarray(last.bias))[:, 0], (x, inside)


def test_the_loss_is_of_one_pass_through_both_halves():
    state = beginning()
    draw = lambda actor: actor(AFTER).from_noise(NOISE)  # noqa: E731  # by running statistics, which are 0 and 1
    next_action, log_probability = compute(draw, state.actor)
    both = np.concatenate([np.concatenate([SEEN, ACTION], 1), np.concatenate([AFTER, next_action], 1)])
    critics = [jax.tree.map(lambda x, i=i: np.asarray(x)[i], state.critics) for i in (0, 1)]
    values = np.array([outputs(critic, both)[0] for critic in critics])
    target = REWARD + 0.9 * np.where(ENDS, 0, values[:, 6:].min(0) - 0.5 * log_probability)
    differentiated = jax.value_and_grad(AGENT.joint_loss, has_aux=True)
    (loss, (report, taught)), gradient = compute(
        differentiated, state.critics, state, UpdateInputs(transitions(), ACTION, np.ones(6), next_noise=NOISE)
    )
    # If the target got a gradient, the share of it that does not end would be missing here.
    np.testing.assert_allclose(gradient.body.layers[-1].bias[:, 0], (values[:, :6] - target).mean(1), rtol=1e-3)
    np.testing.assert_allclose(loss, 0.5 * ((values[:, :6] - target) ** 2).mean(1).sum(), rtol=1e-4)
    np.testing.assert_allclose(report.value, values[:, :6].mean(), rtol=1e-4)
    for index, critic in enumerate(critics):
        for norm, saw in zip(taught.body.batch_norms, outputs(critic, both)[1], strict=True):
            np.testing.assert_allclose(norm.mean[index], 0.01 * saw.mean(0), rtol=1e-3, atol=1e-6)
            np.testing.assert_allclose(norm.variance[index], 0.99 + 0.01 * saw.var(0), rtol=1e-4)


def test_the_actor_climbs_the_least_critic_and_its_entropy():
    """The loss from its parts, and plain descent along its slope in one number, by small differences."""
    agent = dataclasses.replace(AGENT, optimiser="sgd", learning_rate=0.5)
    state, counts = beginning(agent), np.array([True, True, True, False, True, True])
    critics = jax.tree.map(lambda x: 3 * x, state.critics)
    state = state._replace(critics=critics, log_temperature=jnp.log(0.2))

    def step(by):
        actor = equinox.tree_at(lambda a: a.head.bias, state.actor, state.actor.head.bias.at[0].add(by))
        return agent.improve_actor(state._replace(actor=actor), inputs_of(SEEN, noise=NOISE, counts=counts))

    def find_results():
        policy, _ = state.actor.apply_in_training(SEEN, counts)
        action, density = policy.from_noise(NOISE)
        each = jnp.stack([jax.tree.map(lambda x, i=i: x[i], critics)(SEEN, action) for i in (0, 1)])
        after, (_, loss, _) = step(0.0)
        higher, lower = (step(by)[1].loss for by in (1e-2, -1e-2))
        return each, density, loss, after.actor.head.bias[0] - state.actor.head.bias[0], (higher - lower) / 2e-2

    each, density, loss, moved, slope = compute(find_results)
    assert set(each.argmin(0)) == {0, 1}
    np.testing.assert_allclose(loss, (0.2 * density - each.min(0))[counts].mean(), rtol=1e-4)
    np.testing.assert_allclose(moved, -0.5 * slope, rtol=2e-2)
    assert abs(slope) > 1e-3


def norms_of(network):
    parts = jax.tree.leaves(network, is_leaf=lambda part: isinstance(part, BatchNorm))
    return [part for part in parts if isinstance(part, BatchNorm)]


@pytest.mark.parametrize("optimiser", gate_cases(["adam", "adamw"], ["adam"]))
def test_an_update_moves_statistics_by_the_batch_alone(optimiser):
    agent = dataclasses.replace(AGENT, optimiser=optimiser, learning_rate=0.1)
    state = beginning(agent)
    learn = jax.jit(agent.learn)
    first = jax.device_get(learn(state, batch(transitions()), CLOCK, jax.random.key(1))[0])
    inputs = norms_of(first.critics)[0]
    np.testing.assert_allclose(inputs.mean[0, :3], 0.01 * (SEEN.mean(0) + AFTER.mean(0)) / 2, rtol=1e-4)
    assert (inputs.batches == 1).all() and first.target_critics is None
    # The policy waits for the second update.
    jax.tree.map(np.testing.assert_array_equal, first.actor, jax.device_get(state.actor))
    second = jax.device_get(learn(first, batch(transitions()), CLOCK, jax.random.key(2))[0])
    inputs = norms_of(second.actor)[0]
    np.testing.assert_allclose(inputs.mean, 0.01 * SEEN.mean(0), rtol=1e-4)
    np.testing.assert_allclose(inputs.variance, 0.99 + 0.01 * SEEN.var(0), rtol=1e-4)
    assert inputs.batches == 1 and np.any(second.actor.head.weight != first.actor.head.weight)
    assert second.log_temperature != first.log_temperature


def test_acting_is_by_running_statistics():
    state = beginning()
    mean = jnp.array([1.0, -2.0, 3.0])
    known = equinox.tree_at(lambda actor: actor.torso.body.batch_norms[0].mean, state.actor, mean)
    act = lambda actor, seen: AGENT.act(state._replace(actor=actor), ActInputs((), seen, jax.random.key(0), False))[0]  # noqa: E731
    moved, same = compute(act, known, SEEN[0] + mean), compute(act, state.actor, SEEN[0])
    np.testing.assert_allclose(moved, same, rtol=1e-5, atol=1e-6)
    assert np.abs(compute(act, known, SEEN[0]) - same).max() > 1e-3


@pytest.mark.thorough
def test_nothing_is_learned_from_agents_that_have_left():
    state, left = beginning(), np.array([0, 0, GONE, 0, GONE, 0], np.int32)
    gone = transitions(left)
    other = gone._replace(
        observation=np.where(left[:, None] == GONE, 50, SEEN),
        next_observation=np.where(left[:, None] == GONE, -7, AFTER),
    )
    learn = jax.jit(dataclasses.replace(AGENT, policy_delay=1).learn)
    one, two = (learn(state, batch(now), CLOCK, jax.random.key(0))[0] for now in (gone, other))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), one, two)


def test_says_what_does_not_go_with_it():
    with pytest.raises(ForageError, match=r"^CrossQ has no target networks.*leave polyak out\.$"):
        CrossQ(polyak=0.005)
    with pytest.raises(ForageError, match=r"in an MLP; leave torso out\.$"):
        CrossQ(torso="simba", value_sizes=(16,), hidden_sizes=(8,))
    with pytest.raises(ForageError, match=r"^CrossQ has a loss of its own.*leave diversity out\.$"):
        CrossQ(diversity=0.1)
    with pytest.raises(ForageError, match=r"^CrossQ normalises batches of numbers.*sac works\.$"):
        check(AGENT, Spec("Screen", spaces.Box(0, 255, (64, 64, 3), np.uint8), SPEC.action_space))


def test_a_loss_that_is_never_called_is_refused():
    class Bonus(CrossQ):
        def critic_loss(self, critics, inputs, target):
            return super().critic_loss(critics, inputs, target)

    spec = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (2,), np.float32))
    with pytest.raises(ForageError, match="Bonus defines critic_loss, which CrossQ never calls; its loss"):
        Bonus().check(spec)
    CrossQ().check(spec)
