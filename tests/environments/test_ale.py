"""ale-py's vector environment as an adapter, compared with Gymnasium's own preprocessing of the same games."""

import importlib.util
import sys

import gymnasium
import numpy as np
import pytest

from forage.core.host import seeds
from forage.core.spaces import StackedBox
from forage.core.types import ForageError
from forage.environments import make
from forage.environments.adapters.ale import ALEEnvironment

needs_ale = pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale-py is not installed")


def open_one(num_envs=1, game="Breakout", **options):
    return make(f"ale:{game}", **options).build(num_envs)


@needs_ale
def test_steps_are_those_of_gymnasiums_preprocessing():
    pytest.importorskip("cv2")
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    host = open_one(noop_max=0, use_fire_reset=False)
    inner = gymnasium.make("ALE/Breakout-v5", frameskip=1, repeat_action_probability=0.0)
    env = FrameStackObservation(AtariPreprocessing(inner, noop_max=0), 4, padding_type="zero")
    first, _ = env.reset(seed=seeds(5, 1)[0])
    np.testing.assert_array_equal(host.reset(5)[0], np.moveaxis(first, 0, -1))
    rng, ends = np.random.default_rng(0), 0
    for _ in range(250):
        action = rng.integers(4)
        (step, following), (observation, reward, terminated, truncated, _) = host.step(action[None]), env.step(action)
        np.testing.assert_array_equal(step.observation[0], np.moveaxis(observation, 0, -1))
        assert (step.reward[0], step.terminated[0], step.truncated[0]) == (reward, terminated, truncated)
        if terminated:
            observation, _ = env.reset()
            ends += 1
        np.testing.assert_array_equal(following[0], np.moveaxis(observation, 0, -1))
    assert ends >= 1


@needs_ale
def test_steps_are_those_of_forages_preprocessing():
    """Steps agree, apart from the frames before the first; pictures agree up to one grey level of rounding."""
    ale = open_one(noop_max=0, use_fire_reset=False)
    own = make("gymnasium:ALE/Breakout-v5", noop_max=0, repeat_action_probability=0.0).build(1)
    ale.reset(5), own.reset(5)
    rng, lost = np.random.default_rng(0), 0
    for number in range(50):
        action = rng.integers(4, size=1)
        one, other = (host.step(action).step for host in (ale, own))
        if number >= 3:
            assert np.abs(one.observation.astype(int) - other.observation).max() <= 1
        assert one.reward == other.reward and one.terminated == other.terminated
        assert one.info["life_lost"] == other.info["life_lost"]
        lost += one.info["life_lost"]
    assert lost >= 1


@needs_ale
def test_a_lost_life_ends_an_episode_and_the_game_plays_on():
    """ale-py leaves its last observation unwritten there, and it must not be shown."""
    on, through = open_one(2, life_loss_info=True), open_one(2)
    np.testing.assert_array_equal(on.reset(1), through.reset(1))
    rng, lives, games = np.random.default_rng(0), 0, 0
    for _ in range(180):
        action = rng.integers(4, size=2)
        (ended, acted), (went_on, _) = on.step(action), through.step(action)
        np.testing.assert_array_equal(ended.observation, went_on.observation)
        np.testing.assert_array_equal(ended.terminated, went_on.info["life_lost"] > 0)
        only_life = ended.terminated & ~went_on.terminated
        np.testing.assert_array_equal(acted[only_life], ended.observation[only_life])
        lives, games = lives + only_life.sum(), games + went_on.terminated.sum()
    assert lives > 4 <= 4 * games


@needs_ale
def test_a_lost_life_begins_a_new_game_where_asked():
    host = open_one(episodic_life=True)
    host.reset(1)
    rng = np.random.default_rng(0)
    for _ in range(60):
        step, following = host.step(rng.integers(4, size=1))
        if step.terminated[0]:
            break
    assert step.terminated[0] and not following[0, :, :, :3].any() and step.observation[0, :, :, :3].any()


