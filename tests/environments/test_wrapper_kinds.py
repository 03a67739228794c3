"""Each wrapper follows its formula, and agrees with Gymnasium's wrapper of that name."""

import copy
import itertools
import pickle
from typing import NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import wrappers as theirs
from PIL import Image
from tiers import gate_cases

from forage.core import spaces
from forage.core.ports import Environment
from forage.core.types import ForageError, Step
from forage.environments.checking import check_environment
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.classic.mountain_car import MountainCar
from forage.environments.classic.pendulum import Pendulum
from forage.environments.minatar.breakout import Breakout
from forage.environments.wrappers import (
    ActionRepeat,
    Delay,
    FrameStack,
    Grey,
    NoisyTV,
    RescaleAction,
    Resize,
    SelectEntries,
    StickyActions,
    TimeAware,
    TimeLimit,
    with_fields,
)
from forage.environments.wrappers.base import zero_action
from forage.environments.wrappers.randomness import Missing, ObservationNoise
from forage.environments.wrappers.together import EnvironmentCopies

KEY = jax.random.key(0)


class Native(gymnasium.Env):
    """A native environment that begins from one key, as Gymnasium has it."""

    def __init__(self, environment):
        self.environment = environment
        self.observation_space, self.action_space = environment.observation_space, environment.action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=0)
        self.state, observation = self.environment.reset(KEY)
        return np.asarray(observation), {}

    def step(self, action):
        self.state, step = self.environment.step(self.state, action, KEY)
        return np.asarray(step.observation), float(step.reward), bool(step.terminated), bool(step.truncated), {}


RESET = jax.jit(lambda e: e.reset(KEY))
ADVANCE = jax.jit(lambda e, state, action: e.step(state, action, KEY))


def play(environment, actions):
    """The first observation and every step until the episode ends."""
    state, observation = RESET(environment)
    steps = []
    for action in actions:
        state, step = ADVANCE(environment, state, action)
        steps.append(jax.device_get(step))
        if step.terminated or step.truncated:
            break
    return np.asarray(observation), steps


def same_as_gymnasium(ours, other, actions, observed=lambda x: x, first=0):
    """Assert that our wrapper and Gymnasium's give the same steps, with observations from step `first` on."""
    observation, steps = play(ours, actions)
    expected, _ = other.reset()
    if first == 0:
        np.testing.assert_allclose(observation, observed(np.asarray(expected)), rtol=1e-5, atol=1e-6)
    for number, (step, action) in enumerate(zip(steps, actions, strict=False)):
        expected, reward, terminated, truncated, _ = other.step(action)
        if number + 1 >= first:
            np.testing.assert_allclose(step.observation, observed(np.asarray(expected)), rtol=1e-4, atol=1e-5)
        assert float(step.reward) == pytest.approx(reward, rel=1e-4, abs=1e-5)
        assert bool(step.terminated) == terminated
        assert bool(step.truncated) == (truncated and not terminated)
    assert terminated or truncated or len(steps) == len(actions)
    return steps


RANDOM = list(np.random.default_rng(0).integers(0, 2, 40))


def test_frame_stack():
    steps = same_as_gymnasium(
        FrameStack(CartPole(), 3), theirs.FrameStackObservation(Native(CartPole()), 3), RANDOM, np.ravel
    )
    assert steps[5].observation.shape == (12,)
    first, steps = play(FrameStack(MountainCar(), 2), [2, 2])
    bare, plain = play(MountainCar(), [2, 2])
    np.testing.assert_array_equal(first, [*bare, *bare])
    np.testing.assert_array_equal(steps[1].observation, [*plain[0].observation, *plain[1].observation])


@pytest.mark.thorough
def test_frame_stack_of_pictures():
    environment = FrameStack(Breakout(), 4)
    assert environment.observation_space.shape == (10, 10, 16)
    assert environment.observation_space.dtype == np.bool_
    other = theirs.FrameStackObservation(Native(Breakout()), 4)
    same_as_gymnasium(
        environment, other, [0, 1, 2, 0, 1], lambda x: np.concatenate(list(x), axis=-1) if x.ndim == 4 else x
    )
    check_environment(environment, "stack")


