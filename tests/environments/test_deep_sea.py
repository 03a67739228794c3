"""Deep sea and deep sea treasure against values worked out by hand."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments.classic.deep_sea import DeepSea, DeepSeaState
from forage.environments.classic.deep_sea_treasure import (
    CONCAVE_TREASURES,
    CONVEX_TREASURES,
    DeepSeaTreasure,
    DeepSeaTreasureState,
    treasure_map,
)


@jax.jit
def play_moves(environment, moves, key):
    """Plays an episode of deep sea, `moves[t]` 1 for right; leaves `[time, ...]`."""
    state, observation = environment.reset(key)

    def advance(state, move_and_key):
        move, key = move_and_key
        right = environment.action_mapping[state.time, state.column]
        state, step = environment.step(state, jnp.where(move == 1, right, 1 - right), key)
        return state, (state, step)

    return observation, jax.lax.scan(advance, state, (moves, jax.random.split(key, len(moves))))[1]


KEY = jax.random.key(0)


@pytest.mark.parametrize("randomize", [True, False])
@pytest.mark.parametrize("size", [2, 10, 14])
def test_always_right_returns_one_minus_the_cost(size, randomize):
    environment = DeepSea(size, randomize_actions=randomize)
    _, (states, steps) = play_moves(environment, jnp.ones(size, int), KEY)
    assert float(steps.reward.sum()) == pytest.approx(0.99, abs=1e-6)
    np.testing.assert_allclose(steps.reward[:-1], -0.01 / size, rtol=1e-5)
    assert float(steps.reward[-1]) == pytest.approx(1 - 0.01 / size)
    np.testing.assert_array_equal(states.column, np.minimum(np.arange(1, size + 1), size - 1))


def test_always_left_returns_nothing():
    _, (states, steps) = play_moves(DeepSea(10), jnp.zeros(10, int), KEY)
    assert (steps.reward == 0).all()
    assert (states.column == 0).all()


def test_one_wrong_move_loses_the_treasure_and_costs_still_count():
    for wrong in range(10):
        _, (_, steps) = play_moves(DeepSea(10), jnp.ones(10, int).at[wrong].set(0), KEY)
        assert float(steps.reward.sum()) == pytest.approx(-9 * 0.001, abs=1e-6)


def test_the_treasure_is_for_moving_right_in_the_corner_not_for_being_there():
    environment = DeepSea(5, randomize_actions=False)
    corner = DeepSeaState(jnp.int32(4), jnp.int32(4))
    assert float(environment.step(corner, jnp.int32(1), KEY)[1].reward) == pytest.approx(1 - 0.01 / 5)
    assert float(environment.step(corner, jnp.int32(0), KEY)[1].reward) == 0


def test_episode_lasts_exactly_its_size_and_terminates():
    first, (states, steps) = play_moves(DeepSea(6), jnp.array([1, 0, 1, 1, 0, 1]), KEY)
    np.testing.assert_array_equal(steps.terminated, [False] * 5 + [True])
    assert not steps.truncated.any()
    np.testing.assert_array_equal(states.column, [1, 0, 1, 2, 1, 2])
    expected = np.zeros((6, 6, 6), np.float32)
    expected[0, 0, 0] = 1  # the first observation
    for time, column in enumerate([1, 0, 1, 2, 1]):
        expected[time + 1, time + 1, column] = 1
    np.testing.assert_array_equal(first, expected[0])
    np.testing.assert_array_equal(steps.observation[:5], expected[1:])
    assert (steps.observation[5] == 0).all()  # below the last row nothing is seen


def test_mapping_is_random_fixed_by_its_seed_and_bsuites():
    mapping = np.asarray(DeepSea(30).action_mapping)
    np.testing.assert_array_equal(mapping, DeepSea(30).action_mapping)
    assert (mapping != np.asarray(DeepSea(30, mapping_seed=7).action_mapping)).any()
    assert 0.4 < mapping.mean() < 0.6
    assert (np.asarray(DeepSea(30, randomize_actions=False).action_mapping) == 1).all()
    # The first row for bsuite's seed, from NumPy's frozen generator: uniform draws above one half mean action 1.
    uniform = np.random.RandomState(42).uniform(size=(10, 10))
    np.testing.assert_array_equal(DeepSea(10).action_mapping, uniform > 0.5)


@pytest.mark.thorough
def test_mappings_can_be_batched():
    environment = DeepSea(8)
    mappings = jnp.stack([environment.action_mapping, 1 - environment.action_mapping])

    def first_reward(mapping):
        changed = equinox.tree_at(lambda e: e.action_mapping, environment, mapping)
        state, _ = changed.reset(KEY)
        return changed.step(state, environment.action_mapping[0, 0], KEY)[1].reward

    np.testing.assert_allclose(jax.vmap(first_reward)(mappings), [-0.01 / 8, 0.0], rtol=1e-6)


def test_move_cost_is_a_field():
    _, (_, steps) = play_moves(DeepSea(10, move_cost=0.5), jnp.ones(10, int), KEY)
    assert float(steps.reward.sum()) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.thorough
def test_stochastic_right_fails_once_in_size():
    environment, size, count = DeepSea(5, stochastic=True, randomize_actions=False), 5, 20_000
    state = DeepSeaState(jnp.int32(1), jnp.int32(2))
    keys = jax.random.split(KEY, count)
    right_states, right = jax.vmap(lambda key: environment.step(state, jnp.int32(1), key))(keys)
    left_states, left = jax.vmap(lambda key: environment.step(state, jnp.int32(0), key))(keys)
    assert set(np.unique(right_states.column)) == {1, 2}  # a failed move stays in its column
    failed = float((right_states.column == 1).mean())
    assert abs(failed - 1 / size) < 5 * np.sqrt(0.2 * 0.8 / count)
    np.testing.assert_allclose(right.reward, -0.01 / size, rtol=1e-5)  # and costs the same, without noise here
    assert (left_states.column == 0).all()
    assert (left.reward == 0).all()


@pytest.mark.parametrize(("column", "mean"), [(0, 0.0), (2, None), (4, 1.0)])
@pytest.mark.thorough
def test_stochastic_noise_is_at_the_bottom_corners_only(column, mean):
    environment, count = DeepSea(5, stochastic=True, randomize_actions=False), 20_000
    state = DeepSeaState(jnp.int32(column), jnp.int32(4))
    _, steps = jax.vmap(lambda key: environment.step(state, jnp.int32(1), key))(jax.random.split(KEY, count))
    if mean is None:
        np.testing.assert_allclose(steps.reward, -0.01 / 5, rtol=1e-5)
    else:
        assert float(steps.reward.mean()) == pytest.approx(mean - 0.01 / 5, abs=5 / np.sqrt(count))
        assert float(steps.reward.std()) == pytest.approx(1, abs=5 / np.sqrt(2 * count))


@pytest.mark.thorough
@pytest.mark.parametrize("size", [2, 10, 20])
def test_the_best_return_when_stochastic_stops_paying_where_right_has_failed(size):
    """Backward induction over the deterministic sea's rewards; the noise has mean 0 and does not count."""
    environment, cost = DeepSea(size, randomize_actions=False), 0.01
    cells = jnp.arange(size)
    reward = np.asarray(
        jax.vmap(
            lambda row: jax.vmap(
                lambda column: jax.vmap(
                    lambda action: environment.step(DeepSeaState(column, row), action, KEY)[1].reward
                )(jnp.arange(2))
            )(cells)
        )(cells)
    )
    best, always = np.zeros(size), np.zeros(size)
    for row in reversed(range(size)):
        left = np.maximum(np.arange(size) - 1, 0)
        right = np.minimum(np.arange(size) + 1, size - 1)
        go = [reward[row, :, 1] + (1 - 1 / size) * value[right] + value / size for value in (best, always)]
        best, always = np.maximum(reward[row, :, 0] + best[left], go[0]), go[1]
    chance = 1 - 1 / size
    assert always[0] == pytest.approx(chance ** (size - 1) - cost, abs=1e-6)
    assert best[0] == pytest.approx(chance ** (size - 1) - cost * (1 - chance**size), abs=1e-6)
    assert best[0] > always[0]


