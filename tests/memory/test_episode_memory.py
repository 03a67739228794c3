"""Replay of whole histories: drawn segments and their frequencies, against all possible ones, counted in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from small import compute

from forage.core.ports import ActContext
from forage.core.types import Clock, Experience, Spec
from forage.memory.episodes import Episodes

SPEC = Spec("Counter", spaces.Box(-1.0, 1.0, (), np.float32), spaces.Discrete(2))
ENDS = {0: (1, 6, 7, 12), 1: (4,)}  # by environment: the steps after which an episode is over
STEPS, CAPACITY, LENGTH = 14, 10, 3  # per environment; rollouts are of two steps


def live():
    """Return all transitions: observations count steps, and every second end is a time limit's."""
    time = np.arange(STEPS)[:, None] + np.zeros((1, 2), int)
    ended = np.array([[t in ENDS[env] for env in (0, 1)] for t in range(STEPS)])
    numbers = jnp.asarray(time, jnp.float32)
    return Experience(
        numbers, jnp.asarray(time % 2), numbers, numbers + 1, jnp.asarray(ended & (time % 2 == 0)),
        jnp.asarray(ended & (time % 2 == 1)), jnp.zeros((STEPS, 2), jnp.int32), (),
    )  # fmt: skip


def draw(size):
    memory, all_of_it = Episodes(capacity=2 * CAPACITY), live()

    def make():
        state = memory.init(jax.tree.map(lambda x: x[0, 0], all_of_it), 2, 2, SPEC, None)
        for t in range(0, STEPS, 2):
            clock = Clock(jnp.int32(2 * t), jnp.float32(2 * STEPS))
            state = memory.add(state, jax.tree.map(lambda x, t=t: x[t : t + 2], all_of_it), clock)
        moment = ActContext(None, None, SPEC, Clock(jnp.int32(2 * STEPS), jnp.float32(2 * STEPS)), jax.random.key(0))
        return memory.sample(state, size, LENGTH, moment), state.age, state.running

    return compute(make)


def possible():
    """The pieces that can be drawn, by (environment, begin)."""
    pieces = set()
    for env in (0, 1):
        start = 0
        for t in range(STEPS):
            begin = start + (t - start) // LENGTH * LENGTH
            over = any(begin <= end for end in ENDS[env] if end >= t) or begin + LENGTH <= STEPS
            if begin >= STEPS - CAPACITY and over:
                pieces.add((env, begin))
            start = t + 1 if t in ENDS[env] else start
    return pieces


def test_segments_begin_with_episodes_or_pieces_and_are_drawn_alike():
    size = 4000
    batch, _, running = draw(size)
    begins = batch.experience.observation[0].astype(int)
    found = list(zip((batch.index % 2).tolist(), begins.tolist(), strict=True))
    right = possible()
    assert set(found) == right
    # The episode from step 2 to 6 lost its beginning; the running one of environment 0 has a single step.
    assert right == {(0, 7), (0, 8), (0, 11), (1, 5), (1, 8), (1, 11), (0, 5)}
    for piece in right:
        assert abs(found.count(piece) / size - 1 / len(right)) < 0.03
    assert running.tolist() == [1, 9] and (batch.weight == 1).all()


def test_segments_are_what_was_lived_through_up_to_their_end():
    batch, _, _ = draw(64)
    experience = batch.experience
    over = np.cumsum(experience.ended, axis=0) - experience.ended
    begins = experience.observation[0]
    expected = begins + np.arange(LENGTH)[:, None]
    assert (np.where(over == 0, experience.observation - expected, 0) == 0).all()
    for env, begin, ended in zip(batch.index % 2, begins, experience.ended.T, strict=True):
        first = next((end - begin for end in ENDS[int(env)] if end >= begin), LENGTH)
        assert not ended[: int(min(first, LENGTH))].any() and (first >= LENGTH or ended[int(first)])


def test_nothing_weighs_anything_before_there_is_a_piece():
    memory, all_of_it = Episodes(capacity=2 * CAPACITY), live()

    def make():
        state = memory.init(jax.tree.map(lambda x: x[0, 0], all_of_it), 2, 1, SPEC, None)
        first = jax.tree.map(lambda x: x[:1], all_of_it)
        state = memory.add(state, first, Clock(jnp.int32(0), jnp.float32(9)))
        moment = ActContext(None, None, SPEC, Clock(jnp.int32(2), jnp.float32(9)), jax.random.key(0))
        return memory.sample(state, 4, LENGTH, moment).weight

    assert compute(make).tolist() == [0, 0, 0, 0]
