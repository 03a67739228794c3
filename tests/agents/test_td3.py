"""TD3 against numbers worked by hand, and on a task that takes one step."""

import dataclasses
import functools
import math

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from critic_helpers import inputs_of
from gymnasium import spaces
from small import at_once, compute

from forage.agents.actor_critic.td3 import TD3
from forage.core.ports import ActInputs
from forage.core.types import GONE, Batch, Clock, Experience, ForageError, Spec

BOX = spaces.Box(-2.0, 6.0, (1,), np.float32)
SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), BOX)
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
AGENT = TD3(discount=0.9, polyak=0.1, learning_rate=0.01, hidden_sizes=(8,))


@functools.cache
def beginning(agent):
    return at_once(lambda: agent.init(jax.random.key(0), SPEC))


def critics_of(critics, slopes, values):
    """Return critics Q_i(s, a) = slope_i a + value_i for every s. Valid for a > -10, so that relu(a + 10) is a + 10."""
    critics = jax.tree.map(np.zeros_like, critics)
    slopes, values = np.asarray(slopes), np.asarray(values)
    first, last = critics.body.layers[:2]
    first.weight[:, 3, 0], first.bias[:, 0] = 1.0, 10.0  # the action comes after three numbers of observation
    last.weight[:, 0, 0], last.bias[:, 0] = slopes, values - 10 * slopes
    return critics


def actor_of(actor, output):
    """The action tanh(output) for every s."""
    return equinox.tree_at(lambda a: a.head.bias, jax.tree.map(np.zeros_like, actor), np.array([output]))


def state_of(output=0.0, target_output=0.0, slopes=(0.0, 0.0), values=(3.0, 5.0), targets=(7.0, 6.0)):
    state = beginning(AGENT)
    return state._replace(
        actor=actor_of(state.actor, output),
        target_actor=actor_of(state.actor, target_output),
        critics=critics_of(state.critics, slopes, values),
        target_critics=critics_of(state.critics, slopes, targets),
    )


def transitions(action, reward, terminated, truncated):
    """Segments of one transition each, as a batch."""
    size = len(reward)
    observation = np.zeros((size, 3))
    experience = Experience(
        observation, action, jnp.asarray(reward, jnp.float32), observation,
        jnp.asarray(terminated, bool), jnp.asarray(truncated, bool), jnp.zeros(size, jnp.int32), (),
    )  # fmt: skip
    return jax.device_put(Batch(jax.tree.map(lambda x: x[None], experience), jnp.ones(size), jnp.arange(size)))


SMOOTHED = jax.jit(lambda *arguments: AGENT.target(*arguments))
BATCH = transitions(np.full((3, 1), 2.0), [1.0, 2.0, 4.0], [False, True, False], [False, False, True])


def test_value_goes_on_through_a_time_limit_and_not_through_an_end():
    _, metrics, error = compute(AGENT.learn, state_of(), BATCH, CLOCK, jax.random.key(0))
    target = np.array([1 + 0.9 * 6, 2, 4 + 0.9 * 6])  # the smaller of the target critics' 7 and 6
    off = np.stack([3 - target, 5 - target])
    np.testing.assert_allclose(error, np.abs(off).mean(0), rtol=1e-5)
    np.testing.assert_allclose(metrics["critic_loss"], 0.5 * (off**2).mean(1).sum(), rtol=1e-5)
    np.testing.assert_allclose(metrics["value"], 4.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("action", "noise", "smoothed"),
    [
        (0.1, 1.0, 0.1 + 0.2),  # noise times 0.2
        (0.1, 9.0, 0.1 + 0.5),  # the noise clipped
        (0.1, -9.0, 0.1 - 0.5),
        (0.8, 9.0, 1.0),  # and the action
        (-0.8, -9.0, -1.0),
    ],
)
def test_target_policy_smoothing(action, noise, smoothed):
    state = state_of(output=5.0, target_output=math.atanh(action), slopes=(2.0, 2.0))
    target = SMOOTHED(state, inputs_of(np.zeros((1, 3)), reward=1.0, next_noise=np.array([[noise]])))
    np.testing.assert_allclose(target, 1 + 0.9 * (6 + 2 * smoothed), rtol=1e-5)


def test_weights_multiply_the_critics_loss():
    inputs = inputs_of(np.zeros((2, 3)), weight=np.array([2.0, 0.5]))
    loss, _ = compute(AGENT.critic_loss, state_of().critics, inputs, np.array([1.0, 7.0]))
    np.testing.assert_allclose(loss, 0.5 * ((2 * 2**2 + 0.5 * 4**2) / 2 + (2 * 4**2 + 0.5 * 2**2) / 2), rtol=1e-5)


def test_actor_loss_is_of_the_first_critic():
    state = state_of(output=math.atanh(0.5), slopes=(2.0, -7.0))
    (loss, _), gradient = compute(
        jax.value_and_grad(AGENT.actor_loss, has_aux=True), state.actor, state, inputs_of(jnp.zeros((2, 3)))
    )
    np.testing.assert_allclose(loss, -(3 + 2 * 0.5), rtol=1e-5)
    np.testing.assert_allclose(gradient.head.bias, [-2 * (1 - 0.5**2)], rtol=1e-4)


