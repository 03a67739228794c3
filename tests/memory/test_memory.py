"""Replay memories: the ring, its seam, and frequencies of draws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from scipy.stats import chi2
from small import at_once, compute, program_of
from tiers import gate_cases

from forage.core.ports import ActContext
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.memory.prioritised import PrioritisedReplay, Span, assign, cut_nodes, draw_leaves, empty_tree, fill
from forage.memory.uniform import UniformReplay

MEMORIES = [UniformReplay, PrioritisedReplay]
SPEC = Spec("x", spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Discrete(2))


def transitions(time, num_envs):
    """Return transitions that encode their time and environment."""
    time = np.broadcast_to(np.asarray(time)[:, None], (len(time), num_envs))
    no = np.zeros(time.shape, bool)
    env = np.broadcast_to(np.arange(num_envs, dtype=np.int32), time.shape)
    observation = np.stack([time, env], -1).astype(np.float32)
    return Experience(observation, env, time.astype(np.float32), observation + 1, no, no, np.zeros_like(env), ())


def clock_at(steps, total=1000.0):
    return Clock(jnp.int32(steps), jnp.float32(total))


def moment(clock, key):
    """A moment of no agent in particular."""
    return ActContext(None, None, SPEC, clock, key)  # type: ignore[arg-type]


@functools.lru_cache
def beginning(memory, num_envs, rollout_length):
    example = jax.tree.map(lambda x: x[0, 0], transitions(np.arange(1), 1))
    return at_once(lambda: memory.init(example, num_envs, rollout_length, SPEC, None))


def fill_case(memory, rollouts, num_envs=2, rollout_length=3):
    """A memory after some rollouts, and the clock then."""
    state, add = beginning(memory, num_envs, rollout_length), program_of(memory.add)
    for i in range(rollouts):
        rollout = transitions(np.arange(rollout_length) + i * rollout_length, num_envs)
        state = add(state, rollout, clock_at(i * rollout_length * num_envs))
    return state, clock_at(rollouts * rollout_length * num_envs)


@pytest.mark.parametrize("Memory", MEMORIES)
@pytest.mark.parametrize(
    ("rollouts", "length", "first", "last"),
    gate_cases(
        [
            (1, 1, 0, 2),  # not yet full: nothing is drawn that was never written
            (1, 3, 0, 0),  # just one segment fits
            (2, 1, 0, 5),
            (2, 4, 0, 2),
            (3, 1, 3, 8),  # the first rollout is gone
            (5, 3, 9, 12),  # the seam is in the middle of the ring
            (6, 6, 12, 12),  # segments as long as the ring
        ],
        [(1, 3, 0, 0), (3, 1, 3, 8), (5, 3, 9, 12), (6, 6, 12, 12)],
    ),
)
def test_segments_are_consecutive_and_every_valid_start_is_drawn(Memory, rollouts, length, first, last):
    memory = Memory(capacity=13)  # rounded down to two rollouts of six
    state, clock = fill_case(memory, rollouts)
    batch = at_once(lambda: memory.sample(state, 400, length, moment(clock, jax.random.key(0))))
    time = np.asarray(batch.experience.reward)
    env = np.asarray(batch.experience.action)
    assert time.shape == (length, 400)
    np.testing.assert_array_equal(time, time[0] + np.arange(length)[:, None])
    np.testing.assert_array_equal(env, np.broadcast_to(env[0], env.shape))
    drawn = set(zip(time[0].tolist(), env[0].tolist(), strict=True))
    assert drawn == {(t, e) for t in range(first, last + 1) for e in range(2)}
    np.testing.assert_array_equal(batch.experience.observation[..., 0], time)
    np.testing.assert_array_equal(batch.experience.next_observation[..., 0], time + 1)
    np.testing.assert_array_equal(np.asarray(batch.index), time[0] % 6 * 2 + env[0])


@pytest.mark.parametrize("Memory", MEMORIES)
@pytest.mark.parametrize("rollouts", [2, 3])  # the newest row at the end of the ring, and in its middle
def test_episodes_that_were_lost_are_truncated_at_the_newest_step(Memory, rollouts):
    memory = Memory(capacity=13)
    state, clock = fill_case(memory, rollouts)
    ring = state if Memory is UniformReplay else state.experience
    terminated = ring.terminated.at[(rollouts * 3 - 1) % 6, 1].set(True)
    state = (
        ring._replace(terminated=terminated)
        if Memory is UniformReplay
        else state._replace(experience=ring._replace(terminated=terminated))
    )
    state = memory.truncate(state, clock)
    ring = state if Memory is UniformReplay else state.experience
    expected = np.zeros((6, 2), bool)
    expected[(rollouts * 3 - 1) % 6, 0] = True  # not where the episode had come to its end
    np.testing.assert_array_equal(ring.truncated, expected)


def test_a_run_is_never_more_than_over():
    assert float(clock_at(1500).fraction) == 1 and float(clock_at(500).fraction) == 0.5


def chi_square_is_plausible(counts, expected):
    """Whether counts could come from these expectations: all but one in a million would."""
    assert counts[expected == 0].sum() == 0
    counts, expected = counts[expected > 0], expected[expected > 0]
    return ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, len(counts) - 1)


@pytest.mark.thorough
def test_uniform_draws_all_starts_equally_often():
    memory = UniformReplay(capacity=60)
    state, clock = fill_case(memory, 17)
    batch = at_once(lambda: memory.sample(state, 52_000, 5, moment(clock, jax.random.key(1))))
    counts = np.bincount(np.asarray(batch.index), minlength=60)
    newest = (17 * 3 - 1) % 30
    barred = [(newest - i) % 30 for i in range(4)]  # a segment of five does not fit any more
    expected = np.where(np.isin(np.arange(60) // 2, barred), 0.0, 52_000 / 52)
    assert chi_square_is_plausible(counts, expected)


@pytest.mark.parametrize("length", [1, 4])
def test_prioritised_draws_in_proportion_and_weighs_against_it(length):
    memory = PrioritisedReplay(capacity=60, priority_exponent=0.5, importance_exponent=0.4)
    state, clock = fill_case(memory, 17)
    errors = np.arange(60, dtype=jnp.float32)
    everything = Batch(None, None, np.arange(60))
    state = memory.report(state, everything, errors)
    # Strata of one draw each would make the test easier than it looks, so draws are made in many small batches.
    sample = jax.jit(jax.vmap(lambda key: memory.sample(state, 4, length, moment(clock, key))))
    batch = sample(jax.random.split(jax.random.key(2), 10_000))
    priority = (np.arange(60) + 1e-6) ** 0.5
    newest = (17 * 3 - 1) % 30
    barred = [(newest - i) % 30 for i in range(length - 1)]
    priority[np.isin(np.arange(60) // 2, barred)] = 0.0
    counts = np.bincount(np.asarray(batch.index).reshape(-1), minlength=60)
    expected = 40_000 * priority / priority.sum()
    keep = expected > 1  # the one with error zero is drawn next to never
    assert counts[~keep].sum() < 50
    assert chi_square_is_plausible(counts[keep], expected[keep])
    assert counts[np.isin(np.arange(60) // 2, barred)].sum() == 0

    beta = 0.4 + 0.6 * 102 / 1000
    chosen = priority[np.asarray(batch.index)]
    weight = (60 * chosen / priority.sum()) ** -beta
    weight = weight / weight.max(-1, keepdims=True)
    np.testing.assert_allclose(batch.weight, weight, rtol=1e-4)


def test_new_transitions_get_the_highest_priority_so_far():
    memory = PrioritisedReplay(capacity=12, priority_exponent=1.0)
    state, clock = fill_case(memory, 2)
    np.testing.assert_allclose(state.tree[-1][:12], 1.0)
    state = compute(memory.report, state, Batch(None, None, np.array([3, 7])), np.array([-5.0, 2.0]))
    state = compute(memory.report, state, Batch(None, None, np.array([3])), np.array([0.5]))
    state = compute(memory.add, state, transitions(np.arange(6, 9), 2), clock)
    expected = [5, 5, 5, 5, 5, 5, 1, 2, 1, 1, 1, 1]
    np.testing.assert_allclose(state.tree[-1][:12], expected, rtol=1e-5)


def test_of_copies_of_one_segment_the_largest_error_counts():
    """The result does not depend on a device's order of writes; the earlier value does not count."""
    tree = compute(assign, empty_tree(100), np.arange(100), np.full(100, 9.0, np.float32))
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        leaf, value = np.array([7, 40, 7, 7])[order], np.array([2.0, 5.0, 3.0, 1.0], np.float32)[order]
        leaves = compute(assign, tree, leaf, value)[-1]
        assert (leaves[7], leaves[40], leaves[8]) == (3, 5, 9)


