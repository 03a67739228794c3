"""RE3: distances to nearest neighbours by brute force, and the ring of the newest states."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from reward_helpers import KEY, experience_of, learn, relabel, spec_of

from forage.core.types import ForageError
from forage.rewards.scaling import Scale
from forage_papers.rewards.bonuses.re3 import RE3

SMALL = {"embedding_size": 4, "hidden_sizes": (8,)}


def test_what_does_not_fit_is_refused():
    with pytest.raises(ForageError, match="neighbours of RE3 is below memory_size, and 3 is not below 3"):
        RE3(memory_size=3)
    with pytest.raises(ForageError, match="RE3 needs boxes, images or numbers"):
        check(RE3(), spec_of(gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2)])))


def rollouts(number):
    rng = np.random.default_rng(0)
    for _ in range(number):
        seen = rng.normal(5.0, [1.0, 30.0], (4, 2, 2)).astype(np.float32)
        yield experience_of(rng.normal(size=(4, 2)), rng.random((4, 2)) < 0.3, None, seen)


def test_the_bonus_is_the_distance_to_the_kth_of_the_newest_others():
    """Three rollouts of 8 states through a ring of 12: the second takes the first places of the first, and so on."""
    rewards = RE3(weight=2.0, neighbours=2, memory_size=12, normalise=False, inner=Scale(3.0), **SMALL)
    state = jax.jit(rewards.init, static_argnums=(1, 2))(KEY, spec_of(), 2)
    encoder, seen, kept = state.own.encoder, [], []
    for rollout in rollouts(3):
        state, rollout, metrics = learn(rewards, state, rollout, KEY)
        result = relabel(rewards, state, rollout)

        seen.append(rollout.next_observation.reshape(-1, 2).astype(np.float64))
        every = np.concatenate(seen)
        x = np.clip((seen[-1] - every.mean(0)) / every.std(0), -5, 5)
        embeddings = np.asarray(jax.vmap(encoder)(jnp.asarray(x, jnp.float32)))
        kept = [*kept, *embeddings][-12:]
        distance = np.array([sorted(np.linalg.norm(y - other) for other in kept)[2] for y in embeddings])

        np.testing.assert_allclose(
            result.rewards["bonus"], 2 * np.log(1 + distance.reshape(4, 2)), rtol=1e-3, atol=1e-4
        )
        np.testing.assert_allclose(result.reward, 3 * rollout.reward, rtol=1e-6)
        np.testing.assert_allclose(metrics["state_distance"], distance.mean(), rtol=1e-3)
    assert jax.tree.all(jax.tree.map(np.array_equal, encoder, state.own.encoder)), "the encoder is never trained"


def test_a_state_of_few_visits_is_paid_more():
    """Numbered states: one visited 15 times has neighbours like itself, the one visited once has none."""
    seen = np.zeros((8, 2), np.int32)
    seen[3, 1] = 4
    rollout = experience_of(np.zeros((8, 2)))._replace(observation=seen, next_observation=seen)
    rewards = RE3(memory_size=32, normalise=False, **SMALL)
    state = rewards.init(KEY, spec_of(gymnasium.spaces.Discrete(5)), 2)
    state, rollout, _ = learn(rewards, state, rollout, KEY)
    bonus = relabel(rewards, state, rollout).rewards["bonus"]
    often = seen == 0
    assert (bonus[often] == 0).all() and bonus[3, 1] > 0.1


def test_the_first_states_are_worth_nothing_until_there_are_enough():
    rewards = RE3(neighbours=8, memory_size=16, normalise=False, **SMALL)  # 8 states have 7 others
    state = rewards.init(KEY, spec_of(), 2)
    first, second = rollouts(2)
    state, first, _ = learn(rewards, state, first, KEY)
    assert (relabel(rewards, state, first).rewards["bonus"] == 0).all()
    state, second, _ = learn(rewards, state, second, KEY)
    assert (relabel(rewards, state, second).rewards["bonus"] > 0).all()


def test_steps_that_do_not_count_are_no_neighbours():
    """An agent that had left its team: its place in the ring stays empty."""
    from forage.core.types import GONE

    (rollout,) = rollouts(1)
    source = rollout.source.copy()
    source[:, 1] = GONE
    rewards = RE3(neighbours=1, memory_size=16, normalise=False, **SMALL)
    state, _, _ = learn(rewards, rewards.init(KEY, spec_of(), 2), rollout._replace(source=source), KEY)
    np.testing.assert_array_equal(state.own.valid[:8].reshape(4, 2), [[True, False]] * 4)
    assert not state.own.valid[8:].any()
