"""Wrappers by name around environments on the host: formulas, the bare environment at strength 0, and resuming."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from forage.config.environment import environment_spec, resolve_environment
from forage.core.spaces import StackedBox
from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.wrapping import BY_NAME


class Counter(gymnasium.Env):
    """Shows the number of steps and the last action; the reward is the action; 20 steps."""

    observation_space = Box(0, 100, (2,), np.float32)
    action_space = Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.last = 0, 0
        return self.see(), {}

    def step(self, action):
        self.time, self.last = self.time + 1, int(action)
        return self.see(), float(action), False, self.time >= 20, {}

    def see(self):
        return np.float32([self.time, self.last])


class Picture(Counter):
    observation_space = Box(0, 255, (8, 8, 3), np.uint8)

    def see(self):
        picture = np.zeros((8, 8, 3), np.uint8)
        picture[: self.time + 1] = 100
        return picture


def make_one(cls, *wrap, num_envs=1, **options):
    _, build, _ = resolve_environment(cls, options, wrap)
    return build(num_envs)


def play(batch, actions, seed=0):
    """Return the observations (the first included), rewards and ends of these actions."""
    seen = [batch.reset(seed)]
    results = [batch.step(np.array([action] * batch.num_envs)) for action in actions]
    seen += [result.step.observation for result in results]
    return (
        np.stack(seen)[:, 0],
        np.stack([r.step.reward for r in results])[:, 0],
        [bool(r.step.truncated[0]) for r in results],
    )


def test_steps_are_limited_repeated_and_delayed():
    batch = make_one(Counter, "time-limit:3")
    assert play(batch, [1, 2, 3, 4])[2] == [False, False, True, False] and batch.horizon == 3
    batch = make_one(Counter, "action-repeat:3", "time-limit:2")
    seen, paid, ends = play(batch, [1, 2])
    assert seen[:, 0].tolist() == [0, 3, 6] and paid.tolist() == [3, 6] and ends == [False, True]
    assert make_one(Counter, "time-limit:9", "action-repeat:4").horizon == 3
    seen, paid, _ = play(make_one(Counter, "delay:action-delay=2"), [1, 2, 3, 4])
    assert paid.tolist() == [0, 0, 1, 2] and seen[:, 1].tolist() == [0, 0, 0, 1, 2]
    assert play(make_one(Counter, "delay:0:2"), [1, 2, 3, 4])[0][:, 0].tolist() == [0, 0, 0, 1, 2]


def test_stacks_are_side_by_side_as_around_native_environments():
    batch = make_one(Counter, "frame-stack:3")
    assert isinstance(batch.observation_space, StackedBox) and batch.observation_space.shape == (6,)
    assert play(batch, [4, 3])[0].tolist() == [[0, 0] * 3, [0, 0, 0, 0, 1, 4], [0, 0, 1, 4, 2, 3]]
    batch = make_one(Picture, "grey", "resize:4:4", "frame-stack:2")
    assert batch.observation_space.shape == (4, 4, 2) and batch.observation_space.dtype == np.uint8
    seen = play(batch, [0, 0])[0]
    grey = seen[2, -2:, 0, -1].tolist() + seen[2, :2, 0, -1].tolist()
    assert grey == pytest.approx([0, 0, 100, 50], abs=1)  # three of eight rows are lit: one and a half of four
    assert play(make_one(Counter, "masked:1"), [4])[0].tolist() == [[0], [4]]


@pytest.mark.thorough
def test_noise_has_its_size_and_is_seeded():
    noisy = make_one(Counter, "observation-noise:2")
    seen = np.concatenate([play(noisy, [0] * 19, seed)[0][10:, 0] - np.arange(10, 20) for seed in range(30)])
    assert abs(seen.mean()) < 0.4 and 1.7 < seen.std() < 2.3
    one, other = play(noisy, [1] * 5, 3)[0], play(make_one(Counter, "observation-noise:2"), [1] * 5, 3)[0]
    assert np.array_equal(one, other) and not np.array_equal(one, play(noisy, [1] * 5, 4)[0])
    assert not play(make_one(Counter, "observation-noise:0:1"), [4] * 4)[0].any()
    paid = np.concatenate([play(make_one(Counter, "reward-noise:0.5:0.5"), [4] * 19, seed)[1] for seed in range(20)])
    assert abs(paid.mean() - 2) < 0.4 and abs(paid.var() - 4.25) < 0.6  # 4 or 0, and 0.25 of noise
    taken = np.concatenate([play(make_one(Counter, "action-noise:1"), [4] * 19, seed)[1] for seed in range(20)])
    assert np.bincount(taken.astype(int), minlength=5).min() > 40  # of 380, of which 76 are expected
    stuck = play(make_one(Counter, "sticky-actions:1"), [3, 1, 2])[1]
    assert stuck.tolist() == [3, 3, 3]


def test_at_strength_0_it_is_the_bare_environment():
    wrap = ["action-noise:0", "reward-noise:0:0", "observation-noise:0:0", "sticky-actions:0", "delay:0:0"]
    actions = list(np.random.default_rng(0).integers(0, 2, 60))
    bare, around = make_one("gymnasium:CartPole-v1"), make_one("gymnasium:CartPole-v1", *wrap)
    for one, other in zip(play(bare, actions), play(around, actions), strict=True):
        assert np.array_equal(one, other)


def test_what_is_saved_continues_bit_for_bit():
    wrap = ["action-repeat:2", "action-noise:0.5", "reward-noise:0.5:0.2", "sticky-actions:0.3", "delay:1:1"]
    wrap += ["observation-noise:0.1:0.1", "frame-stack:3", "time-limit:12"]
    first, second = (make_one("gymnasium:CartPole-v1", *wrap, num_envs=2) for _ in range(2))
    rng = np.random.default_rng(1)
    first.reset(0)
    second.reset(9)
    for _ in range(7):
        first.step(rng.integers(0, 2, 2))
    saved = first.snapshot()
    assert saved is not None
    second.restore(saved)
    for _ in range(30):
        action = rng.integers(0, 2, 2)
        one, other = first.step(action), second.step(action)
        assert np.array_equal(one.observation, other.observation)
        assert np.array_equal(one.step.reward, other.step.reward)


def test_continuous_actions_are_rescaled():
    batch = make_one("gymnasium:Pendulum-v1", "rescale-action:-0.5:0.5")
    assert (batch.action_space.low, batch.action_space.high) == (-0.5, 0.5)
    bare = make_one("gymnasium:Pendulum-v1")
    one, other = play(batch, [[0.25]] * 3), play(bare, [[1.0]] * 3)
    assert np.allclose(one[0], other[0], atol=1e-6)


@pytest.mark.parametrize(
    ("wrap", "said"),
    [
        ("noisy-tv:4:1", "noisy-tv goes around native environments such as CartPole-v1; around .*, go frame-stack"),
        ("grey", "grey needs observations in one box of numbers with 3 axes; Counter has Box"),
        ("rescale-action", "rescale-action needs low < high and actions with bounds; Counter has Discrete"),
        ("masked:7", "masked cannot keep entry 7 of Counter; it has 0 to 1"),
        ("action-noise:2", "action_noise is a probability, from 0 to 1, not 2"),
        ("frame-stack:0", "frames is 1 or more, not 0"),
        ("time-limit", "time-limit needs limit"),
    ],
)
def test_what_does_not_fit_is_refused(wrap, said):
    with pytest.raises(ForageError, match=said):
        environment_spec("counter", resolve_environment(Counter, {}, [wrap])[1])


def test_a_batch_that_a_function_makes_is_not_wrapped():
    with pytest.raises(ForageError, match="builds a batch on the host by itself"):
        resolve_environment(lambda num_envs: None, {}, ["time-limit:3"])


def test_a_run_keeps_the_wrappers_and_names_are_those_of_native_ones():
    from forage.config.registry import WRAPPERS

    assert resolve_environment(Counter, {}, ["time-limit:3"])[2]["wrap"] == ["time-limit:3"]
    assert set(BY_NAME) < set(WRAPPERS)
