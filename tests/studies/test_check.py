"""Reports of `forage check` on environments with one fault each, and on sound ones."""

import json

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from tiers import first

import forage
from forage.core.bounds import farthest
from forage.core.ports import Environment
from forage.core.types import ForageError, Step

small.keep_compiled()


class Sound(gymnasium.Env):
    """Ten random steps along a line."""

    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.see(), {}

    def step(self, action):
        self.time += 1
        return self.see(), float(action), False, self.time >= 10, {"is_success": bool(action)}

    def see(self):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


class OutsideTheBox(Sound):
    def see(self):
        return super().see() + np.float32([0, 0.5 * (self.time == 3)]) * 5


class UnseededSound(Sound):
    def see(self):
        return np.random.uniform(-1, 1, 2).astype(np.float32)


class UnseededSteps(Sound):
    def see(self):
        chance = np.random if self.time > 4 else self.np_random
        return chance.uniform(-1, 1, 2).astype(np.float32)


class SharedSound(Sound):
    places = [0.0]

    def see(self):
        self.places[0] = 0.0 if self.time == 0 else self.places[0] + 0.01
        return np.float32([self.places[0], 0])


class Endless(Sound):
    def step(self, action):
        return *super().step(action)[:2], False, False, {}


class NotANumber(Sound):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.nan if self.time == 7 else reward, *rest


class Wide(Sound):
    def see(self):
        return super().see().astype(np.float64)


class Flags(Sound):
    def step(self, action):
        observation, reward, _, over, info = super().step(action)
        return observation, reward, int(over), False, info


class Clock(Sound):
    def step(self, action):
        observation, reward, _, over, info = super().step(action)
        return observation, reward, over, False, info


class Raises(Sound):
    def step(self, action):
        if self.time == 4:
            raise ValueError("no such place")
        return super().step(action)


class Mute(Sound):
    def step(self, action):
        raise ValueError


class Exits(Sound):
    def step(self, action):
        raise SystemExit(3)


class OldStep(Sound):
    def step(self, action):
        return super().step(action)[:4]


class OnceSound(Sound):
    made = 0

    def __init__(self):
        OnceSound.made += 1
        if OnceSound.made > 3:  # a run makes one to look at it, and more
            raise RuntimeError("the port is taken")


@pytest.fixture(autouse=True)
def start_anew():
    OnceSound.made = 0


def find_results(cls, verdict):
    checked = forage.check(cls, steps=100)
    return {one.topic: one.text for one in checked.findings if one.verdict == verdict}, checked


def test_a_sound_environment_is_said_to_be_sound():
    checked = forage.check(Sound, steps=100)
    assert checked.ok and not checked.wrong
    said = {one.topic: one for one in checked.findings}
    assert said["observation"].text == "shape, dtype and bounds hold in all 111"  # the first, 100 steps, 10 first ones
    assert said["episodes"].text.startswith("10 have ended: 10 truncated; 10 to 10 steps")
    assert "--env.info is_success" in said["info"].text
    assert {said[topic].verdict for topic in ("seed", "determinism", "copies", "saving")} == {"ok"}
    assert checked.agents["ppo"] == "" and "continuous" in checked.agents["sac"]
    assert checked.steps_per_second > 0
    assert str(checked) == repr(checked) and str(checked).endswith("0 wrong")
    assert "<td" in checked._repr_html_() and json.dumps(checked.to_json())