def test_too_small_a_sea_is_refused():
    with pytest.raises(ForageError, match="size 1"):
        DeepSea(1)


UP, DOWN, LEFT, RIGHT = range(4)


@jax.jit
def sail(environment, actions):
    state, _ = environment.reset(KEY)

    def advance(state, action):
        state, step = environment.step(state, action, KEY)
        return state, (state, step)

    return jax.lax.scan(advance, state, actions)[1]


FRONTS = {
    "concave": (
        CONCAVE_TREASURES,
        [(1, -1), (2, -3), (3, -5), (5, -7), (8, -8), (16, -9), (24, -13), (50, -14), (74, -17), (124, -19)],
    ),
    "convex": (
        CONVEX_TREASURES,
        [
            (0.7, -1),
            (8.2, -3),
            (11.5, -5),
            (14.0, -7),
            (15.1, -8),
            (16.1, -9),
            (19.6, -13),
            (20.3, -14),
            (22.4, -17),
            (23.7, -19),
        ],
    ),
}


@pytest.mark.parametrize("name", FRONTS)
@pytest.mark.thorough
def test_pareto_front(name):
    """Straight right along the surface, then straight down to the treasure: the known best returns."""
    treasures, front = FRONTS[name]
    environment = DeepSeaTreasure(treasure_map(treasures))
    for column, expected in enumerate(front):
        # Sinking on past the treasure is harmless, so that every column compiles alike.
        actions = np.full(20, DOWN)
        actions[:column] = RIGHT
        _, steps = sail(environment, actions)
        length = int(np.argmax(steps.terminated)) + 1
        np.testing.assert_allclose(steps.reward[:length].sum(axis=0), expected, rtol=1e-6)
        assert not steps.truncated[:length].any()


