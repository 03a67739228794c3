"""The classic control tasks against Gymnasium's: the same state and action must give the same step."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beside import Beside, differences
from tiers import gate_cases

from forage.core.types import Step
from forage.environments.classic.acrobot import Acrobot, AcrobotState
from forage.environments.classic.cartpole import CartPole, CartPoleState
from forage.environments.classic.mountain_car import MountainCar, MountainCarContinuous, MountainCarState
from forage.environments.classic.pendulum import Pendulum, PendulumState

TOLERANCE = {"rtol": 2e-6, "atol": 2e-6}


@dataclasses.dataclass(frozen=True)
class Pair:
    """One of our environments, its original, and states to compare them in."""

    environment: Any
    id: str
    state: Callable
    low: list[float]  # the box that random states are drawn from, a little beyond where episodes go
    high: list[float]
    policy: Callable  # of the observation and a random generator: long or successful episodes
    reset_low: list[float]
    reset_high: list[float]
    tolerance: dict = dataclasses.field(default_factory=lambda: TOLERANCE)


PAIRS = {
    "cartpole": Pair(
        CartPole(),
        "CartPole-v1",
        CartPoleState,
        [-2.6, -3, -0.25, -3],
        [2.6, 3, 0.25, 3],
        # Balances for the full 500 steps; the small push towards the centre keeps it on the track.
        lambda o, rng: int(o[2] + 0.4 * o[3] + 0.05 * o[0] + 0.1 * o[1] > 0),
        [-0.05] * 4,
        [0.05] * 4,
    ),
    "acrobot": Pair(
        Acrobot(),
        "Acrobot-v1",
        AcrobotState,
        [-math.pi, -math.pi, -4 * math.pi, -9 * math.pi],
        [math.pi, math.pi, 4 * math.pi, 9 * math.pi],
        lambda o, rng: 2 if o[4] < 0 else 0,
        [-0.1] * 4,
        [0.1] * 4,
        # At up to 9π rad/s a step of 0.2 s amplifies float32 rounding; the comparison in float64 is the strict one.
        {"rtol": 5e-3, "atol": 5e-3},
    ),
    "mountain_car": Pair(
        MountainCar(),
        "MountainCar-v0",
        MountainCarState,
        [-1.2, -0.07],
        [0.6, 0.07],
        lambda o, rng: 2 if o[1] >= 0 else 0,
        [-0.6, 0],
        [-0.4, 0],
    ),
    "mountain_car_continuous": Pair(
        MountainCarContinuous(),
        "MountainCarContinuous-v0",
        MountainCarState,
        [-1.2, -0.07],
        [0.6, 0.07],
        lambda o, rng: np.array([1.5 if o[1] >= 0 else -1.5], np.float32),  # beyond the bounds: clipped
        [-0.6, 0],
        [-0.4, 0],
    ),
    "pendulum": Pair(
        Pendulum(),
        "Pendulum-v1",
        PendulumState,
        [-12, -8],
        [12, 8],
        lambda o, rng: rng.uniform(-3, 3, 1).astype(np.float32),  # beyond the bounds: clipped
        [-math.pi, -1],
        [math.pi, 1],
    ),
}

each = pytest.mark.parametrize("name", PAIRS)


@functools.cache
def stepper(name):
    """Our step on a batch of states and actions, compiled once."""

    @jax.jit
    def step(environment, variables, time, actions):
        states = PAIRS[name].state(variables, time)
        return jax.vmap(lambda s, a: environment.step(s, a, jax.random.key(0)))(states, actions)

    return step


def set_state(env, pair, variables):
    """Puts Gymnasium into a state that float32 holds exactly, so that both sides start from one number."""
    env.unwrapped.state = np.asarray(variables, np.float32).astype(np.float64)
    if pair.id.startswith("CartPole"):
        env.unwrapped.steps_beyond_terminated = None


def gymnasium_transition(env, action):
    before = np.asarray(env.unwrapped.state, np.float32)
    observation, reward, terminated, truncated, _ = env.step(action)
    after = np.asarray(env.unwrapped.state, np.float64)
    # Gymnasium sets both flags where both hold; Forage says terminated.
    return before, after, action, observation, float(reward), terminated, truncated and not terminated


@functools.cache
def transitions(name):
    """Gymnasium's steps from random states and along whole episodes, as arrays; the state is float32 before each."""
    pair = PAIRS[name]
    rng = np.random.default_rng(0)
    env = gymnasium.make(pair.id)
    env.action_space.seed(0)
    rows, times = [], []

    for _ in range(2000):
        env.reset()
        set_state(env, pair, rng.uniform(pair.low, pair.high))
        rows.append(gymnasium_transition(env, env.action_space.sample()))
        times.append(0)

    for episode in range(4):
        observation, _ = env.reset(seed=episode)
        time, done = 0, False
        while not done:
            action = pair.policy(observation, rng) if episode % 2 else env.action_space.sample()
            set_state(env, pair, env.unwrapped.state)
            row = gymnasium_transition(env, action)
            rows.append(row)
            times.append(time)
            observation, time, done = row[3], time + 1, row[5] or row[6]
    env.close()

    before, after, actions, observations, rewards, terminated, truncated = (
        np.array(c) for c in zip(*rows, strict=True)
    )
    return before, np.array(times, np.int32), actions, after, observations, rewards, terminated, truncated


