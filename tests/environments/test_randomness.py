"""The five kinds of randomness: none at strength 0, their formula above it, and a strength that may be a context."""

import functools

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core import prng, spaces
from forage.core.types import ForageError
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.classic.deep_sea_treasure import DeepSeaTreasure
from forage.environments.classic.pendulum import Pendulum
from forage.environments.minatar.breakout import Breakout
from forage.environments.wrappers import FrameStack, with_fields
from forage.environments.wrappers.randomness import ActionNoise, Drift, Missing, ObservationNoise, RewardNoise

pytestmark = pytest.mark.thorough

KEY = prng.key(5)
STEPS = 200


@functools.cache
def program(make):
    """Plays `STEPS` steps of random actions; the same keys for every environment."""

    space = make().action_space

    @jax.jit
    def play(environment, key):
        reset_key, action_key, step_key = jax.random.split(key, 3)
        state, first = environment.reset(reset_key)
        actions = jax.vmap(lambda k: spaces.sample(space, k))(jax.random.split(action_key, STEPS))

        def step(state, inputs):
            return environment.step(state, *inputs)

        return first, actions, jax.lax.scan(step, state, (actions, jax.random.split(step_key, STEPS)))[1]

    return play


def play(environment, make, key=KEY):
    first, actions, steps = jax.device_get(program(make)(environment, key))
    return first, actions, steps


NOTHING = {
    "action": lambda environment: ActionNoise(environment, 0.0),
    "reward": lambda environment: RewardNoise(environment, 0.0, 0.0),
    "observation": lambda environment: ObservationNoise(environment, 0.0, 0.0),
    "missing": lambda environment: Missing(environment, 0.0),
    "missing each step": lambda environment: Missing(environment, 0.0, each_step=True),
    "drift": lambda environment: Drift(environment, "gravity", 0.0, 10),
    "cyclic drift": lambda environment: Drift(environment, "gravity", 0.0, 10, "cyclic"),
    "gradual drift": lambda environment: Drift(environment, "gravity", 0.0, 10, "gradual"),
    "all": lambda environment: ActionNoise(
        RewardNoise(ObservationNoise(Missing(Drift(environment, "gravity", 0.0), 0.0), 0.0), 0.0), 0.0
    ),
}


def by_hand(environment, space):
    """Take some steps, one operation after the other: a compiler may round fused operations in another way."""
    reset_key, *keys = jax.random.split(KEY, 13)
    state, observation = environment.reset(reset_key)
    found = [observation]
    for key in keys:
        state, step = environment.step(state, spaces.sample(space, jax.random.fold_in(key, 1)), key)
        found.append(step)
    return jax.device_get(found)


@functools.cache
def bare_steps(bare):
    return by_hand(bare(), bare().action_space)


def stochastic():
    return DeepSea(6, stochastic=True)


@pytest.mark.parametrize(
    ("bare", "kind"),
    [(bare, kind) for bare in (CartPole, Pendulum) for kind in NOTHING]
    + [(bare, kind) for bare in (Breakout, DeepSeaTreasure, stochastic) for kind in list(NOTHING)[:4]],
)
def test_strength_0_is_the_bare_environment_bit_for_bit(bare, kind):
    """This holds for environments with chance of their own too: they get the same keys as without."""
    wrapped = NOTHING[kind](bare())
    assert wrapped.observation_space == bare().observation_space
    assert wrapped.action_space == bare().action_space
    ours = by_hand(wrapped, bare().action_space)
    for left, right in zip(jax.tree.leaves(ours), jax.tree.leaves(bare_steps(bare)), strict=True):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize("bare", [CartPole, Pendulum])
def test_strength_0_compiled(bare):
    """Episodes restart at their ends: in an endlessly falling pole, rounding errors grow without bound."""
    space = bare().action_space

    @jax.jit
    def episodes(environment, key):
        def step(state, key):
            action_key, step_key, reset_key = jax.random.split(key, 3)
            state, outcome = environment.step(state, spaces.sample(space, action_key), step_key)
            anew, ended = environment.reset(reset_key)[0], outcome.terminated | outcome.truncated
            return jax.tree.map(lambda new, old: jnp.where(ended, new, old), anew, state), outcome

        return jax.lax.scan(step, environment.reset(key)[0], jax.random.split(key, STEPS))[1]

    ours, theirs = jax.device_get((episodes(NOTHING["all"](bare()), KEY), episodes(bare(), KEY)))
    assert theirs.terminated.sum() > 3 or bare is Pendulum
    for left, right in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


class Echo(CartPole):
    """The reward is the executed action."""

    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, step._replace(reward=jnp.asarray(action, jnp.float32))


