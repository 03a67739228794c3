"""The host: checks of adapters' results. See `test_conformance.py` for the libraries themselves."""

import importlib.util
import sys
from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from forage.core.host import HostEnvironment, HostStep, seeds
from forage.core.ports import Environment
from forage.core.spaces import Tokens
from forage.core.types import ForageError, Step
from forage.environments.adapters.envpool import EnvPoolEnvironment
from forage.environments.adapters.gymnasium.atari import area_taps, shrink
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment
from forage.environments.adapters.on_host import OnHost

needs_mujoco = pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="mujoco is not installed")
needs_atari = pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale-py is not installed")
needs_envpool = pytest.mark.skipif(importlib.util.find_spec("envpool") is None, reason="envpool is not installed")


@pytest.fixture(autouse=True)
def other_folder(tmp_path, monkeypatch):
    """MuJoCo writes its log into the current directory."""
    monkeypatch.chdir(tmp_path)


def actions_for(host, number):
    """The same actions for every test of the same environment, from NumPy alone."""
    rng = np.random.default_rng(number)
    space = host.action_space
    if isinstance(space, spaces.Discrete):
        return rng.integers(0, space.n, host.num_envs)
    return rng.uniform(space.low, space.high, (host.num_envs, *space.shape)).astype(np.float32)


def assert_equal(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_array_equal(a, b)


# --- the contract ---------------------------------------------------------------------------------------------------


class ScriptedHostEnvironment(HostEnvironment):
    """Returns well-formed steps, except for the parts that a test spoils."""

    def __init__(self, spoil=None):
        super().__init__("scripted", spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2), 2)
        self.spoil = spoil

    def _reset(self, seed):
        return np.zeros((2, 3), np.float32)

    def _receive(self, action):
        parts = {
            "observation": np.zeros((2, 3), np.float32),
            "reward": np.zeros(2, np.float32),
            "terminated": np.zeros(2, bool),
            "truncated": np.zeros(2, bool),
        }
        if self.spoil is not None:
            self.spoil(parts)
        return HostStep(Step(**parts, info={}), parts["observation"])


def nan_observation(parts):
    parts["observation"][1, 2] = np.nan


def nan_reward(parts):
    parts["reward"][0] = np.nan


def wrong_shape(parts):
    parts["observation"] = np.zeros((2, 4), np.float32)


def wrong_dtype(parts):
    parts["reward"] = np.zeros(2, np.float64)


def run_both(parts):
    parts["terminated"][1] = parts["truncated"][1] = True


def raises(parts):
    raise ZeroDivisionError("the wheel came off")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (nan_observation, ["NaN", "observation", "environment 1", "entry 2"]),
        (nan_reward, ["NaN", "reward", "environment 0"]),
        (wrong_shape, ["observation", "float32[2, 4]", "float32[2, 3]"]),
        (wrong_dtype, ["reward", "float64[2]", "float32[2]"]),
        (run_both, ["terminated and truncated", "environment 1"]),
        (raises, ["ZeroDivisionError", "the wheel came off"]),
    ],
)
def test_a_bad_step_is_named_in_one_sentence(spoil, words):
    host = ScriptedHostEnvironment()
    host.reset(0)
    host.step(np.zeros(2))
    host.spoil = spoil
    with pytest.raises(ForageError) as caught:
        host.step(np.zeros(2))
    for word in ["scripted", "step 2", *words]:
        assert word in str(caught.value)
    if spoil is raises:
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_infinity_is_named_and_numbers_whose_squares_are_infinite_pass():
    def show(values):
        def change(parts):
            parts["observation"][1] = values

        return change

    host = ScriptedHostEnvironment(show([1e30, -3e38, 0]))
    host.reset(0)
    host.step(np.zeros(2))
    host = ScriptedHostEnvironment(show([0, -np.inf, 0]))
    host.reset(0)
    with pytest.raises(ForageError, match=r"returned infinity .* observation at step 1 in environment 1, entry 1"):
        host.step(np.zeros(2))


def test_send_and_receive_alternate():
    host = ScriptedHostEnvironment()
    host.reset(0)
    with pytest.raises(ForageError, match="send"):
        host.receive()
    host.send(np.zeros(2))
    with pytest.raises(ForageError, match="receive"):
        host.send(np.zeros(2))
    with pytest.raises(ForageError, match="receive"):
        host.snapshot()
    host.receive()
    assert host.snapshot() is None
    with pytest.raises(ForageError, match="cannot be restored"):
        host.restore(b"")


# --- Gymnasium ------------------------------------------------------------------------------------------------------