@needs_ale
def test_time_is_up_after_so_many_frames():
    host = open_one(2, noop_max=0, max_num_frames_per_episode=40)
    assert host.horizon == 10
    host.reset(0)
    steps = [host.step(np.zeros(2, int)) for _ in range(10)]
    assert [step.step.truncated.tolist() for step in steps] == [[False, False]] * 9 + [[True, True]]
    last, following = steps[-1]
    assert not last.terminated.any() and not last.info["life_lost"].any()
    # What the step led to, and not the new game, which begins with black frames.
    assert last.observation[..., 0].any() and not following[..., :3].any()


@needs_ale
def test_seeds_and_sticky_actions():
    host = open_one(2, repeat_action_probability=0.25)

    def trail(seed):
        rng, seen = np.random.default_rng(0), [host.reset(seed)]
        return np.stack([*seen, *(host.step(rng.integers(4, size=2)).observation for _ in range(12))])

    first = trail(7)
    np.testing.assert_array_equal(first, trail(7))
    assert (first[:, 0] != first[:, 1]).any() and (first != trail(8)).any()
    assert host.snapshot() is None


@needs_ale
def test_rewards_are_the_games_unless_clipped():
    scores = {}
    for clipped in (False, True):
        host = open_one(2, "Assault", reward_clipping=clipped)
        host.reset(0)
        rng = np.random.default_rng(0)
        scores[clipped] = np.stack([host.step(rng.integers(7, size=2)).step.reward for _ in range(60)])
    assert scores[False].max() > 1
    np.testing.assert_array_equal(np.sign(scores[False]), scores[True])


@needs_ale
@pytest.mark.parametrize(
    ("options", "shape", "frames"),
    [
        ({}, (84, 84, 4), 4),
        ({"grayscale": False}, (84, 84, 12), 4),
        ({"img_height": 32, "img_width": 40, "stack_num": 1}, (32, 40, 1), 1),
    ],
)
def test_frames_stand_at_the_end_with_the_newest_last(options, shape, frames):
    host = open_one(**options)
    assert isinstance(host.observation_space, StackedBox) and host.observation_space.frames == frames
    before, each = host.reset(0), shape[-1] // frames
    assert before.shape == (1, *shape) and before[..., -each:].any()
    after = host.step(np.array([1])).observation
    np.testing.assert_array_equal(after[..., :-each], before[..., each:])
    picture = host.render()
    assert picture.shape == (4 * shape[0], 4 * shape[1], 3)
    np.testing.assert_array_equal(picture[::4, ::4], np.broadcast_to(after[0, :, :, -each:], (*shape[:2], 3)))


@needs_ale
def test_names_and_actions():
    assert open_one(game="ms_pacman").name == "ale:MsPacman"
    assert open_one(game="Pong", full_action_space=True).action_space.n == 18
    host = open_one(2, "Pong", continuous=True)
    host.reset(0)
    assert host.step(np.zeros((2, 3), np.float32)).step.reward.shape == (2,)


@needs_ale
@pytest.mark.parametrize(
    ("game", "options", "says"),
    [
        ("Pong-v5", {}, "Did you mean 'ale:Pong'"),
        ("Pogn", {}, "Did you mean 'ale:Pong'"),
        ("Pong", {"frame_skip": 4}, "no option 'frame_skip'. Did you mean 'frameskip'"),
        ("Pong", {"batch_size": 2}, "no option 'batch_size'"),
        ("Pong", {"frameskip": 0}, "frameskip a whole number from 1 on, not 0"),
        ("Pong", {"img_height": -1}, "img_height a whole number from 1 on, not -1"),
        ("Pong", {"stack_num": 2.0}, "stack_num a whole number from 1 on, not 2.0"),
        ("Pong", {"noop_max": -1}, "noop_max a whole number from 0 on, not -1"),
        ("Pong", {"grayscale": 3}, "grayscale true or false, not 3"),
        ("Pong", {"repeat_action_probability": 1.5}, "from 0 to 1, not 1.5"),
        ("Pong", {"episodic_life": True, "life_loss_info": True}, "choose one"),
    ],
)
def test_what_is_not_there_is_said(game, options, says):
    with pytest.raises(ForageError) as error:
        open_one(game=game, **options)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_ale_missing_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ForageError, match=r"pip install 'forage-rl\[atari\]'"):
        ALEEnvironment("Pong", 1)