def test_action_noise():
    _, actions, steps = play(ActionNoise(Echo(), 1.0), Echo)
    assert 0.3 < (steps.reward != actions).mean() < 0.7  # of two actions, the other one half of the time
    _, actions, steps = play(ActionNoise(Echo(), 0.3), Echo)
    assert abs((steps.reward != actions).mean() - 0.15) < 0.13  # its standard error is 0.025


def test_two_layers_of_noise_are_independent():
    """With the same random numbers, the second layer would only repeat the first one's changes."""
    key = KEY
    inner = ActionNoise(Echo(), 0.5)
    outer = ActionNoise(inner, 0.5)
    assert not np.array_equal(*(jax.random.key_data(layer.own_key(key)) for layer in (inner, outer)))


class Rooms(DeepSea):
    """Allows one action only."""

    @property
    def observation_space(self):
        return gymnasium.spaces.Dict(
            {"observation": super().observation_space, spaces.MASK: gymnasium.spaces.MultiBinary(2)}
        )

    def reset(self, key):
        state, observation = super().reset(key)
        return state, {"observation": observation, spaces.MASK: jnp.array([0, 1], jnp.int8)}

    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        seen = {"observation": step.observation, spaces.MASK: jnp.array([0, 1], jnp.int8)}
        return state, step._replace(observation=seen, reward=jnp.asarray(action, jnp.float32))


def test_action_noise_takes_only_what_is_allowed():
    make = functools.cache(lambda: Rooms(6))
    _, actions, steps = play(ActionNoise(make(), 1.0), make)
    assert (steps.reward == 1).all() and (actions == 0).any()


def test_reward_noise():
    _, _, bare = play(CartPole(), CartPole)
    _, _, steps = play(RewardNoise(CartPole(), 2.0), CartPole)
    noise = steps.reward - bare.reward
    assert abs(noise.mean()) < 0.6 and abs(noise.std() - 2) < 0.45  # standard errors of 0.14 and 0.1
    _, _, steps = play(RewardNoise(CartPole(), 0.0, 0.25), CartPole)
    assert set(np.unique(steps.reward)) == {0.0, 1.0}
    assert abs((steps.reward == 0).mean() - 0.25) < 0.13  # 0.03
    _, _, steps = play(RewardNoise(DeepSeaTreasure(), 1.0), DeepSeaTreasure)
    assert abs(np.corrcoef((steps.reward - play(DeepSeaTreasure(), DeepSeaTreasure)[2].reward).T)[0, 1]) < 0.35


def test_observation_noise():
    _, _, bare = play(CartPole(), CartPole)
    _, _, steps = play(ObservationNoise(CartPole(), 0.1), CartPole)
    within = np.abs(bare.observation[:, 1]) < 50  # CartPole's velocities have no bounds
    noise = (steps.observation - bare.observation)[within, 1]
    assert abs(noise.mean()) < 0.03 and abs(noise.std() - 0.1) < 0.03
    np.testing.assert_array_equal(steps.reward, bare.reward)
    first, _, steps = play(ObservationNoise(Pendulum(), 1.0), Pendulum)
    space = Pendulum().observation_space
    assert all(space.contains(observation) for observation in (first, *steps.observation))
    assert (np.abs(steps.observation[:, :2]) == 1).any()


def test_observation_noise_of_truth_values():
    _, _, bare = play(Breakout(), Breakout)
    _, _, steps = play(ObservationNoise(Breakout(), 0.1), Breakout)
    assert steps.observation.dtype == bool
    assert abs((steps.observation != bare.observation).mean() - 0.1) < 0.01


def test_blanking():
    _, _, bare = play(CartPole(), CartPole)
    _, _, steps = play(ObservationNoise(CartPole(), 0.0, 0.3), CartPole)
    blank = (steps.observation == 0).all(1)
    assert abs(blank.mean() - 0.3) < 0.16  # 0.032
    np.testing.assert_array_equal(steps.observation[~blank], bare.observation[~blank])


def test_missing_entries_are_missing_for_the_episode():
    _, _, bare = play(CartPole(), CartPole)
    hidden = []
    for seed in range(30):
        first, _, steps = play(Missing(CartPole(), 0.5), CartPole, prng.key(seed))
        gone = (steps.observation == 0).all(0)
        hidden.append(gone)
        assert (first[gone] == 0).all()
        assert (steps.observation[:, ~gone] != 0).any(0).all()
    assert abs(np.mean(hidden) - 0.5) < 0.2  # 0.046
    _, _, steps = play(Missing(CartPole(), 1.0, (1, 3)), CartPole)
    assert (steps.observation[:, [1, 3]] == 0).all()
    np.testing.assert_array_equal(steps.observation[:, [0, 2]], bare.observation[:, [0, 2]])
    _, _, steps = play(Missing(CartPole(), 0.5, (1,), each_step=True), CartPole)
    assert 0.3 < (steps.observation[:, 1] == 0).mean() < 0.7


