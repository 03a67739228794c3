"""Random reshuffling: each segment once in an epoch, in another order each time."""

import functools

import jax
import numpy as np
from test_memory import clock_at, fill_case, moment, transitions

from forage_papers.memory.reshuffled import ReshuffledReplay


@functools.cache
def drawing(memory, size, length):
    """Draw one batch: the state after it and the places it is from."""

    def draw(state, clock, key):
        now = moment(clock, key)
        state = memory.advance(state, size, length, now)
        batch = memory.sample(state, size, length, now)
        return state, batch.index, batch.experience.reward

    return jax.jit(draw)


def draws(memory, state, clock, size, length, number, seed=0):
    found = []
    for i in range(number):
        state, index, reward = drawing(memory, size, length)(state, clock, jax.random.key(seed * 1000 + i))
        np.testing.assert_array_equal(np.asarray(reward[0]) % 6, np.asarray(index) // 2)  # it reads where it says
        found.extend(np.asarray(index).tolist())
    return state, found


def test_every_segment_is_drawn_once_in_an_epoch():
    memory = ReshuffledReplay(capacity=12)
    state, clock = fill_case(memory, 3)  # a ring of 6 steps of 2 environments, written one and a half times
    state, found = draws(memory, state, clock, 5, 1, 12)  # five epochs in batches of 5, which does not divide 12
    epochs = np.array(found).reshape(5, 12)
    assert all(sorted(epoch) == list(range(12)) for epoch in epochs.tolist())
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 5


def test_segments_that_are_not_complete_are_passed_over():
    memory = ReshuffledReplay(capacity=12)
    state, clock = fill_case(memory, 3)  # steps 3 to 8: segments of 3 begin at 3 to 6, in rows 3, 4, 5 and 0
    _, found = draws(memory, state, clock, 4, 3, 6)
    epochs = np.array(found).reshape(3, 8)
    assert all(sorted(epoch) == [0, 1, 6, 7, 8, 9, 10, 11] for epoch in epochs.tolist())


def test_what_is_written_in_an_epoch_is_drawn_in_it_only_if_its_place_is_still_to_come():
    memory = ReshuffledReplay(capacity=12)
    for seed in range(3):
        state, clock = fill_case(memory, 1)  # three of six steps
        state, before = draws(memory, state, clock, 3, 1, 1, seed)
        order, end = np.asarray(state.order[:12]).tolist(), int(state.end)
        assert before == [place for place in order[:end] if place < 6]
        state = memory.add(state, transitions(np.arange(3) + 3, 2), clock)
        _, after = draws(memory, state, clock_at(12), 3, 1, 1, seed)
        assert after == [*order[end:], *np.asarray(state.order[12:]).tolist()][:3]


def test_a_batch_larger_than_what_there_is_takes_several_turns():
    memory = ReshuffledReplay(capacity=12)
    state, clock = fill_case(memory, 1)
    _, found = draws(memory, state, clock, 24, 1, 1)
    assert np.bincount(found, minlength=12).tolist() == [4] * 6 + [0] * 6