@pytest.mark.thorough
def test_nothing_is_learned_from_agents_that_have_left():
    agent = dataclasses.replace(AGENT, policy_delay=1)
    state, left = beginning(agent), np.array([False, True, True])

    def run_learn(other, left=left):
        told = BATCH.experience
        see = lambda x: jnp.where(left[None, :, None], other, x + 1.0)  # noqa: E731
        told = told._replace(
            observation=see(told.observation),
            next_observation=see(told.next_observation),
            source=jnp.where(left, GONE, 0)[None].astype(jnp.int32),
        )
        return compute(agent.learn, state, BATCH._replace(experience=told), CLOCK, jax.random.key(0))

    (one, _, error), (two, _, again) = run_learn(2.0), run_learn(-7.0)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), one, two)
    assert not same(one.actor, state.actor) and same(run_learn(2.0, np.ones(3, bool))[0].actor, state.actor)
    for errors in (error, again):
        assert errors[0] > 0 and not errors[1:].any()


def test_the_actors_loss_is_a_mean_over_what_counts():
    state, seen = beginning(AGENT), np.arange(9.0).reshape(3, 3)
    counts = np.array([True, False, True])
    some, _ = compute(AGENT.actor_loss, state.actor, state, inputs_of(seen, counts=counts))
    whole, _ = compute(AGENT.actor_loss, state.actor, state, inputs_of(seen[counts]))
    np.testing.assert_allclose(some, whole, rtol=1e-5)


def same(a, b):
    return jax.tree.all(jax.tree.map(np.array_equal, a, b))


def test_policy_and_targets_wait_for_their_turn():
    agent = dataclasses.replace(AGENT, policy_delay=3)
    learn = jax.jit(lambda state: agent.learn(state, BATCH, CLOCK, jax.random.key(0))[0])
    state = state_of(slopes=(2.0, 2.0))
    for count in range(1, 7):
        before, state = state, learn(state)
        assert not same(before.critics, state.critics)
        waits = count % 3 != 0
        for slow in ("actor", "actor_optimiser", "target_actor", "target_critics"):
            assert same(getattr(before, slow), getattr(state, slow)) == waits, (count, slow)
        if not waits:
            pairs = (before.target_actor, state.actor, state.target_actor), (
                before.target_critics, state.critics, state.target_critics,
            )  # fmt: skip
            for old, new, moved in pairs:
                expected = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, old, new)
                jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), moved, expected)


@pytest.mark.thorough
def test_side_by_side_as_alone():
    """Under `vmap` the delayed step runs only for the seeds that are due."""
    learn = lambda state: AGENT.learn(state, BATCH, CLOCK, jax.random.key(0))[0]  # noqa: E731
    states = [state_of(slopes=(2.0, 2.0))._replace(updates=jnp.int32(count)) for count in (0, 1)]
    together = compute(jax.vmap(learn), jax.tree.map(lambda *x: jnp.stack(x), *states))
    for i, state in enumerate(states):
        alone = compute(learn, state)
        mine = jax.tree.map(lambda x: x[i], together)  # noqa: B023
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), mine, alone)


def test_the_actors_loss_does_not_move_the_critics():
    # With discount 0 and reward 3 the critics are right already.
    agent = dataclasses.replace(AGENT, discount=0.0, policy_delay=1)
    state = state_of(slopes=(2.0, 2.0), values=(1.0, 1.0))
    batch = transitions(np.full((2, 1), 6.0), [3.0, 3.0], [False] * 2, [False] * 2)  # 6 is 1 in the unit box
    after = compute(agent.learn, state, batch, CLOCK, jax.random.key(0))[0]
    assert same(after.critics, state.critics)
    np.testing.assert_allclose(after.actor.head.bias - state.actor.head.bias, 0.01, rtol=1e-3)  # uphill, Adam's first


def test_actions_are_noisy_only_when_exploring_and_in_the_box():
    state = state_of(output=math.atanh(0.95))
    act = lambda key, explore: AGENT.act(state, ActInputs((), np.zeros(3), key, explore))[0]  # noqa: E731
    keys = jax.random.split(jax.random.key(0), 1000)
    actions = compute(jax.vmap(lambda key: act(key, True)), keys)[:, 0]
    np.testing.assert_allclose(act(keys[0], False), 2 + 4 * 0.95, rtol=1e-5)
    assert actions.max() == 6.0
    # The lower half of the noise is not clipped: standard deviation 0.1 in the unit box, 0.4 here.
    low = actions[actions < 2 + 4 * 0.95] - (2 + 4 * 0.95)
    assert 0.35 < np.sqrt((low**2).mean()) < 0.45


@pytest.mark.thorough
def test_learns_a_bandit():
    agent = TD3(hidden_sizes=(32, 32), learning_rate=3e-3)

    @jax.jit
    def run(state):
        def update(state, key):
            unit = jax.random.uniform(key, (64, 1), minval=-1.0)
            batch = transitions(2 + 4 * unit, -((unit[:, 0] - 0.5) ** 2), jnp.ones(64), jnp.zeros(64))
            return agent.learn(state, batch, CLOCK, key)[0], None

        return jax.lax.scan(update, state, jax.random.split(jax.random.key(5), 600))[0]

    state = run(beginning(agent))
    action = agent.act(state, ActInputs((), np.zeros(3), jax.random.key(0), False))[0]
    np.testing.assert_allclose((action - 2) / 4, [0.5], atol=0.1)


def test_says_what_would_work():
    says = r"^TD3 needs a continuous, bounded action space, and CartPole-v1 has Discrete\(2\); try ppo, dqn or sac-"
    with pytest.raises(ForageError, match=says):
        check(AGENT, Spec("CartPole-v1", SPEC.observation_space, spaces.Discrete(2)))
    check(AGENT, SPEC)
