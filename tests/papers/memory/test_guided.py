"""Guided augmentation: kept and sampled copies, resumed runs, and refusals."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest
import small

from forage.config.part_data import from_config
from forage.config.registry import build
from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage.data import files
from forage.data.logged import Transitions
from forage_papers.memory.guided import GuidedAugmentation

small.keep_compiled()


def shift(segment, draw):
    """Move a segment by a whole number."""
    by = float(draw.integers(-3, 4))
    return dataclasses.replace(
        segment, observation=segment.observation + by, next_observation=segment.next_observation + by
    )


def upward(segment):
    """Say whether a segment ends above 4."""
    return segment.next_observation[-1, 0] > 4


def refuse_all(segment):
    return False


def nothing(segment, draw):
    return None


def walk(folder: Path) -> str:
    """Write two episodes that step from 0 to 5, the first until it is over and the second until time is."""
    setup = resolve("ppo", "CartPole-v1", seeds=1)
    before = np.tile(np.arange(5.0)[:, None], (2, 4))
    over = np.arange(10) == 4
    rows = Transitions(before, np.arange(10) % 2, np.arange(10.0), before + 1, over, np.arange(10) == 9)
    files.write_data(folder / "walk.npz", rows, {"spec": setup.config()["spec"]})
    return str(folder / "walk.npz")


def test_copies_that_are_progress_stand_beside_the_data(tmp_path):
    spec = resolve("ppo", "CartPole-v1", seeds=1).spec
    memory = GuidedAugmentation(walk(tmp_path), augmentation=shift, progress=upward, copies=30, length=3).with_hashes()
    data = jax.device_get(memory.load(spec).data)
    np.testing.assert_array_equal(data.reward[:10], np.arange(10))  # as it was
    added = jax.tree.map(lambda x: x[10:], data)
    assert 300 <= len(added.reward) < 303
    over = added.terminated | added.truncated
    assert not (added.terminated & added.truncated).any()
    begins = np.append(0, np.flatnonzero(over)[:-1] + 1)
    lengths = np.diff(np.append(begins, len(over)))
    first, row = added.reward[begins].astype(int), added.reward.astype(int)
    # Segments of three from anywhere, and shorter ones at an episode's end; one shift each.
    np.testing.assert_array_equal(lengths, np.minimum(3, 5 - first % 5))
    by = added.observation[:, 0] - row % 5
    number = np.repeat(np.arange(len(begins)), lengths)
    np.testing.assert_array_equal(by, by[begins][number])
    assert set(by.tolist()) == {0.0, 1.0, 2.0, 3.0}  # no segment that is moved further down ends above 4
    np.testing.assert_array_equal(added.next_observation, added.observation + 1)
    assert (added.next_observation[over, 0] > 4).all()
    np.testing.assert_array_equal(added.terminated, row == 4)  # as the data say; other segments are cut


def test_a_change_in_place_leaves_the_data_as_they_were(tmp_path):
    def double(segment, draw):
        segment.reward[:] *= 2
        return segment

    spec = resolve("ppo", "CartPole-v1", seeds=1).spec
    always = lambda segment: True  # noqa: E731
    memory = GuidedAugmentation(walk(tmp_path), augmentation=double, progress=always, copies=0.01, length=5)
    reward = np.asarray(memory.load(spec).data.reward)
    np.testing.assert_array_equal(reward[:10], np.arange(10))
    assert len(reward) > 10  # one segment at least
    np.testing.assert_array_equal(reward[10:] / 2, np.arange(reward[10] / 2, reward[-1] / 2 + 1))


def test_a_run_knows_its_functions_again(tmp_path):
    named = {"augmentation": f"{__file__}:shift", "progress": f"{__file__}:upward"}
    memory = build("memory", "guided", named | {"file": walk(tmp_path)})
    config = resolve("bc", "CartPole-v1", memory=memory).config()["memory"]
    assert config["progress"] == f"{Path(__file__).resolve()}:upward"
    assert from_config(config).progress.__name__ == "upward"


def test_what_is_refused(tmp_path):
    spec, file = resolve("ppo", "CartPole-v1", seeds=1).spec, walk(tmp_path)
    with pytest.raises(ForageError, match="needs a function progress; name it with"):
        GuidedAugmentation(file, augmentation=shift)
    with pytest.raises(ForageError, match="refuse_all accepted none of 1000 augmented segments"):
        GuidedAugmentation(file, augmentation=shift, progress=refuse_all).load(spec)
    with pytest.raises(ForageError, match="nothing returned NoneType for a segment of"):
        GuidedAugmentation(file, augmentation=nothing, progress=upward).load(spec)
    with pytest.raises(ForageError, match=r"returned an array of shape .*; it returns whether a segment is progress"):
        GuidedAugmentation(file, augmentation=shift, progress=lambda segment: segment.reward[:0] > 0).load(spec)

    def backward(segment, draw):
        return dataclasses.replace(segment, action=segment.action - 5)

    with pytest.raises(ForageError, match="outside the bounds of CartPole-v1"):
        GuidedAugmentation(file, augmentation=backward, progress=upward).load(spec)