def test_environments_of_neighbouring_runs_differ():
    assert not set(seeds(0, 8)) & set(seeds(1, 8))
    assert seeds(0, 8)[:3] == seeds(0, 3)
    host = GymnasiumEnvironment("CartPole-v1", 3)
    first = host.reset(1)
    assert len(np.unique(first[:, 0])) == 3
    np.testing.assert_array_equal(host.reset(1), first)


MINE = '''
import random
import gymnasium
import numpy as np
from gymnasium import spaces

class Base(gymnasium.Env):
    observation_space = spaces.Box(-9, 9, (2,), np.float32)
    action_space = spaces.Discrete(2)
    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.look(), {}
    def look(self):
        return np.full(2, self.time, np.float32)
    def step(self, action):
        self.time += 1
        return self.look(), 1.0, self.time >= 3, self.time >= 3, {"time": self.time}

class Both(Base):
    pass

class LateShape(Base):
    def look(self):
        return np.zeros(2 if self.time < 2 else 1, np.float32)

class Rounds(Base):
    observation_space = spaces.Box(0, 9, (2,), np.uint8)
    def look(self):
        return np.full(2, self.time + 0.5) if self.time else np.zeros(2, np.uint8)

class Nested(Base):
    observation_space = spaces.Dict({"a": spaces.Box(0, 9, (2, 2), np.float64), "b": spaces.Discrete(3)})
    def look(self):
        return {"a": np.arange(4.0).reshape(2, 2), "b": 1}

class MaskInObservation(Base):
    observation_space = spaces.Dict({"observation": Base.observation_space, "action_mask": spaces.MultiBinary(2)})
    def look(self):
        return {"observation": Base.look(self), "action_mask": np.array([1, self.time % 2], np.int8)}

class Offset(Base):
    observation_space = spaces.Discrete(4, start=10)
    action_space = spaces.Discrete(2, start=5)
    def look(self):
        return 10 + self.time
    def step(self, action):
        assert action in (5, 6), action
        return super().step(action)

class SharedDice(Base):
    """Draws from a generator that no snapshot of the environment can hold."""
    def look(self):
        return np.full(2, random.random(), np.float32)

class TakesSides(Base):
    def __init__(self, left_bias=0.0):
        self.left_bias = left_bias

class Growing(Base):
    observation_space = spaces.Sequence(spaces.Discrete(3))
    def look(self):
        return (1,) * self.time
'''


