"""Problems with rare rewards: swing-ups, the valley with a reward at its goal, and a meaningless television."""

import importlib.util
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments import make
from forage.environments.classic.cartpole import CartPole, CartPoleState
from forage.environments.classic.cartpole_swingup import CartPoleSwingUp
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.classic.mountain_car import MountainCar, MountainCarState
from forage.environments.classic.pendulum import Pendulum, PendulumState
from forage.environments.grid.multi_room import MultiRoom
from forage.environments.wrappers import NoisyTV

KEY = jax.random.key(0)
ZERO = jnp.zeros((), jnp.int32)


def move_by(variables, action):
    """One step of bsuite's cart and pole, in float64."""
    x, v, angle, spin = variables.astype(float)
    force, sine, cosine = (action - 1) * 10.0, np.sin(angle), np.cos(angle)
    push = (force + 0.05 * spin**2 * sine) / 1.1
    turning = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    speeding = push - 0.05 * turning * cosine / 1.1
    return np.array([x + 0.01 * v, v + 0.01 * speeding, (angle + 0.01 * spin) % (2 * np.pi), spin + 0.01 * turning])


def rows(number=300):
    random = np.random.default_rng(0)
    high = np.array([1.5, 3, np.pi, 2])
    start = random.uniform(-high, high, (number, 4)).astype(np.float32)
    start[: number // 2, 2] *= 0.2  # many of them upright
    return start, random.integers(0, 3, number)


@jax.jit
def swung(environment, variables, actions):
    def one(variables, action):
        return environment.step(CartPoleState(variables, jnp.int32(10)), action, KEY)

    return jax.vmap(one)(variables, actions)


def test_the_pole_swings_as_in_bsuite():
    start, actions = rows()
    states, steps = swung(CartPoleSwingUp(), start, actions)
    expected = np.array([move_by(*row) for row in zip(start, actions, strict=True)])
    np.testing.assert_allclose(states.variables, expected, rtol=1e-4, atol=1e-4)
    upright = (np.cos(expected[:, 2]) > 0.5) & (np.abs(expected[:, 3]) < 1) & (np.abs(expected[:, 0]) < 1)
    assert 20 < upright.sum() < 200
    np.testing.assert_allclose(steps.reward, upright - 0.1 * np.abs(actions - 1), atol=1e-6)
    np.testing.assert_allclose(steps.observation[:, 5], 0.011, rtol=1e-5)
    np.testing.assert_array_equal(steps.observation[:, 7], np.where(np.abs(expected[:, 3]) < 1, 1, -1))


def test_every_step_equals_bsuites_package():
    if importlib.util.find_spec("bsuite") is None:
        pytest.skip("bsuite is not installed")
    from bsuite.environments import cartpole
    from bsuite.experiments.cartpole_swingup.cartpole_swingup import CartpoleSwingup

    start, actions = rows()
    _, steps = swung(CartPoleSwingUp(height=0.8, middle=0.6), start, actions)
    reference = CartpoleSwingup(height_threshold=0.8, x_reward_threshold=0.6)
    for index, (variables, action) in enumerate(zip(start, actions, strict=True)):
        reference.reset()
        reference._state = cartpole.CartpoleState(*variables.astype(float), 0.1)
        told = reference.step(int(action))
        np.testing.assert_allclose(steps.observation[index], told.observation[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(steps.reward[index], told.reward, atol=1e-6)
        assert bool(steps.terminated[index]) == told.last()


@pytest.mark.thorough
def test_the_pole_hangs_at_first_and_time_truncates():
    environment = CartPoleSwingUp(max_steps=3)
    state, seen = environment.reset(KEY)
    assert seen[3] < -0.99 and seen[5] == 0
    for _ in range(3):
        state, step = environment.step(state, jnp.int32(1), KEY)
    assert step.truncated and not step.terminated and step.reward == 0
    far = CartPoleState(jnp.array([2.999, 5.0, 3.0, 0.0]), ZERO)
    assert environment.step(far, jnp.int32(2), KEY)[1].terminated
    assert environment.render(state).shape == CartPole().render(state).shape


def test_the_valley_pays_at_the_goal_only():
    there = MountainCarState(jnp.array([0.49, 0.05]), ZERO)
    below = MountainCarState(jnp.array([-0.5, 0.0]), ZERO)
    car = MountainCar(sparse=True)
    assert [float(car.step(state, jnp.int32(2), KEY)[1].reward) for state in (there, below)] == [1, 0]
    assert car.step(there, jnp.int32(2), KEY)[1].terminated
    force = make("MountainCarContinuous-sparse")
    push = jnp.array([1.0])
    assert [float(force.step(state, push, KEY)[1].reward) for state in (there, below)] == [1, 0]


@pytest.mark.parametrize(("degrees", "reward"), [(0, 1), (7.9, 1), (8.1, 0), (-7.9, 1), (352.5, 1), (180, 0)])
def test_the_pendulum_is_paid_where_it_stands(degrees, reward):
    # Where a step leads to is what counts; at rest it moves less than a tenth of a degree.
    still = PendulumState(jnp.array([np.radians(degrees), 0.0]), ZERO)
    frozen = Pendulum(sparse=True, gravity=0.0)
    assert frozen.step(still, jnp.array([0.0]), KEY)[1].reward == reward


@pytest.mark.thorough
def test_the_television_changes_by_its_action_only():
    room = MultiRoom(rooms=2, largest=4)
    tv = NoisyTV(room, 2)
    state, seen = tv.reset(KEY)
    bare_state, bare = room.reset(KEY)
    high = tv.observation_space.high
    assert tv.observation_space == room.observation_space
    np.testing.assert_array_equal(seen[2:], bare[2:])
    actions, screens = [2, 2, 6, 6, 1, 6], [seen[:2, :2]]
    for index, action in enumerate(actions):
        key = jax.random.key(index)
        state, step = tv.step(state, jnp.int32(action), key)
        bare_state, bare_step = room.step(bare_state, jnp.int32(action), key)
        np.testing.assert_array_equal(step.observation[:, 2:], bare_step.observation[:, 2:])
        assert step.reward == bare_step.reward and (step.observation <= high).all()
        screens.append(step.observation[:2, :2])
    changed = [bool((a != b).any()) for a, b in itertools.pairwise(screens)]
    assert changed == [action == 6 for action in actions]


def test_the_television_of_a_vector_and_at_every_step():
    tv = NoisyTV(DeepSea(6), 3, -2)
    state, seen = tv.reset(KEY)
    _, step = tv.step(state, jnp.int32(0), jax.random.key(1))
    assert (step.observation[:3, :3] != seen[:3, :3]).all() and (step.observation >= 0).all()
    drawn = jax.vmap(tv.draw)(jax.random.split(KEY, 2000))
    np.testing.assert_allclose(drawn.mean(0), 0.5, atol=0.05)
    assert drawn.min() < 0.01 and drawn.max() > 0.99


@pytest.mark.parametrize(
    ("make_tv", "words"),
    [
        (lambda: NoisyTV(CartPole()), "within bounds"),
        (lambda: NoisyTV(DeepSea(6), 7), "does not fit"),
        (lambda: NoisyTV(DeepSea(6), 2, 2), "no action 2"),
    ],
)
def test_mistakes_are_named(make_tv, words):
    with pytest.raises(ForageError, match=words):
        make_tv()