def compare(name: str, double: bool = False) -> Beside:
    """Our steps and Gymnasium's from the same states, in float32 or with rounding out of the way."""
    before, times, actions, after, observations, rewards, terminated, truncated = transitions(name)
    with jax.enable_x64(double):
        precision = np.float64 if double else np.float32
        states, steps = stepper(name)(PAIRS[name].environment, before.astype(precision), times, actions)
        difference = np.asarray(states.variables) - after
    assert states.variables.dtype == precision
    if name == "acrobot":  # an angle may be wrapped to the other end of its range
        difference[:, :2] -= 2 * np.pi * np.round(difference[:, :2] / (2 * np.pi))
    found = {"states": (after + difference, after)}
    if double:
        return found
    return found | {
        "observations": (steps.observation, observations),
        "rewards": (steps.reward, rewards),
        "ends": ((steps.terminated, steps.truncated, states.time), (terminated, truncated, times + 1)),
    }


@each
def test_steps_equal_gymnasium(name):
    tolerance, found = PAIRS[name].tolerance, compare(name)
    for part in ("states", "observations"):
        np.testing.assert_allclose(*found[part], **tolerance)
    np.testing.assert_allclose(*found["rewards"], rtol=2e-5, atol=2e-5)
    assert differences(found)["ends"] == 0


@each
@pytest.mark.thorough
def test_states_equal_gymnasium_in_double_precision(name):
    """With rounding out of the way the equations must be the same."""
    # This one original keeps its state in float32.
    assert differences(compare(name, True))["states"] < (1e-7 if name == "mountain_car_continuous" else 1e-10)


@each
def test_the_comparison_saw_both_kinds_of_end(name):
    """Otherwise the equality above would prove little."""
    *_, terminated, truncated = transitions(name)
    assert truncated.any()
    assert terminated.any() == (name != "pendulum")


@each
@pytest.mark.thorough
def test_short_rollouts_equal_gymnasium(name):
    """Without setting the states equal again in between."""
    pair = PAIRS[name]
    env = gymnasium.make(pair.id).unwrapped
    env.action_space.seed(1)
    length, count = 12, 8
    actions = np.array([[env.action_space.sample() for _ in range(count)] for _ in range(length)])
    starts, ends = [], []
    for index in range(count):
        env.reset(seed=index)
        set_state(env, pair, env.state)
        starts.append(np.asarray(env.state, np.float32))
        for action in actions[:, index]:
            observation = env.step(action)[0]
        ends.append(observation)

    variables, time = np.array(starts), np.zeros(count, np.int32)
    for action in actions:
        states, steps = stepper(name)(pair.environment, variables, time, action)
        variables, time = states
    np.testing.assert_allclose(steps.observation, np.array(ends), rtol=1e-3, atol=1e-3)


@each
def test_terminated_wins_on_the_last_step(name):
    """If the goal and the time limit coincide, Gymnasium sets both flags, Forage only `terminated`."""
    before, times, actions, _, _, _, terminated, _ = transitions(name)
    pair = PAIRS[name]
    environment = equinox.tree_at(lambda e: e.max_steps, pair.environment, 1)
    _, steps = stepper(name)(environment, before, np.zeros_like(times), actions)
    np.testing.assert_array_equal(steps.terminated, terminated)
    np.testing.assert_array_equal(steps.truncated, ~terminated)


