"""Counts: visits by hand, hashes that tell states apart, and tables that agree."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from reward_helpers import CLOCK, KEY, experience_of, learn, relabel, spec_of
from tiers import first

from forage.core.spaces import Tokens
from forage.core.types import GONE, ForageError
from forage_papers.rewards.bonuses.counts import Counts, SimHash, primes_below

BOX, NUMBER = gymnasium.spaces.Box, gymnasium.spaces.Discrete


def observe(states, actions=None, space=None, **options):
    """The state of a part that has seen one rollout, and the rollout."""
    states = np.asarray(states)
    rewards = Counts(weight=2.0, **options)
    rollout = experience_of(np.zeros(states.shape[:2]), next_observation=states)
    if actions is not None:
        rollout = rollout._replace(action=jnp.asarray(actions))
    spec = spec_of(space)
    rewards.check(spec)
    state = small.at_once(lambda: rewards.init(KEY, spec, states.shape[1]))
    return rewards, *learn(rewards, state, rollout, KEY)


def test_a_visit_is_paid_by_how_many_there_were():
    rewards, state, rollout, metrics = observe([[3, 0], [3, 1], [3, 0]], space=NUMBER(4))
    np.testing.assert_array_equal(state.own.visits, [[2, 1, 0, 3]])
    expected = 2 / np.sqrt([[3, 2], [3, 1], [3, 2]])
    np.testing.assert_allclose(relabel(rewards, state, rollout).rewards["bonus"], expected, rtol=1e-6)
    np.testing.assert_allclose(metrics["bonus"], expected.mean(), rtol=1e-6)
    assert metrics["new_states"] == 1.0
    # What is replayed is paid as it is counted now; what was never seen, as if it had been once.
    state, _, metrics = learn(rewards, state, experience_of([[0, 0]], next_observation=np.array([[3, 2]])), KEY)
    np.testing.assert_allclose(relabel(rewards, state, rollout).rewards["bonus"][0], 2 / np.sqrt([4, 2]), rtol=1e-6)
    assert metrics["new_states"] == 0.5
    unseen = relabel(rewards, small.at_once(lambda: rewards.init(KEY, spec_of(NUMBER(4)), 2)), rollout)
    np.testing.assert_allclose(unseen.rewards["bonus"], 2.0)


def test_a_pseudocount_is_added():
    rewards, state, rollout, _ = observe([[0], [0]], space=NUMBER(2), pseudocount=0.25)
    np.testing.assert_allclose(relabel(rewards, state, rollout).rewards["bonus"], 2 / 1.5, rtol=1e-6)


def moves(before, after):
    return experience_of(np.zeros(after.shape), next_observation=after)._replace(observation=before)


def test_once_an_episode():
    """Two environments: one alternates and ends, the other returns to its episode's beginning."""
    before = np.array([[0, 2], [1, 3], [0, 2], [1, 1], [0, 4]])
    after = np.array([[1, 3], [0, 2], [1, 1], [2, 4], [3, 2]])
    ended = np.array([[0, 0], [0, 0], [0, 0], [1, 0], [0, 0]], bool)
    rewards, spec = Counts(weight=1.0, episode_size=8), spec_of(NUMBER(5))
    rollout = moves(before, after)._replace(truncated=ended)
    state, rollout, _ = learn(rewards, small.at_once(lambda: rewards.init(KEY, spec, 2)), rollout, KEY)
    visits = np.bincount(np.asarray(after).ravel(), minlength=5)
    np.testing.assert_array_equal(state.own.visits[0], visits)
    counts = visits[np.asarray(after)]
    first = np.array([[1, 1], [0, 0], [0, 1], [1, 1], [1, 0]])
    np.testing.assert_allclose(relabel(rewards, state, rollout).rewards["bonus"], first / np.sqrt(counts), rtol=1e-6)
    # The episode goes on in the next rollout: 2 and 4 are known to the second environment, 3 to the first.
    rollout = moves(np.array([[3, 2]]), np.array([[3, 0]]))
    state, rollout, _ = learn(rewards, state, rollout, KEY)
    assert (relabel(rewards, state, rollout).rewards["bonus"] > 0).tolist() == [[False, True]]


def test_an_episode_of_many_states_forgets_the_oldest():
    rewards = Counts(weight=1.0, episode_size=2)
    path = np.array([0, 1, 2, 1, 0])[:, None]
    rollout = moves(path[:-1], path[1:])
    state, rollout, _ = learn(rewards, small.at_once(lambda: rewards.init(KEY, spec_of(NUMBER(3)), 1)), rollout, KEY)
    assert (relabel(rewards, state, rollout).rewards["bonus"][:, 0] > 0).tolist() == [True, True, False, True]


def test_what_was_done_where():
    rewards, state, rollout, _ = observe(
        [[2, 2], [2, 0], [2, 2]], [[0, 1], [1, 1], [1, 1]], NUMBER(3), of="state-action"
    )
    np.testing.assert_array_equal(state.own.visits, [[0, 1, 0, 0, 1, 4]])  # (state, action) = (0, 1), (2, 0), (2, 1)
    np.testing.assert_allclose(relabel(rewards, state, rollout).rewards["bonus"], [[2, 1], [1, 2], [1, 1]], rtol=1e-6)


@pytest.mark.parametrize(
    ("space", "states", "cells"),
    [
        (gymnasium.spaces.MultiDiscrete([2, 3, 4]), [[[1, 2, 3], [0, 1, 0]]], [23, 4]),
        (gymnasium.spaces.MultiBinary(3), [[[1, 0, 1], [0, 1, 0]]], [5, 2]),
        (BOX(-1, 2, (2,), np.int8), [[[-1, -1], [2, 0]]], [0, 13]),
        (NUMBER(5, start=10), [[14, 10]], [4, 0]),
    ],
)
def test_small_spaces_of_whole_numbers_have_a_cell_for_each_state(space, states, cells):
    _, state, _, _ = observe(states, space=space)
    assert np.flatnonzero(state.own.visits[0]).tolist() == sorted(cells)