def test_the_front_is_concave_and_the_other_convex():
    """On the concave front every weighted sum is best at an end; on the convex one each point has its weights.

    But for (20.3, -14), which lies on the line between its neighbours: (20.3 - 19.6) / 1 = (22.4 - 20.3) / 3.
    """
    for name, count in (("concave", 2), ("convex", 9)):
        front = np.array(FRONTS[name][1])
        weights = np.linspace(0, 1, 20_001)
        best = np.argmax(weights[:, None] * front[:, 0] + (1 - weights[:, None]) * front[:, 1], axis=1)
        assert len(set(best.tolist())) == count


def test_reward_names_match_the_reward():
    assert DeepSeaTreasure.reward_names == ("treasure", "time")
    _, steps = sail(DeepSeaTreasure(), np.array([DOWN] + [UP] * 19))
    np.testing.assert_array_equal(steps.reward[0], [1.0, -1.0])


def test_walls_and_rock_stop_the_submarine():
    environment = DeepSeaTreasure()
    zero = jnp.zeros((), jnp.int32)

    def move(row, column, action):
        state = DeepSeaTreasureState(jnp.int32(row), jnp.int32(column), zero)
        state, step = environment.step(state, jnp.int32(action), KEY)
        np.testing.assert_allclose(step.observation, [int(state.row) / 10, int(state.column) / 10], rtol=1e-6)
        return int(state.row), int(state.column)

    assert move(0, 0, UP) == (0, 0)
    assert move(0, 0, LEFT) == (0, 0)
    assert move(0, 10, RIGHT) == (0, 10)
    assert move(10, 10, DOWN) == (10, 10)
    assert move(5, 6, LEFT) == (5, 6)  # rock beside
    assert move(1, 0, DOWN) == (1, 0)  # rock below
    assert move(5, 6, DOWN) == (6, 6)
    assert move(5, 6, RIGHT) == (5, 7)
    assert move(5, 6, UP) == (4, 6)


def test_time_limit():
    _, steps = sail(DeepSeaTreasure(max_steps=20), np.full(20, UP))
    np.testing.assert_array_equal(steps.truncated, [False] * 19 + [True])
    assert not steps.terminated.any()
    _, steps = sail(DeepSeaTreasure(max_steps=1), np.full(20, DOWN))
    assert steps.terminated[0]  # both coincide: the treasure wins
    assert not steps.truncated[0]
