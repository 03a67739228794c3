"""Following a motion: the clip, the tracking error, starts and ends of episodes, and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import compute

from forage.environments.classic.pendulum import Pendulum
from forage.environments.wrappers.motion import Motion, read_clip, record_clip


def push(observation):
    return jnp.array([1.5])


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return record_clip(Pendulum(), push, tmp_path_factory.mktemp("motion") / "clip.npz", 12, seed=3)


def test_who_does_as_the_clip_tracks_it_to_its_end(clip):
    motion = Motion(Pendulum(), clip, (0, 1), (2,))

    def episode(first, torque):
        def step(state, key):
            state, step = motion.step(state, jnp.full(1, torque), key)
            return state, step

        state, seen = motion.at_frame(first)
        return seen, jax.lax.scan(step, state, jax.random.split(jax.random.key(0), 11))[1]

    same, other = compute(lambda: (episode(jnp.int32(0), 1.5), episode(jnp.int32(4), -2.0)))
    frames = read_clip(clip)["observation"]
    np.testing.assert_allclose(same[0], [*frames[0], 0.0])
    np.testing.assert_allclose(same[1].observation[:, :3], frames[1:], atol=1e-5)
    np.testing.assert_allclose(same[1].observation[:, 3], np.arange(1, 12) / 11, rtol=1e-6)
    np.testing.assert_allclose(same[1].info["tracking"], 1.0, rtol=1e-5)
    assert same[1].truncated.tolist() == [False] * 10 + [True] and not same[1].terminated.any()

    # Another torque: by the formula, against the frame that was to be reached
    np.testing.assert_allclose(other[0], [*frames[4], 4 / 11], rtol=1e-6)
    apart = (other[1].observation[:7, :3] - frames[5:]) ** 2
    right = (0.65 * np.exp(-2 * apart[:, :2].sum(1)) + 0.1 * np.exp(-0.1 * apart[:, 2])) / 0.75
    np.testing.assert_allclose(other[1].info["tracking"][:7], right, rtol=1e-4)


def test_a_lost_motion_is_terminated_and_not_the_end_of_the_clock(clip):
    strict = Motion(Pendulum(), clip, (0, 1), (2,), least=1.01)
    lenient = Motion(Pendulum(), clip, (0, 1), (2,), least=0.0)

    def last(motion):
        return motion.step(motion.at_frame(jnp.int32(10))[0], jnp.full(1, 1.5), jax.random.key(0))[1]

    lost, kept = compute(lambda: (last(strict), last(lenient)))
    assert lost.terminated and not lost.truncated and kept.truncated and not kept.terminated
