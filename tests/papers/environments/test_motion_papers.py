"""Following a motion: the clip, the similarity to it, beginnings and ends of episodes, and refusals."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from small import compute

from forage.core.types import Experience, ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.pendulum import Pendulum
from forage.environments.wrappers.motion import Motion, read_clip, record_clip
from forage.environments.wrappers.time import TimeLimit
from forage.tasks.same import Same
from forage_papers.rewards.tracking import Tracking
from forage_papers.starts.reference import Reference


def push(observation):
    return jnp.array([1.5])


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return record_clip(Pendulum(), push, tmp_path_factory.mktemp("motion") / "clip.npz", 12, seed=3)


def test_tracking_and_task_are_weighed():
    info = {"tracking": jnp.array([[0.5]])}
    zero, no = jnp.zeros((1, 1)), jnp.zeros((1, 1), bool)
    experience = Experience(zero, zero, jnp.array([[-3.0]]), zero, no, no, zero, (), info=info)
    assert Tracking(imitation=0.7, task=0.3).relabel((), experience).reward[0, 0] == pytest.approx(0.35 - 0.9)


def test_what_is_refused(clip, tmp_path):
    with pytest.raises(ForageError, match="There is no clip"):
        Motion(Pendulum(), str(tmp_path / "none.npz"), (0,))
    (tmp_path / "bad.npz").write_bytes(b"PK")
    with pytest.raises(ForageError, match="is not a clip of a motion"):
        Motion(Pendulum(), str(tmp_path / "bad.npz"), (0,))
    with pytest.raises(ForageError, match="cannot track entry 3 of Pendulum's observation; it has entries 0 to 2"):
        Motion(Pendulum(), clip, (3,))
    with pytest.raises(ForageError, match="cannot track no entry at all"):
        Motion(Pendulum(), clip)
    with pytest.raises(ForageError, match="shows 3 numbers in a frame, and CartPole shows 4"):
        Motion(CartPole(), clip, (0,))
    with pytest.raises(ForageError, match=r"The states of .* are not those of TimeLimit"):
        Motion(TimeLimit(Pendulum(), 50), clip, (0,))
    with pytest.raises(ForageError, match="over after 9 steps, before the 40 frames"):
        record_clip(CartPole(), lambda observation: jnp.int32(1), tmp_path / "over.npz", 40, seed=0)
    for environment in (Pendulum(), TimeLimit(Motion(Pendulum(), clip, (0,)), 5)):
        with pytest.raises(ForageError, match="wrap the environment in one, last of all wrappers"):
            check(Reference(), environment, Same())
    space = Pendulum().observation_space
    with pytest.raises(ForageError, match="Pend does not return tracking"):
        check(Tracking(), Spec("Pend", space, Pendulum().action_space))


@pytest.mark.thorough
def test_a_run_follows_a_clip_from_the_command_line(clip, tmp_path, capsys):
    words = ("--wrap", f"motion:{clip}:0,1:2", "--rewards", "tracking", "--starts", "reference", "--steps", "64")
    words += ("--seeds", "1", "--num-envs", "2", "--rollout-length", "8", "--hidden-sizes", "8", "--minibatches", "2")
    assert small.run_command(capsys, "train", "ppo", "Pendulum-v1", *words, "--directory", tmp_path / "run")[0] == 0
    assert small.run_command(capsys, "evaluate", tmp_path / "run", "--episodes", "2")[0] == 0


def test_episodes_begin_in_every_frame_but_the_last(clip):
    motion = Motion(Pendulum(), clip, (0, 1), (2,))
    begin = functools.partial(Reference(probability=0.5).begin, (), motion, index=jnp.int32(0))
    states, seen, _ = compute(lambda: jax.vmap(lambda key: begin(key=key))(jax.random.split(jax.random.key(0), 500)))
    assert set(states.own) == set(range(11)) and abs((states.own == 0).mean() - (0.5 + 0.5 / 11)) < 0.08
    np.testing.assert_allclose(seen[:, :3], read_clip(clip)["observation"][states.own])
    angle = states.inner.variables[:, 0]
    np.testing.assert_allclose(seen[:, 0], np.cos(angle), atol=1e-5)  # the state is that frame's
    np.testing.assert_array_equal(states.inner.time, states.own)
    first = compute(lambda: motion.reset(jax.random.key(5)))[0]
    assert first.own == 0