@pytest.mark.parametrize(
    ("cls", "topic", "words"),
    [
        (OutsideTheBox, "observation", "entry 1 was"),
        (UnseededSound, "seed", "two resets with seed 0 show different observations; draw every random number from"),
        (UnseededSteps, "determinism", "in the observation at step 5"),
        (SharedSound, "copies", "in the observation at step 1"),
        (Endless, "episodes", "none has ended in 100 steps, and it declares no limit; give it one, as with --wrap"),
        (NotANumber, "reward", "the reward was nan at step 7"),
        (Raises, "contract", "at step 5 it raised ValueError: no such place"),
        (Mute, "contract", "at step 1 it raised ValueError: no message; it must not"),
        (Exits, "contract", "at step 1 it called sys.exit(3), which ends the whole run; raise an error"),
        (OldStep, "contract", "at step 1 it returned 4 values from step; it should return (observation, reward,"),
        (OnceSound, "copies", "a second copy fails with RuntimeError: the port is taken"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_fault_is_named_and_nothing_else(cls, topic, words):
    wrong, checked = find_results(cls, "wrong")
    assert not checked.ok and set(wrong) == {topic}
    assert words in wrong[topic]


@pytest.mark.parametrize(
    ("cls", "topic", "words"),
    [
        (Wide, "observation", "float64 where its space says float32; it is cast, so return .astype('float32')"),
        (Flags, "flags", "terminated or truncated was of type int; return True or False"),
        (Clock, "time limit", "each was terminated after 10 steps exactly"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_may_be_meant_is_noted(cls, topic, words):
    noted, checked = find_results(cls, "note")
    assert checked.ok and words in noted[topic]


def test_how_far_outside_is_the_distance_to_the_nearer_bound():
    space = Box(np.float32([-1, -np.inf]), np.float32([1, 2]))
    outside = farthest(np.array([[0, 5.0], [-4, -1e9], [0.5, 0]]), space)
    assert outside is not None
    assert (outside.by, outside.value, outside.bound, outside.entry, outside.count) == (3, 5, 2, (1,), 2)
    assert farthest(np.array([[-1.000001, 2.000001]]), space) is None  # rounding


def test_one_object_and_a_batch_are_checked_and_it_is_said_what_a_run_takes():
    noted, checked = find_results(gymnasium.make_vec("CartPole-v1", 2), "note")
    assert checked.ok and "give a function of that number" in noted["training"]
    noted, checked = find_results(Sound(), "note")  # a run makes copies of it
    assert checked.ok and "training" not in noted


class Adds(Sound):
    """A total that is kept across resets."""

    total = 0

    def step(self, action):
        self.total += 1
        observation, _, *rest = super().step(action)
        return observation, self.total / 100, *rest


class TurnedSound(Sound):
    """Two choices, some of them forbidden by a mask."""

    observation_space = Dict({"observation": Sound.observation_space, "action_mask": MultiBinary(5)})
    action_space = MultiDiscrete([2, 3])

    def see(self):
        return {"observation": super().see(), "action_mask": np.array([0, 1, self.time % 2, 0, 1], np.int8)}

    def step(self, action):
        assert action[0] == 1 and action[1] in (0, 2) and (action[1] or self.time % 2), action
        return *super().step(0)[:2], False, self.time >= 10, {}


def test_what_outlives_a_reset_is_no_unseeded_chance():
    for given, said in (
        (lambda: gymnasium.wrappers.NormalizeReward(Sound()), "the running statistics of NormalizeReward go on over"),
        (lambda: gymnasium.wrappers.NormalizeObservation(Sound()), "statistics of NormalizeObservation go on over"),
        (Adds, "something else in the reward at step 1: something, such as running statistics, goes on over resets"),
    ):
        noted, checked = find_results(given, "note")
        assert said in noted["state"] and checked.ok, checked
        assert {one.topic for one in checked.findings if one.verdict == "ok"} >= {"copies"}
    object_of = gymnasium.wrappers.NormalizeReward(Sound())
    assert "NormalizeReward" in find_results(object_of, "note")[0]["state"]


def test_masks_of_several_choices_are_obeyed():
    assert forage.check(TurnedSound, steps=60).ok


class Impure(Environment):
    observation_space = property(lambda self: Box(-1, 1, (1,), np.float32))
    action_space = property(lambda self: Discrete(2))

    def reset(self, key):
        return jnp.zeros(1), jnp.zeros(1)

    def step(self, state, action, key):
        seen = jnp.full(1, np.random.uniform(), jnp.float32)
        return state, Step(seen, action.astype(jnp.float32), action > 0, jnp.zeros((), bool), {})


class NotFinite(Impure):
    def step(self, state, action, key):
        step = super().step(state, action, key)[1]
        state = jnp.where(action > 0, 0, state - 1)
        return state, step._replace(observation=jnp.log(state + 3) / 2)


class Misshapen(Impure):
    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, step._replace(reward=step.observation)


@pytest.mark.parametrize(
    ("cls", "topic", "words"),
    first(
        1,
        [
            (Impure, "jit", "traced twice, it brings something else in its observation; numbers drawn by NumPy"),
            (NotFinite, "observation", "it has -inf at entry (0,)"),
            (Misshapen, "contract", "as reward float32[1]; it should be float32[]"),
        ],
    ),
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_faults_in_jax_are_named(cls, topic, words):
    wrong, _ = find_results(cls, "wrong")
    assert words in wrong[topic] and set(wrong) == {topic}


def test_a_native_environment_is_sound():
    checked = forage.check("CartPole-v1", steps=100)
    said = {one.topic: one.verdict for one in checked.findings}
    assert checked.ok and {said[topic] for topic in ("jit", "vmap", "render", "saving")} == {"ok"}


def test_the_command_prints_it_and_exits_with_1_where_something_is_wrong(capsys, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "import gymnasium\n"
        "class Line(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def __init__(self, far=0.5):\n"
        "        self.far = far\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        "        return np.zeros(1, np.float32), {}\n"
        "    def step(self, action):\n"
        "        return np.float32([self.far]), float(action), bool(action), False, {}\n"
    )
    name = f"{tmp_path}/mine.py:Line"
    code, out, err = small.run_command(capsys, "check", name, "--steps", "50")
    assert (code, err) == (0, "") and out.startswith("mine.py:Line: 50 steps") and out.endswith("0 wrong\n")
    code, out, err = small.run_command(capsys, "check", name, "--env.far", "3", "--steps", "50", "--json")
    said = json.loads(out)
    assert code == 1 and said["event"] == "check" and not said["ok"]
    assert "entry 0 was 3, 2 above its bound 1 at step 1 (outside in " in str(said["findings"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"steps": 0}, "1 step or more, not 0"),
        ({"seed": -1}, "whole number from 0"),
    ],
)
def test_numbers_that_cannot_be_are_refused(arguments, said):
    with pytest.raises(ForageError, match=said):
        forage.check(Sound, **arguments)
    with pytest.raises(ForageError, match="made already; give its id or class"):
        forage.check(Sound(), wrap=["time-limit:5"])