@pytest.mark.parametrize(("inner", "limit", "length"), [(500, 4, 4), (4, 500, 4), (4, 4, 4)])
def test_time_limit(inner, limit, length):
    environment = TimeLimit(CartPole(max_steps=inner), limit)
    assert environment.horizon == length
    steps = same_as_gymnasium(environment, theirs.TimeLimit(Native(CartPole(max_steps=inner)), limit), [0, 1] * 5)
    assert len(steps) == length
    assert steps[-1].truncated and not steps[-1].terminated


def test_terminated_wins_over_the_limit():
    _, bare = play(CartPole(), [1] * 50)
    length = len(bare)
    assert bare[-1].terminated
    _, steps = play(TimeLimit(CartPole(), length), [1] * 50)
    assert len(steps) == length and steps[-1].terminated and not steps[-1].truncated
    _, steps = play(TimeLimit(CartPole(), length - 1), [1] * 50)
    assert len(steps) == length - 1 and steps[-1].truncated and not steps[-1].terminated


@pytest.mark.thorough
def test_a_limit_is_a_number_that_can_differ():
    limits = jnp.arange(1, 6)
    environment = TimeLimit(CartPole(), 10)
    state, _ = environment.reset(KEY)

    def check_truncated(limit):
        own = with_fields(environment, limit=limit)
        first, step = own.step(state, 0, KEY)
        return jnp.stack([step.truncated, own.step(first, 1, KEY)[1].truncated])

    np.testing.assert_array_equal(
        jax.vmap(check_truncated)(limits), [[True, True], [False, True], [False, False], [False, False], [False, False]]
    )


def test_time_aware():
    """Gymnasium shows the elapsed share of the time, Forage 1 - 2 of it (Pardo et al., 2018)."""
    environment = TimeAware(TimeLimit(CartPole(), 8))
    limited = theirs.TimeLimit(Native(CartPole()), 8)
    other = theirs.TimeAwareObservation(limited, normalize_time=True)
    steps = same_as_gymnasium(environment, other, [0, 1] * 8, lambda x: np.append(x[:-1], 1 - 2 * x[-1]))
    np.testing.assert_allclose([s.observation[-1] for s in steps], 1 - np.arange(1, 9) / 4, atol=1e-6)
    assert environment.reset(KEY)[1][-1] == 1
    assert [bool(s.truncated) for s in steps] == [False] * 7 + [True]
    _, steps = play(TimeAware(TimeLimit(CartPole(), 8), final=True), [0, 1] * 8)
    assert [bool(s.terminated) for s in steps] == [False] * 7 + [True]
    assert not any(s.truncated for s in steps)


@pytest.mark.thorough
def test_time_aware_knows_a_drawn_limit():
    environment = TimeAware(CartPole())
    shown = jax.vmap(lambda limit: one_step(with_fields(environment, max_steps=limit)).observation[-1])
    np.testing.assert_allclose(shown(jnp.array([2, 4, 8])), [0, 0.5, 0.75], atol=1e-6)


def one_step(environment):
    state, _ = environment.reset(KEY)
    return environment.step(state, 0, KEY)[1]


def test_action_repeat():
    steps = same_as_gymnasium(
        ActionRepeat(MountainCar(max_steps=11), 4), theirs.RepeatAction(Native(MountainCar(max_steps=11)), 4), [2] * 9
    )
    assert [float(s.reward) for s in steps] == [-4, -4, -3]
    assert ActionRepeat(MountainCar(max_steps=11), 4).horizon == 3
    assert steps[-1].truncated
    _, bare = play(CartPole(), [1] * 50)
    _, steps = play(ActionRepeat(CartPole(), 3), [1] * 50)
    assert sum(float(s.reward) for s in steps) == len(bare)
    np.testing.assert_allclose(steps[-1].observation, bare[-1].observation, rtol=1e-4)
    same_as_gymnasium(ActionRepeat(CartPole(), 1), Native(CartPole()), RANDOM)


def test_delayed_observations():
    """They agree from the arrival of the first observation; until then Gymnasium shows zeros, Forage that one."""
    delayed = Delay(CartPole(), observation_delay=3)
    same_as_gymnasium(delayed, theirs.DelayObservation(Native(CartPole()), 3), RANDOM, first=3)
    first, steps = play(delayed, RANDOM)
    for step in steps[:3]:
        np.testing.assert_array_equal(step.observation, first)