@pytest.fixture
def mine(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return str(file)


def test_terminated_wins_over_truncated_and_info_is_kept(mine):
    host = GymnasiumEnvironment(f"{mine}:Both", 2, info=("time", "absent"))
    host.reset(0)
    for number in range(1, 4):
        step, following = host.step(np.zeros(2, int))
        np.testing.assert_array_equal(step.info["time"], [number] * 2)
        assert np.isnan(step.info["absent"]).all()
    assert step.terminated.all() and not step.truncated.any()
    np.testing.assert_array_equal(step.observation, np.full((2, 2), 3))
    np.testing.assert_array_equal(following, np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("name", "words"), [("LateShape", ["float32[1]", "float32[2]"]), ("Rounds", ["float64[2]", "uint8[2]"])]
)
def test_observations_that_break_the_promise_are_not_broadcast_or_rounded(mine, name, words):
    host = GymnasiumEnvironment(f"{mine}:{name}", 2)
    host.reset(0)
    with pytest.raises(ForageError) as caught:
        for _ in range(2):
            host.step(np.zeros(2, int))
    for word in ["environment 0", f"step {2 if name == 'LateShape' else 1}", *words]:
        assert word in str(caught.value)


def test_nested_observations_are_flattened(mine):
    host = GymnasiumEnvironment(f"{mine}:Nested", 2, flatten=True)
    assert isinstance(host.observation_space, spaces.Box) and host.observation_space.shape == (7,)
    np.testing.assert_array_equal(host.reset(0), [[0, 1, 2, 3, 0, 1, 0]] * 2)
    with pytest.raises(ForageError, match="size changes"):
        GymnasiumEnvironment(f"{mine}:Growing", 1)


def test_action_masks_keep_their_place(mine):
    host = GymnasiumEnvironment(f"{mine}:MaskInObservation", 2)
    assert set(host.reset(0)) == {"observation", "action_mask"}
    step, following = host.step(np.zeros(2, int))
    np.testing.assert_array_equal(step.observation["action_mask"], [[1, 1], [1, 1]])
    assert following is step.observation
    taxi = GymnasiumEnvironment(next(id for id in gymnasium.registry if id.startswith("Taxi-")), 2)
    assert isinstance(taxi.observation_space["observation"], spaces.Discrete)
    env = gymnasium.make(taxi.name)
    observation = taxi.reset(4)
    for index, seed in enumerate(seeds(4, 2)):
        expected, info = env.reset(seed=seed)
        assert observation["observation"][index] == expected
        np.testing.assert_array_equal(observation["action_mask"][index], info["action_mask"])


def test_discrete_spaces_count_from_zero(mine):
    host = GymnasiumEnvironment(f"{mine}:Offset", 2)
    assert host.action_space == spaces.Discrete(2)
    np.testing.assert_array_equal(host.reset(0), [0, 0])
    np.testing.assert_array_equal(host.step(np.array([0, 1])).observation, [1, 1])
    with pytest.raises(ForageError, match="2"):
        host.step(np.array([0]))


def test_options_that_do_not_exist_are_answered_with_the_nearest(mine):
    with pytest.raises(ForageError, match="left_bias"):
        GymnasiumEnvironment(f"{mine}:TakesSides", 1, lef_bias=1.0)
    assert GymnasiumEnvironment(f"{mine}:TakesSides", 1, left_bias=1.0, max_episode_steps=8).horizon == 8


@pytest.mark.parametrize(
    "id",
    [
        "FrozenLake-v1",
        pytest.param("Ant-v5", marks=needs_mujoco),
        pytest.param("ALE/Breakout-v5", marks=(needs_atari, pytest.mark.thorough)),
    ],
)
def test_a_snapshot_continues_bit_for_bit_in_a_fresh_environment(id):
    host = GymnasiumEnvironment(id, 2, max_episode_steps=11)
    host.reset(0)
    for number in range(17):
        expected_next = host.step(actions_for(host, number)).observation
    saved = host.snapshot()
    assert saved is not None
    after = [host.step(actions_for(host, number)) for number in range(17, 60)]
    assert any(result.step.truncated.any() for result in after)

    fresh = GymnasiumEnvironment(id, 2, max_episode_steps=11)
    fresh.reset(99)
    fresh.step(actions_for(fresh, 0))
    assert_equal(fresh.restore(saved), expected_next)
    for number, expected in zip(range(17, 60), after, strict=True):
        assert_equal(fresh.step(actions_for(fresh, number)), expected)
    with pytest.raises(ForageError, match="cannot continue"):
        GymnasiumEnvironment(id, 1, max_episode_steps=11).restore(saved)


def test_what_cannot_be_saved_exactly_is_not_saved(mine):
    for name, options, exact in [
        ("SharedDice", {"snapshots": True}, False),
        ("Both", {"snapshots": True}, True),
        ("Both", {}, False),
    ]:
        host = GymnasiumEnvironment(f"{mine}:{name}", 2, **options)
        host.reset(0)
        assert (host.snapshot() is not None) == exact


@pytest.mark.thorough
@needs_atari
def test_an_emulator_that_hides_its_sticky_action_is_not_saved():
    for sticky, exact in [(0.25, False), (0.0, True)]:
        host = GymnasiumEnvironment("ALE/Pong-v5", 1, preprocess=False, repeat_action_probability=sticky)
        host.reset(0)
        assert (host.snapshot() is not None) == exact


def test_processes_return_what_the_loop_returns():
    options = {"max_episode_steps": 9}
    parallel, serial = (GymnasiumEnvironment("CartPole-v1", 2, parallel=flag, **options) for flag in (True, False))
    try:
        assert_equal(parallel.reset(3), serial.reset(3))
        for number in range(25):
            actions = actions_for(serial, number)
            assert_equal(parallel.step(actions), serial.step(actions))
        assert parallel.snapshot() is None
    finally:
        parallel.close()


def test_drawing():
    pytest.importorskip("pygame")
    host = GymnasiumEnvironment("CartPole-v1", 1)
    host.reset(0)
    frame = host.render()
    assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[-1] == 3
    with pytest.raises(ForageError, match="cannot be drawn"):
        ScriptedHostEnvironment().render()


# --- Atari ----------------------------------------------------------------------------------------------------------


def test_shrinking_is_area_averaging():
    image = np.random.default_rng(0).uniform(0, 255, (210, 160)).astype(np.float32)
    # Repeated pixels divide evenly: 210 x 2 = 84 x 5 and 160 x 21 = 84 x 40.
    blocks = image.repeat(2, axis=0).repeat(21, axis=1).reshape(84, 5, 84, 40).mean(axis=(1, 3))
    ours = shrink(shrink(image, area_taps(210, 84)).T, area_taps(160, 84)).T
    np.testing.assert_allclose(ours, blocks, rtol=1e-4)


@needs_atari
def test_atari_frames_are_stacked_with_the_newest_last():
    host = GymnasiumEnvironment("ALE/Breakout-v5", 2)
    observation = host.reset(0)
    assert host.observation_space.shape == (84, 84, 4) and host.horizon == 27_000
    for frame in range(3):
        np.testing.assert_array_equal(observation[..., frame], observation[..., 3])
    seen = [observation]
    for number in range(6):
        seen.append(host.step(actions_for(host, number)).observation)
        np.testing.assert_array_equal(seen[-1][..., :3], seen[-2][..., 1:])
    assert (seen[-1][..., 3] != seen[0][..., 3]).any()


@needs_atari
@pytest.mark.parametrize(
    ("options", "horizon"),
    [
        ({}, 27_000),
        ({"frameskip": 5}, 21_600),
        ({"frameskip": (2, 5)}, None),
        ({"max_episode_steps": 9}, 9),
        ({"max_num_frames_per_episode": 41}, 11),
    ],
)
def test_the_emulators_limit_on_frames_is_a_horizon_without_preprocessing(options, horizon):
    host = GymnasiumEnvironment("ALE/Breakout-v5", 1, preprocess=False, **options)
    assert host.horizon == horizon
    if horizon is not None and horizon < 20:
        host.reset(0)
        ends = [bool(host.step(np.array([0])).step.truncated[0]) for _ in range(horizon)]
        assert ends == [False] * (horizon - 1) + [True]


@needs_atari
def test_episodic_life_ends_the_episode_and_plays_on():
    host = GymnasiumEnvironment(
        "ALE/Breakout-v5", 1, episodic_life=True, info=("lives",), repeat_action_probability=0.0
    )
    host.reset(0)
    lives = []
    for number in range(400):
        step, _ = host.step(np.array([number % 2]))  # fire and wait: every ball is lost
        if step.terminated[0]:
            lives.append(int(step.info["lives"][0]))
        if len(lives) == 2:
            break
    assert lives == [4, 3]


# --- EnvPool --------------------------------------------------------------------------------------------------------


@needs_atari
def test_sticky_actions_repeat_what_was_done_before():
    def trail(sticky):
        host = GymnasiumEnvironment("ALE/Pong-v5", 1, noop_max=0, repeat_action_probability=sticky)
        host.reset(0)
        return np.stack([host.step(np.array([2 + number % 2])).observation[0] for number in range(30)])

    free, always = trail(0.0), trail(1.0)
    idle = GymnasiumEnvironment("ALE/Pong-v5", 1, noop_max=0, repeat_action_probability=0.0)
    idle.reset(0)
    # With probability one the action of the reset, none, sticks for ever.
    np.testing.assert_array_equal(always, [idle.step(np.array([0])).observation[0] for _ in range(30)])
    assert (free != always).any() and (trail(0.25) != free).any()


@needs_envpool
def test_envpool_is_made_anew_for_another_seed():
    host = EnvPoolEnvironment("CartPole-v1", 3, max_episode_steps=10, info=("elapsed_step",))
    observation = host.reset(7)
    for _ in range(30):
        step, _ = host.step(np.array([0, 1, 1]))
        assert (step.info["elapsed_step"] >= 1).all()  # the step that only starts an episode is no transition
    np.testing.assert_array_equal(host.reset(7), observation)
    # Nor does the next seed have any of its environments: evaluations of neighbouring seeds would share episodes.
    assert (host.reset(8)[:, None] != observation).any(2).all()


@needs_envpool
def test_envpool_dictionaries_of_many_kinds_stay():
    host = EnvPoolEnvironment("MiniGrid-Empty-5x5-v0", 2)
    assert host.observation_space["mission"] == Tokens(96, 256)
    assert host.observation_space["direction"] == spaces.Discrete(4)
    observation = host.reset(0)
    words = bytes(observation["mission"][0].astype(np.uint8)).rstrip(b"\0").decode()
    assert words == "get to the green goal square" and observation["mission"].dtype == np.int32
    host.step(np.zeros(2, int))
    masked = EnvPoolEnvironment("Knapsack-v1", 2)
    assert set(masked.observation_space) == {"observation", "action_mask"}
    assert "action_mask" not in masked.observation_space["observation"].spaces
    assert masked.reset(0)["action_mask"].shape == (2, masked.action_space.n)
    with pytest.raises(ForageError, match="flatten=False works"):
        EnvPoolEnvironment("MiniGrid-Empty-5x5-v0", 1, flatten=True)


@needs_envpool
def test_envpool_spaces_and_options():
    host = EnvPoolEnvironment("CheetahRun-v1", 2)
    assert host.observation_space.shape == (17,) and np.isinf(host.observation_space.low).all()
    assert host.reset(0).shape == (2, 17)
    kept = EnvPoolEnvironment("CheetahRun-v1", 2, flatten=False, max_episode_steps=2)
    observation, flat = kept.reset(0), host.reset(0)
    assert {key: space.shape for key, space in kept.observation_space.items()} == {"position": (8,), "velocity": (9,)}
    np.testing.assert_array_equal(np.concatenate([observation[key] for key in kept.observation_space], axis=1), flat)
    step = kept.step(np.zeros((2, 6), np.float32))
    assert step.observation is step.step.observation and step.observation["velocity"].dtype == np.float32
    (last, following) = kept.step(np.zeros((2, 6), np.float32))
    assert last.truncated.all() and (following["position"] != last.observation["position"]).any(axis=1).all()
    assert host.action_space.dtype == np.float32
    host.step(np.zeros((2, 6), np.float32))
    with pytest.raises(ForageError, match="frame_skip"):
        EnvPoolEnvironment("Pong-v5", 1, frameskip=2)
    with pytest.raises(ForageError, match="Pong-v5"):
        EnvPoolEnvironment("Pogn-v5", 1)


def test_envpool_missing_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(ForageError, match=r"pip install 'forage-rl\[envpool\]'"):
        EnvPoolEnvironment("Pong-v5", 1)


# --- native environments --------------------------------------------------------------------------------------------


class WalkState(NamedTuple):
    place: jax.Array
    time: jax.Array
    key: jax.Array  # states may hold keys


class Walk(Environment):
    """A drunkard's walk that ends at 3 and runs out of time after 6 steps."""

    drift: float = 0.2

    @property
    def observation_space(self):
        return spaces.Box(-np.inf, np.inf, (2,), np.float32)

    @property
    def action_space(self):
        return spaces.Discrete(2)

    @property
    def horizon(self):
        return 6

    def reset(self, key):
        state = WalkState(jax.random.uniform(key), jnp.zeros((), jnp.int32), key)
        return state, self.look(state)

    def look(self, state):
        return jnp.stack([state.place, state.time.astype(jnp.float32)])

    def step(self, state, action, key):
        place = state.place + action + self.drift * jax.random.normal(key)
        state = WalkState(place, state.time + 1, key)
        terminated = place > 3
        truncated = (state.time >= 6) & ~terminated
        return state, Step(self.look(state), place, terminated, truncated, {})


def test_a_native_environment_on_the_host_ends_and_begins_again():
    host = OnHost(Walk(), 4)
    observation = host.reset(0)
    assert isinstance(observation, np.ndarray) and observation.shape == (4, 2)
    elapsed = np.zeros(4)
    ends = {"terminated": 0, "truncated": 0}
    for number in range(40):
        step, following = host.step(actions_for(host, number))
        elapsed += 1
        np.testing.assert_array_equal(step.observation[:, 1], elapsed)
        np.testing.assert_array_equal(step.terminated, step.observation[:, 0] > 3)
        np.testing.assert_array_equal(step.truncated, (elapsed >= 6) & ~step.terminated)
        ended = step.terminated | step.truncated
        ends["terminated"] += int(step.terminated.sum())
        ends["truncated"] += int(step.truncated.sum())
        elapsed[ended] = 0
        np.testing.assert_array_equal(following[~ended], step.observation[~ended])
        assert (following[ended, 1] == 0).all() and (following[ended, 0] <= 1).all()
    assert all(ends.values())


def test_a_native_environment_on_the_host_is_exact():
    host, again = OnHost(Walk(), 3), OnHost(Walk(), 3)
    assert_equal(host.reset(5), again.reset(5))
    for number in range(9):
        actions = actions_for(host, number)
        host.send(actions)
        result = host.receive()
        assert_equal(result, again.step(actions))
    saved = host.snapshot()
    after = [host.step(actions_for(host, number)) for number in range(9, 30)]
    again.reset(6)
    assert_equal(again.restore(saved), result.observation)
    for number, expected in zip(range(9, 30), after, strict=True):
        assert_equal(again.step(actions_for(again, number)), expected)
    with pytest.raises(ForageError, match="not of 2 copies of Walk"):
        OnHost(Walk(), 2).restore(saved)
    with pytest.raises(ForageError, match="num_envs=0"):
        OnHost(Walk(), 0)
    with pytest.raises(ForageError, match="reset"):
        OnHost(Walk(), 1).step(np.zeros(1, int))