def test_missing_channels():
    _, _, bare = play(Breakout(), Breakout)
    _, _, steps = play(Missing(Breakout(), 1.0, (3,)), Breakout)
    assert bare.observation[..., 3].any() and not steps.observation[..., 3].any()
    np.testing.assert_array_equal(steps.observation[..., :3], bare.observation[..., :3])


class Plain(Breakout):
    """Shows Breakout's pictures without channels, as numbers from 1 on."""

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0, 255, (10, 10), np.uint8)

    def reset(self, key):
        state, seen = super().reset(key)
        return state, seen.sum(-1).astype(jnp.uint8) + 1

    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, step._replace(observation=step.observation.sum(-1).astype(jnp.uint8) + 1)


def test_a_picture_without_channels_is_there_or_missing_as_a_whole():
    _, _, bare = play(Plain(), Plain)
    _, _, steps = play(Missing(Plain(), 0.5, each_step=True), Plain)
    there = (steps.observation > 0).reshape(STEPS, -1)
    assert 0.3 < there.mean() < 0.7  # its standard error is 0.035
    np.testing.assert_array_equal(there.all(1), there.any(1))
    np.testing.assert_array_equal(steps.observation[there.all(1)], bare.observation[there.all(1)])
    with pytest.raises(ForageError, match=r"cannot hide entry 1 .* 0 to 0\."):
        Missing(Plain(), 0.5, (1,))


class Gravity(CartPole):
    """The reward is the environment's gravity."""

    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, step._replace(reward=jnp.asarray(self.gravity, jnp.float32))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("sudden", [10, 10, 10, 15, 15, 15, 15, 15, 15, 15]),
        ("cyclic", [10, 10, 10, 15, 15, 15, 10, 10, 10, 15]),
        ("gradual", [10, 10 + 5 / 3, 10 + 10 / 3, 15, 15, 15, 15, 15, 15, 15]),
    ],
)
def test_drift(kind, values):
    _, _, steps = play(Drift(Gravity(gravity=10.0), "gravity", 0.5, 3, kind), Gravity)
    np.testing.assert_allclose(steps.reward[:10], values, rtol=1e-6)


def test_drift_looks_through_wrappers():
    _, _, steps = play(Drift(FrameStack(Gravity(gravity=10.0), 2), "gravity", -0.5, 2), Gravity)
    np.testing.assert_allclose(steps.reward[:4], [10, 10, 5, 5])


def test_strength_is_a_number_that_can_differ():
    """A batch of environments with different strengths is one `vmap`."""
    environment = RewardNoise(ActionNoise(Echo(), 0.0), 0.0)
    batch = with_fields(environment, action_noise=jnp.array([0.0, 1.0]), reward_noise=jnp.zeros(2))
    axes = jax.tree.map(lambda leaf: 0 if equinox.is_array(leaf) else None, batch)
    _first, actions, steps = jax.vmap(program(Echo), in_axes=(axes, None))(batch, KEY)
    changed = (steps.reward != actions).mean(1)
    assert changed[0] == 0 and changed[1] > 0.3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ActionNoise(CartPole(), 1.1), "action_noise is a probability, from 0 to 1, not 1.1"),
        (lambda: ActionNoise(CartPole(), float("nan")), "action_noise is a probability"),
        (lambda: RewardNoise(CartPole(), -1.0), "reward_noise is 0 or more, not -1"),
        (lambda: RewardNoise(CartPole(), 0.0, 2.0), "reward_loss is a probability"),
        (lambda: ObservationNoise(CartPole(), -1.0), "observation_noise is 0 or more"),
        (lambda: ObservationNoise(CartPole(), 0.0, -0.1), "blanking is a probability"),
        (lambda: ObservationNoise(Breakout(), 1.5), "observation_noise is a probability"),
        (lambda: Missing(CartPole(), 0.5, (4,)), "cannot hide entry 4 of CartPole's observation; .* 0 to 3"),
        (lambda: Missing(CartPole(), -0.5), "missing is a probability"),
        (lambda: Drift(CartPole(), "gravty"), "CartPole has no field 'gravty'. Did you mean 'gravity'"),
        (lambda: Drift(CartPole(), "max_steps"), "max_steps is a whole number, which cannot drift"),
        (lambda: Drift(CartPole(), "gravity", kind="slow"), "sudden, cyclic or gradual, not 'slow'"),
        (lambda: Drift(CartPole(), "gravity", 0.5, 0), "drift_period is 1 or more"),
    ],
)
def test_bad_randomness_is_refused(make, said):
    with pytest.raises(ForageError, match=said):
        make()