def test_delayed_actions():
    delayed = Delay(CartPole(), action_delay=2)
    _first, steps = play(delayed, RANDOM)
    _, bare = play(CartPole(), [0, 0, *RANDOM])
    assert len(steps) == len(bare)
    for ours, expected in zip(steps, bare, strict=True):
        np.testing.assert_allclose(ours.observation, expected.observation, rtol=1e-4, atol=1e-6)


@pytest.mark.thorough
def test_a_delay_can_be_drawn():
    environment = Delay(CartPole(), most=3)
    actions = [1, 0, 1, 1, 0, 0]

    def last(delay):
        own = with_fields(environment, action_delay=delay, observation_delay=delay)
        state, observation = own.reset(KEY)
        for action in actions:
            state, step = own.step(state, action, KEY)
            observation = step.observation
        return observation

    drawn = jax.jit(jax.vmap(last))(jnp.arange(4))
    for delay in range(4):
        _, steps = play(Delay(CartPole(), delay, delay), actions)
        np.testing.assert_allclose(drawn[delay], steps[-1].observation, rtol=1e-4, atol=1e-6)
    assert len(np.unique(np.asarray(drawn), axis=0)) == 4


def test_rescaled_actions():
    actions = [np.array([a], np.float32) for a in (-1.0, 0.25, 1.0, 0.0)]
    ours = RescaleAction(Pendulum(), -1.0, 1.0)
    assert ours.action_space == gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    same_as_gymnasium(ours, theirs.RescaleAction(Native(Pendulum()), np.float32(-1), np.float32(1)), actions)
    _, wide = play(RescaleAction(Pendulum(), 0.0, 10.0), [np.array([7.5], np.float32)])
    _, bare = play(Pendulum(), [np.array([1.0], np.float32)])
    np.testing.assert_allclose(wide[0].observation, bare[0].observation, rtol=1e-6)


def test_sticky_actions():
    """Probability 0: the bare environment; 1: the first action for ever, in Gymnasium's wrapper too."""
    same_as_gymnasium(StickyActions(CartPole(), 0.0), theirs.StickyAction(Native(CartPole()), 0.0), RANDOM)
    _, stuck = play(StickyActions(CartPole(), 1.0), [1] + [0] * 20)
    _, ones = play(CartPole(), [1] * 21)
    assert len(stuck) == len(ones)
    np.testing.assert_allclose(stuck[-1].observation, ones[-1].observation, rtol=1e-4)


@pytest.mark.thorough
def test_how_often_actions_stick():
    environment = StickyActions(Pendulum(), 0.25)

    @jax.jit
    def share(environment, key):
        reset_key, *keys = jax.random.split(key, 401)
        state, _ = environment.reset(reset_key)

        def step(state, inputs):
            number, key = inputs
            action = jnp.full((1,), number)
            state, _ = environment.step(state, action, key)
            return state, state.own[0][0] != number

        return jax.lax.scan(step, state, (jnp.linspace(-2, 2, 400), jnp.stack(keys)))[1]

    stuck = share(environment, jax.random.key(3))
    assert not stuck[0]
    assert abs(stuck[1:].mean() - 0.25) < 0.1  # its standard error is 0.022


class Frame(NamedTuple):
    image: jax.Array
    time: jax.Array


class Pictures(Environment):
    """Shows random pictures."""

    shape: tuple[int, ...] = equinox.field(static=True, default=(12, 18, 3))

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0, 255, self.shape, np.uint8)

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(2)

    def reset(self, key):
        image = jax.random.randint(key, self.shape, 0, 256).astype(jnp.uint8)
        return Frame(image, jnp.zeros((), jnp.int32)), image

    def step(self, state, action, key):
        state = Frame((state.image + 50).astype(jnp.uint8), state.time + 1)
        none = jnp.zeros((), bool)
        return state, Step(state.image, jnp.ones(()), none, none, {})


def area_mean(image, height, width):
    """Compute the mean of each new pixel's area by splitting every pixel until the new ones align."""
    fine = np.repeat(np.repeat(image.astype(np.float64), height, 0), width, 1)
    rows, columns = image.shape[:2]
    return fine.reshape(height, rows, width, columns, -1).mean((1, 3)).reshape(height, width, *image.shape[2:])