def test_sums_stay_sums_through_many_updates():
    leaves, rng = 3000, np.random.default_rng(0)
    reference, tree = np.zeros(leaves), empty_tree(leaves)
    assert len(tree) == 3
    set_some, set_span = jax.jit(assign), jax.jit(fill, static_argnums=2)
    for _ in range(60):
        index = rng.integers(leaves, size=40)
        values = rng.uniform(size=leaves)
        tree = set_some(tree, jnp.asarray(index), jnp.asarray(values[index], jnp.float32))  # repeats agree in value
        reference[index] = values[index]
        count = int(rng.choice([1, 32, 75]))
        first = int(rng.choice([0, leaves - count, rng.integers(leaves - count)]))
        tree = set_span(tree, jnp.int32(first), count, jnp.float32(0.5))
        reference[first : first + count] = 0.5
    for level in reversed(tree):
        padded = np.zeros(level.size)
        padded[: len(reference)] = reference
        np.testing.assert_allclose(level, padded, rtol=1e-5)
        reference = padded.reshape(-1, 32).sum(-1)


@pytest.mark.thorough
def test_leaves_left_out_are_left_out_at_every_level():
    leaves, rng = 3000, np.random.default_rng(1)
    values = rng.uniform(size=leaves).astype(np.float32)
    tree = assign(empty_tree(leaves), np.arange(leaves), np.asarray(values))

    @jax.jit
    def run(first, end, key):
        span = Span(first, end)
        return draw_leaves(tree, span, 200, key), [cut.keep_value(jnp.arange(x.size), x) for cut, x in zip(
            cut_nodes(tree, span), tree, strict=True)]  # fmt: skip

    spans = [(0, 1), (31, 33), (100, 101), (0, 2999), (1, 0), (2900, 0), (2900, 64), (1023, 1025), (2000, 1900), (5, 4)]
    for i, (first, end) in enumerate(spans):
        rest = values.copy()
        rest[(np.arange(leaves) >= first) & (np.arange(leaves) < end)] = 0
        if end <= first:
            rest[first:] = rest[:end] = 0
        (leaf, value), levels = run(jnp.int32(first), jnp.int32(end), jax.random.key(i))
        assert (rest[np.asarray(leaf)] > 0).all()
        np.testing.assert_array_equal(value, rest[np.asarray(leaf)])
        for level in reversed(levels):
            padded = np.zeros(level.size)
            padded[: len(rest)] = rest
            np.testing.assert_allclose(level, padded, rtol=1e-4)
            rest = padded.reshape(-1, 32).sum(-1)