def test_hashes_are_signs_of_projections():
    space = BOX(np.array([-4.0, -np.inf], np.float32), np.array([2.0, np.inf], np.float32), (2,), np.float32)
    code = SimHash(KEY, space, 6, 100_000, 3)
    assert code.number == (1, 64)  # as many cells as codes, so one table
    x = np.array([[1.0, -2.0], [-3.0, 0.5], [2.0, -4.0]], np.float32)
    projection = np.asarray(jax.random.normal(KEY, (2, 6)))
    bits = (x / [4, 1]) @ projection > 0
    found = np.array([code(np.asarray(row))[0] for row in x])
    np.testing.assert_array_equal(found, bits @ 2 ** np.arange(6))
    assert found[0] == found[2] != found[1]  # along a ray the signs are the same


def test_long_codes_are_counted_modulo_primes():
    assert primes_below(100, 3) == [97, 89, 83]
    code = SimHash(KEY, BOX(-1, 1, (5,), np.float32), 40, 100, 3)
    assert code.number == (3, 97)
    row = np.random.default_rng(0).normal(size=5).astype(np.float32)
    bits = row @ np.asarray(jax.random.normal(KEY, (5, 40))) > 0
    number = sum(1 << i for i, bit in enumerate(bits) if bit)  # more than 32 bits can hold
    assert code(np.asarray(row)).tolist() == [number % prime for prime in (97, 89, 83)]


def test_the_least_of_the_tables_is_right_where_states_are_few_and_never_too_little():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(40, 6))
    chosen = rng.integers(0, 40, (50, 4))
    rewards, state, rollout, _ = observe(
        jnp.asarray(points[chosen], jnp.float32), space=BOX(-9, 9, (6,), np.float32), buckets=50
    )
    true = np.bincount(chosen.reshape(-1), minlength=40)[chosen]
    counted = (2 / np.asarray(relabel(rewards, state, rollout).rewards["bonus"])) ** 2
    assert (counted > true - 0.01).all() and (np.abs(counted - true) < 0.01).mean() > 0.5
    exact, state, rollout, _ = observe(np.asarray(points[chosen], jnp.float32), space=BOX(-9, 9, (6,), np.float32))
    np.testing.assert_allclose((2 / relabel(exact, state, rollout).rewards["bonus"]) ** 2, true, rtol=1e-4)


SPACES = {
    "image": (BOX(0, 255, (7, 7, 3), np.uint8), lambda: np.zeros((3, 2, 7, 7, 3), jnp.uint8)),
    "tokens": (Tokens(16, 500), lambda: np.ones((3, 2, 16), jnp.int32)),
    "dictionary": (
        gymnasium.spaces.Dict(image=BOX(0, 10, (7, 7, 3), np.uint8), direction=NUMBER(4)),
        lambda: {"image": jnp.ones((3, 2, 7, 7, 3), jnp.uint8), "direction": jnp.array([[0, 1], [0, 1], [0, 0]])},
    ),
    "masked": (
        gymnasium.spaces.Dict(observation=NUMBER(3), action_mask=gymnasium.spaces.MultiBinary(2)),
        lambda: {"observation": jnp.array([[0, 1], [0, 1], [0, 0]]), "action_mask": jnp.ones((3, 2, 2), jnp.int8)},
    ),
}


@pytest.mark.parametrize("kind", first(1, SPACES))
def test_every_kind_of_observation_is_counted(kind):
    space, make = SPACES[kind]
    rewards = Counts(weight=1.0)
    rewards.check(spec_of(space))
    rollout = experience_of(np.zeros((3, 2)), next_observation=make())
    state, rollout, _ = learn(rewards, small.at_once(lambda: rewards.init(KEY, spec_of(space), 2)), rollout, KEY)
    numbers = [[4, 2], [4, 2], [4, 4]] if kind in ("dictionary", "masked") else np.full((3, 2), 6)
    np.testing.assert_allclose(relabel(rewards, state, rollout).rewards["bonus"], 1 / np.sqrt(numbers), rtol=1e-6)


@pytest.mark.thorough
def test_agents_that_have_left_are_not_counted():
    rewards = Counts()
    rollout = experience_of([[0, 0]], next_observation=np.array([[1, 1]]))
    rollout = rollout._replace(source=np.array([[0, GONE]]))
    state = small.at_once(lambda: rewards.init(KEY, spec_of(NUMBER(2)), 2))
    assert rewards.learn(state, rollout, CLOCK, KEY)[0].own.visits.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("make", "space", "words"),
    [
        (lambda: Counts(of="action"), None, "one of state, state-action, not 'action'"),
        (lambda: Counts(bits=0), None, "bits of Counts is from 1 to 512, not 0"),
        (lambda: Counts(buckets=1), None, "buckets of Counts is from 2 to"),
        (lambda: Counts(), gymnasium.spaces.Tuple([NUMBER(2)]), "Counts cannot read"),
        (lambda: Counts(), BOX(0, 100, (1,), np.float32), "nothing but the sign; rnd works there"),
    ],
)
def test_what_cannot_be_counted(make, space, words):
    with pytest.raises(ForageError, match=words):
        check(make(), spec_of(space))


def test_state_and_action_need_numbered_actions():
    spec = spec_of()
    continuous = type(spec)("There", spec.observation_space, BOX(-1, 1, (1,), np.float32))
    Counts().check(continuous)
    with pytest.raises(ForageError, match=r"There has Box\(1,\). Counts of state work there"):
        Counts(of="state-action").check(continuous)