SHAPES = ((12, 18, 3), (12, 18))
SIZES = ((6, 9), (4, 6), (5, 7), (12, 18), (20, 30))


@pytest.mark.parametrize(("shape", "size"), gate_cases(itertools.product(SHAPES, SIZES), [(SHAPES[0], SIZES[2])]))
def test_resize(shape, size):
    environment = Resize(Pictures(shape), *size)
    check_environment(environment, "resized")
    image = np.asarray(Pictures(shape).reset(KEY)[1])
    resized = np.asarray(environment.reset(KEY)[1])
    assert resized.shape == (*size, *shape[2:]) and resized.dtype == np.uint8
    assert np.abs(resized - area_mean(image, *size)).max() <= 0.5 + 1e-3
    if shape[0] % size[0] == 0 and shape[1] % size[1] == 0:
        pillow = Image.fromarray(image).resize(size[::-1], Image.Resampling.BOX)
        assert np.abs(resized.astype(int) - np.asarray(pillow, int)).max() <= 1


def test_resize_is_gymnasiums():
    pytest.importorskip("cv2")
    environment = Resize(Pictures((210, 160, 3)), 84, 84)
    other = theirs.ResizeObservation(Native(Pictures((210, 160, 3))), (84, 84))
    assert np.abs(np.asarray(environment.reset(KEY)[1], int) - np.asarray(other.reset()[0], int)).max() <= 1


@pytest.mark.thorough
def test_grey():
    environment = Grey(Pictures())
    check_environment(environment, "grey")
    image = np.asarray(Pictures().reset(KEY)[1])
    grey = np.asarray(environment.reset(KEY)[1])
    assert grey.shape == (12, 18, 1) and environment.observation_space.shape == (12, 18, 1)
    assert np.abs(grey[..., 0].astype(int) - np.asarray(Image.fromarray(image).convert("L"), int)).max() <= 1


@pytest.mark.thorough
def test_pictures_are_small_grey_and_stacked():
    environment = FrameStack(Resize(Grey(Pictures()), 6, 6), 2)
    check_environment(environment, "all")
    assert environment.observation_space == gymnasium.spaces.Box(0, 255, (6, 6, 2), np.uint8)
    state, first = environment.reset(KEY)
    _, step = environment.step(state, 0, KEY)
    np.testing.assert_array_equal(step.observation[..., :1], first[..., 1:])
    assert (step.observation[..., 1] != step.observation[..., 0]).any()


class Choices(Pictures):
    """A vector with a mask of the allowed actions."""

    shape: tuple[int, ...] = equinox.field(static=True, default=(3,))

    @property
    def observation_space(self):
        box = gymnasium.spaces.Box(0, 255, (3,), np.uint8)
        return gymnasium.spaces.Dict({"observation": box, spaces.MASK: gymnasium.spaces.MultiBinary(2)})

    def reset(self, key):
        state, seen = super().reset(key)
        return state, {"observation": seen, spaces.MASK: jnp.array([1, 0], jnp.int8)}

    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, step._replace(
            observation={"observation": step.observation, spaces.MASK: jnp.array([0, 1], jnp.int8)}
        )


def test_a_mask_of_actions_stays_that_of_the_moment():
    environment = FrameStack(Choices(), 2)
    check_environment(environment, "masked")
    state, observation = environment.reset(KEY)
    assert observation["observation"].shape == (6,)
    np.testing.assert_array_equal(observation[spaces.MASK], [1, 0])
    np.testing.assert_array_equal(environment.step(state, 0, KEY)[1].observation[spaces.MASK], [0, 1])