@each
def test_spaces_equal_gymnasium(name):
    pair = PAIRS[name]
    env = gymnasium.make(pair.id)
    assert pair.environment.observation_space == env.observation_space
    assert pair.environment.action_space == env.action_space
    assert pair.environment.horizon == env.spec.max_episode_steps


@each
@pytest.mark.thorough
def test_resets_cover_gymnasiums_range(name):
    pair = PAIRS[name]
    reset = jax.jit(jax.vmap(pair.environment.reset))
    states, observations = jax.device_get(reset(jax.random.split(jax.random.key(0), 4000)))
    low, high = np.float32(pair.reset_low), np.float32(pair.reset_high)
    width = high - low
    assert (states.variables >= low).all()
    assert (states.variables <= high).all()
    # 4000 uniform draws come within 1 % of both ends and centre within 5 standard errors.
    assert (states.variables.min(axis=0) <= low + 0.01 * width).all()
    assert (states.variables.max(axis=0) >= high - 0.01 * width).all()
    error = np.abs(states.variables.mean(axis=0) - (low + high) / 2)
    assert (error <= 5 * width / math.sqrt(12 * 4000) + 1e-7).all()
    assert (states.time == 0).all()

    env = gymnasium.make(pair.id).unwrapped
    env.reset(seed=0)
    set_state(env, pair, states.variables[0])
    expected = env._get_obs() if name == "pendulum" else env._get_ob() if name == "acrobot" else env.state
    np.testing.assert_allclose(observations[0], expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*out of date")
def test_cartpole_v0_is_a_preset():
    assert CartPole(max_steps=200).horizon == gymnasium.make("CartPole-v0").spec.max_episode_steps


PHYSICS = {
    # Our field, Gymnasium's attribute, another value.
    "cartpole": [
        ("gravity", "gravity", 5.0),
        ("cart_mass", "masscart", 2.0),
        ("pole_mass", "masspole", 0.4),
        ("length", "length", 1.2),
        ("force", "force_mag", 4.0),
        ("tau", "tau", 0.05),
    ],
    "acrobot": [
        ("link_length_1", "LINK_LENGTH_1", 1.3),
        ("link_mass_1", "LINK_MASS_1", 0.6),
        ("link_mass_2", "LINK_MASS_2", 1.7),
        ("link_centre_1", "LINK_COM_POS_1", 0.3),
        ("link_centre_2", "LINK_COM_POS_2", 0.7),
        ("link_inertia", "LINK_MOI", 1.5),
        ("tau", "dt", 0.1),
        ("max_velocity_1", "MAX_VEL_1", 1.0),
        ("max_velocity_2", "MAX_VEL_2", 1.5),
    ],
    "mountain_car": [
        ("gravity", "gravity", 0.004),
        ("force", "force", 0.002),
        ("max_speed", "max_speed", 0.03),
        ("min_position", "min_position", -0.9),
        ("max_position", "max_position", 0.3),
    ],
    "mountain_car_continuous": [("force", "power", 0.003), ("max_speed", "max_speed", 0.03)],
    "pendulum": [
        ("gravity", "g", 5.0),
        ("mass", "m", 2.0),
        ("length", "l", 0.7),
        ("max_speed", "max_speed", 3.0),
        ("max_torque", "max_torque", 1.0),
        ("tau", "dt", 0.1),
    ],
}


@pytest.mark.parametrize(
    ("name", "field", "attribute", "value"),
    gate_cases(
        [(n, *row) for n, rows in PHYSICS.items() for row in rows], [(n, *rows[0]) for n, rows in PHYSICS.items()]
    ),
)
def test_physics_fields_mean_what_gymnasiums_mean(name, field, attribute, value):
    pair = PAIRS[name]
    env = gymnasium.make(pair.id).unwrapped
    env.reset(seed=0)
    setattr(env, attribute, value)
    if name == "cartpole":
        env.total_mass, env.polemass_length = env.masspole + env.masscart, env.masspole * env.length
    changed = equinox.tree_at(lambda e: getattr(e, field), pair.environment, value)

    before, times, actions, *_ = (column[:30] for column in transitions(name))
    expected = []
    for variables, action in zip(before, actions, strict=True):
        set_state(env, pair, variables)
        expected.append(env.step(action)[0])
    _, steps = stepper(name)(changed, before, times, actions)
    np.testing.assert_allclose(steps.observation, np.array(expected), **pair.tolerance)
    _, unchanged = stepper(name)(pair.environment, before, times, actions)
    assert not np.allclose(unchanged.observation, steps.observation, rtol=1e-4, atol=1e-5)


@each
@pytest.mark.thorough
def test_one_field_can_be_batched_alone(name):
    """A batch of environments carries only the differing fields: `in_axes` is None for every other field."""
    pair = PAIRS[name]
    field, _, value = PHYSICS[name][0]
    original = getattr(pair.environment, field)
    batch = equinox.tree_at(lambda e: getattr(e, field), pair.environment, jnp.array([original, value]))
    axes = equinox.tree_at(
        lambda e: getattr(e, field), jax.tree.map(lambda _: None, batch), 0, is_leaf=lambda x: x is None
    )

    before, times, actions, *_ = (column[:1] for column in transitions(name))

    @jax.jit
    def run_both(batch, state, action) -> Step:
        return jax.vmap(lambda e: e.step(state, action, jax.random.key(0))[1], in_axes=(axes,))(batch)

    steps = run_both(batch, pair.state(before[0], times[0]), actions[0])
    for index, setting in enumerate((original, value)):
        changed = equinox.tree_at(lambda e: getattr(e, field), pair.environment, setting)
        _, alone = stepper(name)(changed, before, times, actions)
        np.testing.assert_allclose(steps.observation[index], alone.observation[0], rtol=1e-5, atol=1e-6)
    assert not np.allclose(steps.observation[0], steps.observation[1], rtol=1e-5, atol=1e-6)


@pytest.mark.thorough
def test_goals_are_fields():
    """Goals and thresholds that Gymnasium fixes or names otherwise, checked by hand."""
    key = jax.random.key(0)
    still = jnp.zeros((), jnp.int32)

    def check_terminated(environment, state, action=still):
        return bool(environment.step(state, action, key)[1].terminated)

    hanging = CartPoleState(jnp.array([1.0, 0.0, 0.1, 0.0]), still)
    assert not check_terminated(CartPole(), hanging)
    assert check_terminated(CartPole(position_threshold=0.9), hanging)
    assert check_terminated(CartPole(angle_threshold=0.09), hanging)

    rolling = MountainCarState(jnp.array([0.45, 0.06]), still)
    assert check_terminated(MountainCar(), rolling)
    assert not check_terminated(MountainCar(goal_position=0.55), rolling)
    assert not check_terminated(MountainCar(goal_velocity=0.065), rolling)

    # Both links straight out to the side: the tip is level with the fixed joint.
    level = AcrobotState(jnp.array([math.pi / 2, 0.0, 0.0, 0.0]), still)
    assert not check_terminated(Acrobot(tau=1e-6), level)
    assert check_terminated(Acrobot(tau=1e-6, target_height=-0.1), level)
    # Upright, the tip is as high as both links are long.
    upright = AcrobotState(jnp.array([math.pi, 0.0, 0.0, 0.0]), still)
    assert check_terminated(Acrobot(tau=1e-6, target_height=1.9), upright)
    assert not check_terminated(Acrobot(tau=1e-6, target_height=1.9, link_length_2=0.8), upright)


def test_goal_rewards_are_fields():
    state = MountainCarState(jnp.array([0.44, 0.05]), jnp.zeros((), jnp.int32))
    environment = MountainCarContinuous(goal_reward=7.0, effort_cost=0.5)
    _, step = environment.step(state, jnp.array([0.6]), jax.random.key(0))
    assert float(step.reward) == pytest.approx(7.0 - 0.5 * 0.36)

    state = PendulumState(jnp.array([0.5, 2.0]), jnp.zeros((), jnp.int32))
    _, step = Pendulum(speed_cost=0.3, torque_cost=0.2).step(state, jnp.array([1.5]), jax.random.key(0))
    assert float(step.reward) == pytest.approx(-(0.25 + 0.3 * 4 + 0.2 * 2.25))
