"""Trajectory weighting: the weights by hand, and the frequencies of episodes."""

from pathlib import Path

import jax
import numpy as np
import pytest
import small

from forage.config.resolve import resolve
from forage.core.ports import ActContext
from forage.core.types import Clock, ForageError
from forage.data import files
from forage.data.logged import Transitions
from forage_papers.memory.trajectory_weighted import TrajectoryWeighted, advantage_weights

small.keep_compiled()


def test_weights_by_hand():
    # Returns of 0, 1 and 4 where the first observation is 0, 1 and 2: the best line is 2x - 1/3, and the advantages
    # are 1/3, -2/3 and 1/3.
    returns, first = np.array([0.0, 1.0, 4.0]), np.array([[0.0], [1.0], [2.0]])
    np.testing.assert_allclose(advantage_weights(returns, first, "advantage", 0.5), np.exp([0, -2, 0]), rtol=1e-9)
    np.testing.assert_allclose(advantage_weights(returns, first, "return", 0.5), np.exp([-2, -1.5, 0]), rtol=1e-9)
    even = advantage_weights(returns, np.eye(3), "advantage", 0.5)  # each start promises just what it brought
    np.testing.assert_allclose(even, even[0])


def test_episodes_are_drawn_in_proportion_to_length_and_weight(tmp_path):
    setup = resolve("ppo", "CartPole-v1", seeds=1)
    lengths, paid = np.array([2, 6, 4]), np.array([3.0, 0.5, 0.0])  # returns of 6, 3 and 0
    number = np.repeat(np.arange(3), lengths)
    last = np.append(np.diff(number) > 0, True)
    seen = np.zeros((12, 4), np.float32)
    rows = Transitions(seen, np.zeros(12, int), paid[number], seen, last, np.zeros(12, bool))
    files.write_data(Path(tmp_path / "a.npz"), rows, {"spec": setup.config()["spec"]})
    memory = TrajectoryWeighted(str(tmp_path / "a.npz"), temperature=1.0).with_hashes().load(setup.spec)
    count = 20_000
    moment = ActContext(None, (), setup.spec, Clock(np.int32(0), np.float32(1)), jax.random.key(0))
    batch = small.compute(lambda: memory.sample((), count, 1, moment))
    np.testing.assert_array_equal(batch.experience.reward[0], paid[number[batch.index]])
    odds = np.exp(np.array([0.0, -0.5, -1.0]))[number]
    share = np.bincount(batch.index, minlength=12) / count
    np.testing.assert_allclose(share, odds / odds.sum(), atol=5 * 0.5 / np.sqrt(count))


def test_what_is_refused(tmp_path):
    with pytest.raises(ForageError, match="one of advantage, return, not 'luck'"):
        TrajectoryWeighted("a.npz", by="luck")
    with pytest.raises(ForageError, match="temperature of trajectory-weighted is above 0"):
        files.write_data(
            tmp_path / "a.npz", example(), {"spec": resolve("ppo", "CartPole-v1", seeds=1).config()["spec"]}
        )
        resolve("bc", "CartPole-v1", memory=TrajectoryWeighted(str(tmp_path / "a.npz"), temperature=0.0))
    with pytest.raises(ForageError, match="trajectory-weighted learns from all episodes of its file"):
        resolve("bc", "CartPole-v1", memory=TrajectoryWeighted(str(tmp_path / "a.npz"), held_out=0.5)).learner()


def example():
    no = np.zeros(3, bool)
    return Transitions(np.zeros((3, 4)), np.zeros(3, int), np.ones(3), np.zeros((3, 4)), np.array([0, 0, 1], bool), no)