class Countdown(Environment):
    """Lasts 2 to 5 steps, drawn at its start; observation and reward are the steps left. Even ones end by the clock."""

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(-10, 10, (1,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(2)

    def reset(self, key):
        left = jax.random.randint(key, (), 2, 6)
        return (left, left), left.astype(jnp.float32)[None]

    def step(self, state, action, key):
        start, left = state[0], state[1] - 1
        over, clock = left == 0, start % 2 == 0
        return (start, left), Step(left.astype(jnp.float32)[None], left + 1.0, over & ~clock, over & clock, {})


def play_many(environment, count):
    """Return a team's first observation and its `count` steps, continued after the end of the episode."""
    state, first = RESET(environment)
    steps = []
    for _ in range(count):
        state, step = ADVANCE(environment, state, np.zeros(environment.num_agents, np.int32))
        steps.append(jax.device_get(step))
    return jax.device_get(first), steps


def team_of(lengths):
    """Return a `EnvironmentCopies` of countdowns with these lengths, instead of drawn ones."""

    class Team(EnvironmentCopies):
        def reset(self, key):
            state, _ = super().reset(key)
            left = jnp.array(lengths)
            state = state._replace(inner=(left, left))
            return state, self.show(left.astype(jnp.float32)[:, None], state.left)

    return Team(Countdown(), len(lengths))


@pytest.mark.parametrize(
    "make",
    [
        lambda team: FrameStack(team, 2),
        lambda team: ObservationNoise(team, 0.5, 0.5),
        lambda team: Missing(team, 0.5),
    ],
    ids=["frame-stack", "observation-noise", "missing"],
)
def test_what_stands_beside_what_a_team_sees_stays(make):
    bare, environment = team_of((2, 3, 5)), make(team_of((2, 3, 5)))
    check_environment(environment, "team")
    assert set(environment.observation_space.spaces) == {"observation", spaces.PRESENT, spaces.STATE}
    ours, plain = play_many(environment, 5), play_many(bare, 5)
    for seen, shown in zip(
        (ours[0], *(s.observation for s in ours[1])), (plain[0], *(s.observation for s in plain[1])), strict=True
    ):
        np.testing.assert_array_equal(seen[spaces.PRESENT], shown[spaces.PRESENT])
        np.testing.assert_array_equal(seen[spaces.STATE], shown[spaces.STATE])
    assert (ours[1][1].observation[spaces.PRESENT] == [-1, 1, 1]).all()


def test_a_team_sees_its_last_frames():
    first, steps = play_many(FrameStack(team_of((2, 5)), 2), 2)
    np.testing.assert_array_equal(first["observation"], [[2, 2], [5, 5]])
    np.testing.assert_array_equal(steps[1].observation["observation"], [[1, 0], [4, 3]])


def test_small_pictures_of_a_team_keep_what_stands_beside_them():
    environment = Resize(Grey(EnvironmentCopies(Pictures(), 2)), 6, 9)
    check_environment(environment, "pictures")
    _, steps = play_many(environment, 1)
    assert steps[0].observation["observation"].shape == (2, 6, 9, 1)
    np.testing.assert_array_equal(steps[0].observation[spaces.PRESENT], [1, 1])


@pytest.mark.parametrize("shape", [(3,), (4, 5, 3)])
@pytest.mark.thorough
def test_each_of_a_team_has_a_television_of_its_own(shape):
    environment = NoisyTV(EnvironmentCopies(Pictures(shape), 2), 1)
    check_environment(environment, "televisions")
    corner, rest = (slice(None), *(0,) * min(2, len(shape))), (slice(None), -1)
    state, first = environment.reset(KEY)
    _, step = environment.step(state, jnp.array([0, 1]), jax.random.key(1))
    _, bare = play_many(EnvironmentCopies(Pictures(shape), 2), 1)
    now, before = step.observation["observation"], first["observation"]
    assert (before[corner][0] != before[corner][1]).any()
    np.testing.assert_array_equal(now[corner][0], before[corner][0])
    assert (now[corner][1] != before[corner][1]).any()  # the second one's action changed the channel
    np.testing.assert_array_equal(now[rest], bare[0].observation["observation"][rest])
    np.testing.assert_array_equal(step.observation[spaces.PRESENT], [1, 1])


def test_a_delay_holds_back_only_what_is_seen():
    environment = Delay(team_of((2, 3, 5)), observation_delay=2)
    check_environment(environment, "late")
    (_, ours), (_, plain) = play_many(environment, 5), play_many(team_of((2, 3, 5)), 5)
    for now, (step, bare) in enumerate(zip(ours, plain, strict=True)):
        np.testing.assert_array_equal(step.observation[spaces.PRESENT], bare.observation[spaces.PRESENT])
        if now >= 2:
            for name in ("observation", spaces.STATE):
                np.testing.assert_array_equal(step.observation[name], plain[now - 2].observation[name])
    state, first = Delay(Choices(), observation_delay=1).reset(KEY)
    _, step = Delay(Choices(), observation_delay=1).step(state, 0, KEY)
    np.testing.assert_array_equal(step.observation["observation"], first["observation"])
    np.testing.assert_array_equal(step.observation[spaces.MASK], [0, 1])


def test_each_of_a_team_ends_as_it_did_within_repeated_actions():
    """Ends after 2 steps by the clock, after 3 for good, after 7 for good, and each action is taken 4 times."""
    environment = ActionRepeat(team_of((2, 3, 7)), 4)
    check_environment(environment, "repeated")
    _, (first, second) = play_many(environment, 2)
    np.testing.assert_array_equal(first.truncated, [True, False, False])
    np.testing.assert_array_equal(first.terminated, [False, True, False])
    np.testing.assert_array_equal(first.observation["observation"][:, 0], [0, 0, 3])
    np.testing.assert_array_equal(first.observation[spaces.PRESENT], [-1, -1, 1])
    np.testing.assert_array_equal(first.reward, [3, 6, 7 + 6 + 5 + 4])
    np.testing.assert_array_equal(second.truncated, [False, False, False])
    np.testing.assert_array_equal(second.terminated, [True, True, True])
    np.testing.assert_array_equal(second.reward, [0, 0, 6])
    # All over by the clock within one step, one before the other.
    _, (both,) = play_many(ActionRepeat(team_of((2, 4)), 5), 1)
    assert both.truncated.all() and not both.terminated.any()


def test_what_a_wrapper_does_not_know_is_the_inner_environments():
    environment = FrameStack(DeepSea(5), 2)
    assert environment.size == 5
    assert environment.num_agents == 1
    with pytest.raises(AttributeError, match="no attribute 'sise'"):
        _ = environment.sise


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FrameStack(CartPole(), 0), "FrameStack's frames is 1 or more, not 0"),
        (lambda: TimeLimit(CartPole(), 0), "TimeLimit's limit is 1 or more, not 0"),
        (lambda: TimeAware(Breakout()), "flat Box"),
        (lambda: TimeAware(SelectEntries(Endless(), (0,))), "has no limit; wrap it in a time limit"),
        (lambda: ActionRepeat(CartPole(), 0), "repeats is 1 or more"),
        (lambda: StickyActions(CartPole(), 1.5), "stickiness is a probability, from 0 to 1, not 1.5"),
        (lambda: Delay(CartPole(), -1), "action_delay is 0 or more, not -1"),
        (lambda: Delay(CartPole(), 3, most=2), "keeps 2 steps, and action_delay is 3; most=3"),
        (lambda: Delay(CartPole(), jnp.int32(2)), "needs most=N"),
        (lambda: RescaleAction(CartPole()), r"needs continuous actions with bounds; CartPole has Discrete\(2\)"),
        (lambda: RescaleAction(Pendulum(), 1.0, 1.0), "low < high"),
        (lambda: Resize(CartPole(), 4, 4), "needs a Box observation with 2 or 3 axes; CartPole"),
        (lambda: Resize(Pictures(), 0, 4), "height is 1 or more"),
        (lambda: Resize(Breakout(), 4, 4), "pictures of numbers; Breakout's are of truth values"),
        (lambda: Grey(Pictures((4, 4, 2))), "pictures in red, green and blue; Pictures's have 2 channels"),
    ],
)
def test_bad_wrappers_are_refused(make, said):
    with pytest.raises(ForageError, match=said):
        make()


class Endless(CartPole):
    @property
    def horizon(self):
        return None


def test_wrappers_can_be_copied_and_pickled():
    environment = FrameStack(TimeLimit(CartPole(), 20), 3)
    for other in (copy.deepcopy(environment), pickle.loads(pickle.dumps(environment))):
        assert other == environment
        assert other.reset(KEY)[1].shape == (12,)


class Two(CartPole):
    @property
    def num_agents(self):
        return 2


def test_the_number_of_agents_is_the_inner_environments():
    environment = SelectEntries(FrameStack(Two(), 2), (0,))
    assert environment.num_agents == 2
    assert zero_action(environment).shape == (2,)
