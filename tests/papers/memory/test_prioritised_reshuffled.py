"""Prioritised replay without luck: epochs at equal priorities, counts near their due ones, and waiting places."""

import functools

import jax
import numpy as np
import pytest
from test_memory import clock_at, fill_case, moment, transitions

from forage_papers.memory.prioritised_reshuffled import PrioritisedReshuffledReplay

MEMORY = PrioritisedReshuffledReplay(capacity=12, priority_exponent=1.0, importance_exponent=1.0)


@functools.cache
def drawing(size, length):
    """Draw one batch: the state after it, the places it is from, and their weights."""

    def draw(state, clock, key):
        now = moment(clock, key)
        state = MEMORY.advance(state, size, length, now)
        batch = MEMORY.sample(state, size, length, now)
        return state, batch, batch.experience.reward

    return jax.jit(draw)


def draws(state, clock, size, length, number, errors=None):
    """Return places of `number` batches; `errors` by place are reported after each."""
    found = []
    for i in range(number):
        state, batch, reward = drawing(size, length)(state, clock, jax.random.key(i))
        np.testing.assert_array_equal(np.asarray(reward[0]) % 6, np.asarray(batch.index) // 2)  # it reads where it says
        if errors is not None:
            state = MEMORY.report(state, batch, errors[batch.index])
        found.append(np.asarray(batch.index).tolist())
    return state, found, batch


def test_alike_they_are_drawn_once_in_an_epoch():
    state, clock = fill_case(MEMORY, 3)  # a ring of 6 steps of 2 environments
    state, found, batch = draws(state, clock, 4, 1, 9)
    epochs = np.array(found).reshape(3, 12)
    assert all(sorted(epoch) == list(range(12)) for epoch in epochs.tolist())
    assert len({tuple(epoch) for epoch in epochs.tolist()}) == 3
    np.testing.assert_allclose(batch.weight, 1)


@pytest.mark.thorough
def test_counts_stay_near_what_is_due():
    """Half of the places are three times as surprising: after 60 batches each was drawn 30 and 10 times, nearly."""
    state, clock = fill_case(MEMORY, 3)
    errors = np.where(np.arange(12) % 2, 3.0, 1.0).astype(np.float32)
    state, _, _ = draws(state, clock, 12, 1, 1, errors)  # all are known now
    before = np.asarray(state.actual)
    state, found, batch = draws(state, clock, 4, 1, 60, errors)
    number = np.asarray(state.actual) - before
    np.testing.assert_allclose(number.sum(), 240)
    np.testing.assert_allclose(np.asarray(state.expected).sum(), np.asarray(state.actual).sum(), rtol=1e-5)
    assert np.abs(number - np.where(np.arange(12) % 2, 30, 10)).max() <= 2
    assert all(len(set(places)) == 4 for places in found)
    odd = np.asarray(batch.index) % 2 == 1
    np.testing.assert_allclose(batch.weight, np.where(odd & ~odd.all(), 1 / 3, 1), rtol=1e-4)


def test_what_is_not_complete_is_left_out_and_a_large_batch_repeats():
    state, clock = fill_case(MEMORY, 3)  # steps 3 to 8: segments of 3 begin at 3 to 6, in rows 3, 4, 5 and 0
    _, found, _ = draws(state, clock, 12, 3, 2)
    for places in found:
        assert set(places) == {0, 1, 6, 7, 8, 9, 10, 11}
        assert sorted(np.unique(places, return_counts=True)[1]) == [1] * 4 + [2] * 4


def test_what_is_new_has_been_drawn_by_nobody():
    state, clock = fill_case(MEMORY, 2)  # all six steps
    state, found, _ = draws(state, clock, 3, 1, 1)
    state = MEMORY.add(state, transitions(np.arange(3) + 6, 2), clock)  # over the first three
    kept = [place for place in found[0] if place >= 6]
    assert not np.asarray(state.actual[:6]).any() and not np.asarray(state.expected[:6]).any()
    assert np.flatnonzero(np.asarray(state.actual)).tolist() == sorted(kept)
    np.testing.assert_allclose(np.asarray(state.expected).sum(), len(kept), rtol=1e-5)
    state, after, _ = draws(state, clock_at(18), 6, 1, 1)
    assert not set(after[0]) & set(kept)