@pytest.mark.thorough
def test_draws_are_fine_enough_for_many_leaves():
    """Leaf probabilities would be off by several per cent if one float32 had to find one leaf among a million."""
    leaves = 2**20
    tree = tuple(np.full(32 ** (i + 1), 32.0 ** (3 - i)) for i in range(4))
    leaf, _ = jax.jit(draw_leaves, static_argnums=2)(tree, None, 400_000, jax.random.key(3))
    assert chi_square_is_plausible(np.bincount(np.asarray(leaf) % 1024, minlength=1024), np.full(1024, 400_000 / 1024))
    assert np.abs(np.bincount(np.asarray(leaf) // 1024, minlength=1024) - 400_000 / 1024).max() <= 2  # stratified
    assert int(leaf.max()) < leaves


@pytest.mark.parametrize("Memory", MEMORIES)
def test_adding_is_in_place_inside_a_compiled_loop(Memory):
    """As in the training loop: all seeds at once, one clock, updates only after a while. No copy of the memory."""
    capacity, seeds = 50_000, 3
    memory = Memory(capacity=capacity)
    example = jax.tree.map(lambda x: x[0, 0], transitions(np.arange(1), 1))
    state = jax.vmap(lambda _: memory.init(example, 1, 1, SPEC, None))(jnp.arange(seeds))

    def turn(i, carry):
        clock = clock_at(i)

        def one(state, total, key):
            state = memory.add(state, jax.tree.map(lambda x: x[None, None] + i.astype(x.dtype), example), clock)

            def learn(_, carry):
                state, total = carry
                now = moment(clock._replace(steps=clock.steps + 1), jax.random.fold_in(key, i))
                batch = memory.sample(state, 8, 2, now)
                consecutive = batch.experience.reward[1] == batch.experience.reward[0] + 1
                return memory.report(state, batch, batch.experience.reward[0]), total + consecutive.sum()

            return jax.lax.fori_loop(0, jnp.where(i >= 10, 1, 0), learn, (state, total))

        return jax.vmap(one)(*carry, jax.random.split(jax.random.key(0), seeds))

    run = jax.jit(lambda state, n: jax.lax.fori_loop(0, n, turn, (state, jnp.zeros(seeds, int))), donate_argnums=0)
    compiled = run.lower(state, 60).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < capacity * seeds  # a byte each: no leaf was copied
    _, total = compiled(state, 60)
    np.testing.assert_array_equal(total, 50 * 8)


@pytest.mark.parametrize("Memory", MEMORIES)
def test_what_does_not_fit_is_refused(Memory):
    with pytest.raises(ForageError, match="at least 6"):
        fill_case(Memory(capacity=5), 0)
    memory = Memory(capacity=12)
    state, clock = fill_case(memory, 2)
    with pytest.raises(ForageError, match="segment of 7"):
        memory.sample(state, 1, 7, moment(clock, jax.random.key(0)))
