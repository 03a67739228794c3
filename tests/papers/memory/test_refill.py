"""Batches that are refilled with groups of medium success, made by hand: two groups of two, one turn."""

import pytest
from test_pool import live
from test_text_replay import rollout_of

from forage.core.types import ForageError
from forage_papers.memory.pool import RefilledPool


@pytest.mark.thorough
def test_groups_beyond_the_band_are_dropped_until_the_batch_is_full():
    memory = RefilledPool(group_size=2, most=2)
    told = [
        rollout_of([1, 2], [0, 1, 0, 0], 3),  # the first group is kept
        rollout_of([3, 4], [1, 1, 1, 0], 4),  # and the second
        rollout_of([5, 6], [1, 1, 0, 1], 5),
        rollout_of([7, 8], [0, 0, 0, 0], 6),  # two rollouts are the most: half a batch
    ]
    ready, batches = zip(*live(memory, told), strict=True)
    assert [bool(one) for one in ready] == [False, True, False, True]
    full, half = batches[1], batches[3]
    assert full.experience.action[0, :, 0].tolist() == [3, 3, 4, 4] and full.weight.tolist() == [1] * 4
    assert full.replay.group.tolist() == [0, 0, 2, 2]
    assert half.weight.tolist() == [1, 1, 0, 0] and half.experience.action[0, :2, 0].tolist() == [5, 5]
    with pytest.raises(ForageError, match="low"):
        RefilledPool(low=0.9)
