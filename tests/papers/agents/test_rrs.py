"""RRS: its targets by hand, the critics that the policy follows, and TD3 with a single shift of 0."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from critic_helpers import inputs_of
from gymnasium import spaces

from forage.agents.actor_critic.td3 import TD3
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage_papers.agents.actor_critic.rrs import RRS

SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32))
CLOCK, KEY = Clock(jnp.int32(0), jnp.float32(100)), jax.random.key(0)
COMMON = {"hidden_sizes": (8,), "learning_rate": 0.01, "discount": 0.9, "policy_delay": 1}
AGENT, TWIN = RRS(**COMMON, shifts=(-1.0, 0.0, 2.0)), TD3(**COMMON)


@functools.cache
def beginning(agent):
    return small.at_once(lambda: agent.init(KEY, SPEC))


def saying(critics, values, slopes):
    """Critics of values + slope a, for -10 < a: `values` and `slopes` of each shift and twin."""
    critics = jax.tree.map(np.zeros_like, critics)
    values, slopes = np.asarray(values, np.float32), np.asarray(slopes, np.float32)
    first, last = critics.body.layers[:2]
    first.weight[..., 3, 0], first.bias[..., 0] = 1.0, 10.0  # the action comes after three numbers of observation
    last.weight[..., 0, 0], last.bias[..., 0] = slopes, values - 10 * slopes
    return critics


def batch_of(reward, terminated=False):
    number = len(reward)
    observation, no = np.zeros((1, number, 3)), np.zeros((1, number), bool)
    action = jnp.linspace(-0.5, 0.5, number)[None, :, None]
    experience = Experience(
        observation, action, jnp.asarray(reward, jnp.float32)[None], observation,
        no | terminated, no, jnp.zeros((1, number), jnp.int32), (),
    )  # fmt: skip
    return jax.device_put(Batch(experience, np.ones(number), np.zeros(number, jnp.int32)))


def test_targets_by_hand():
    """Each pair has its own constant and its own lesser twin; a terminal step keeps the constant."""
    state = beginning(AGENT)
    flat = [[1.0, 4.0], [3.0, 2.0], [-5.0, 7.0]]
    state = state._replace(target_critics=saying(state.critics, flat, np.zeros((3, 2))))
    reward, ended = jnp.array([10.0, 20.0]), np.array([False, True])
    inputs = inputs_of(np.zeros((2, 3)), reward=reward, terminated=ended, next_noise=np.zeros((2, 1)))
    found = jax.jit(AGENT.target)(state, inputs)
    least = np.array([1.0, 2.0, -5.0])
    shift = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(found, np.stack([10 + shift + 0.9 * least, 20 + shift], 1), rtol=1e-5)


def test_the_loss_is_the_sum_over_pairs():
    values = np.array([[1.0, 4.0], [3.0, 2.0], [-5.0, 7.0]])
    critics = saying(beginning(AGENT).critics, values, np.zeros((3, 2)))
    target, weight = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]), np.array([1.0, 0.5])
    inputs = inputs_of(jnp.zeros((2, 3)), weight=weight)
    loss, report = jax.jit(AGENT.critic_loss)(critics, inputs, jnp.asarray(target))
    error = values[:, :, None] - target[:, None]  # shift, twin, batch
    np.testing.assert_allclose(loss, 0.5 * (weight * error**2).mean(-1).sum(), rtol=1e-5)
    np.testing.assert_allclose(report.error, np.abs(error).mean((0, 1)), rtol=1e-5)


@pytest.mark.parametrize("mood", [0, 1, 2])
def test_the_policy_follows_one_of_them(mood):
    """It follows the first of its twins: better values of the other twin and of other pairs have no effect."""
    slopes = np.full((3, 2), -1.0)
    slopes[mood, 0] = 1.0
    state = beginning(AGENT)
    state = state._replace(critics=saying(state.critics, np.zeros((3, 2)), slopes), mood=jnp.int32(mood))
    after = small.compute(AGENT.learn, state, batch_of([0.0, 0.0]), CLOCK, KEY)
    assert after[0].actor.head.bias[0] > state.actor.head.bias[0]
    np.testing.assert_allclose(after[1]["shift"], AGENT.shifts[mood])


@pytest.mark.thorough
def test_one_shift_of_nothing_is_td3():
    agent = dataclasses.replace(AGENT, shifts=(0.0,), target_noise=0.0)
    twin = dataclasses.replace(TWIN, target_noise=0.0)
    state, batch = beginning(agent), batch_of([1.0, 2.0, -1.0])
    alone = jax.tree.map(lambda x: x[0], (state.critics, state.target_critics))
    td3 = state._replace(critics=alone[0], target_critics=alone[1], critic_optimiser=twin.descent().init(alone[0]))
    for _ in range(3):
        state = jax.jit(agent.learn)(state, batch, CLOCK, KEY)[0]
        td3 = jax.jit(twin.learn)(td3, batch, CLOCK, KEY)[0]
    mine = (state.actor, state.target_actor, jax.tree.map(lambda x: x[0], (state.critics, state.target_critics)))
    theirs = (td3.actor, td3.target_actor, (td3.critics, td3.target_critics))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), mine, theirs)


def test_whom_to_follow_is_drawn_once_in_an_interval():
    """Two environments of four steps are eight steps for an update; 32 of them are four updates."""
    agent = dataclasses.replace(AGENT, num_envs=2, rollout_length=4, redraw_interval=32)
    batch = batch_of([0.0, 0.0])

    @jax.jit
    def run(state):
        def update(state, key):
            return agent.learn(state, batch, CLOCK, key)[0], state.mood

        return jax.lax.scan(update, state, jax.random.split(KEY, 400))[1]

    moods = np.asarray(run(beginning(agent))).reshape(-1, 4)
    assert (moods == moods[:, :1]).all()
    assert (np.bincount(moods[:, 0], minlength=3) > 15).all()  # of 100 drawn, 33 each


@pytest.mark.thorough
def test_values_settle_a_constant_apart():
    """For one rewarded state that lasts for ever: (r + c) / (1 - discount)."""
    agent = dataclasses.replace(AGENT, discount=0.5, polyak=0.2, exploration_noise=0.0)
    batch = batch_of([1.0] * 8)

    @jax.jit
    def run(state):
        state = jax.lax.scan(
            lambda state, key: (agent.learn(state, batch, CLOCK, key)[0], None), state, jax.random.split(KEY, 1500)
        )[0]
        value = lambda critic: critic(jnp.zeros((1, 3)), jnp.zeros((1, 1)))[0]  # noqa: E731
        return jax.vmap(jax.vmap(value))(state.critics)

    np.testing.assert_allclose(run(beginning(agent)), [[0.0] * 2, [2.0] * 2, [6.0] * 2], atol=0.3)


def test_acts_as_td3_does():
    state = beginning(AGENT)
    for explore in (True, False):
        mine = AGENT.act(state, ActInputs((), jnp.ones(3), KEY, explore))[0]
        theirs = TWIN.act(state, ActInputs((), jnp.ones(3), KEY, explore))[0]
        np.testing.assert_array_equal(mine, theirs)
    assert AGENT.noise(SPEC) == (1,)


def test_what_it_cannot_do():
    with pytest.raises(ForageError, match="at least one of its shifts"):
        RRS(shifts=())
    with pytest.raises(ForageError, match="RRS needs a continuous, bounded action space"):
        check(AGENT, Spec("CartPole-v1", SPEC.observation_space, spaces.Discrete(2)))
