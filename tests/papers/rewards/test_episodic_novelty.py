"""Never Give Up's bonus: against NumPy, as a count, and with a memory of its episode alone."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from reward_helpers import KEY, experience_of, learn, relabel

from forage.core.types import ForageError, Spec
from forage_papers.rewards.bonuses.episodic_novelty import EpisodicNovelty, Recollection

SMALL = {"embedding_size": 3, "hidden_sizes": (8,), "head_size": 8, "minibatch_size": 16, "lifelong_size": 4}
SPEC = Spec("Here", gymnasium.spaces.Box(-9, 9, (3,), np.float32), gymnasium.spaces.Discrete(2))
NOTHING = (jnp.int32(0), np.zeros(()), jnp.int32(0))


def walk(rewards, states, ended=None):
    """The bonus of every step along embeddings by hand."""
    states = np.asarray(states, np.float32)
    ended = np.zeros(len(states) - 1, bool) if ended is None else np.asarray(ended)
    kept = Recollection(np.zeros((rewards.memory_size, states.shape[1])), *NOTHING)
    steps = states[:-1], states[1:], ended, np.ones_like(ended)
    return jax.jit(lambda *steps: jax.lax.scan(rewards.step, kept, steps))(*steps)


def by_hand(states, k, size, epsilon, cluster, constant, limit):
    memory, mean, found = [states[0]], 0.0, []
    for t, x in enumerate(states[1:]):
        nearest = np.sort(np.square(np.array(memory[-size:]) - x).sum(1))[:k]
        mean += (nearest.mean() - mean) / (t + 1)
        apart = np.maximum(nearest / max(mean, 1e-8) - cluster, 0)
        s = np.sqrt((epsilon / (apart + epsilon)).sum()) + constant
        found.append(0 if s > limit else 1 / s)
        memory.append(x)
    return found


@pytest.mark.parametrize(("k", "size", "limit"), [(3, 100, 8.0), (3, 4, 8.0), (2, 5, 0.9)])
def test_distances_become_similarities(k, size, limit):
    states = np.random.default_rng(0).integers(0, 4, (40, 2)).astype(np.float32)
    options = {"epsilon": 0.05, "cluster_distance": 0.1, "constant": 0.01, "max_similarity": limit}
    _, found = walk(EpisodicNovelty(neighbours=k, memory_size=size, **options), states)
    expected = by_hand(states, k, size, 0.05, 0.1, 0.01, limit)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert (np.array(expected) == 0).any() == (limit < 8)


def test_of_states_that_are_the_same_or_far_apart_it_is_a_count():
    cells = np.array([0, 1, 0, 1, 1, 2, 1])
    _, found = walk(EpisodicNovelty(epsilon=1e-9, constant=1e-6), 1000.0 * np.eye(3)[cells])
    visits = np.array([[0, 1, 1, 2, 0, 3]])[0]  # before that time
    np.testing.assert_allclose(found[visits > 0], 1 / np.sqrt(visits[visits > 0]), rtol=1e-3)
    assert (found[visits == 0] > 1000).all()


def test_each_episode_has_a_memory_of_its_own():
    states = np.random.default_rng(0).normal(size=(9, 2))
    rewards = EpisodicNovelty(neighbours=2, epsilon=0.1)
    kept, found = walk(rewards, np.concatenate([states, states]), np.arange(17) == 8)
    assert kept.states == 9
    fresh = Recollection(kept.memory * 0 + 5.0, jnp.int32(0), kept.distance, kept.steps)
    after, again = rewards.step(fresh, (states[0], states[1], jnp.bool_(False), jnp.bool_(True)))
    # What an episode before left in the memory is not seen: one neighbour, its own first state.
    apart = max(np.square(states[1] - states[0]).sum() / float(after.distance) - 0.008, 0)
    assert float(again) == pytest.approx(1 / (np.sqrt(0.1 / (apart + 0.1)) + 1e-3), rel=1e-4)
    assert float(found[9]) == pytest.approx(float(again), rel=0.2)


@pytest.mark.thorough
def test_the_bonus_is_noted_and_scaled_by_how_new_it_is_to_the_run():
    rewards = EpisodicNovelty(weight=2.0, normalise=False, max_scale=1.5, **SMALL)
    rewards.check(SPEC)
    rng = np.random.default_rng(0)
    state = before = small.at_once(lambda: rewards.init(KEY, SPEC, 2))
    errors = []
    for _ in range(2):
        before = state
        rollout = experience_of(np.zeros((16, 2)), rng.random((16, 2)) < 0.2, None, rng.normal(size=(16, 2, 3)))
        rollout = rollout._replace(
            observation=jnp.asarray(rng.normal(size=(16, 2, 3))), action=jnp.asarray(rng.integers(0, 2, (16, 2)))
        )
        rollout = rollout._replace(next_observation=jnp.asarray(rollout.next_observation))
        state, rollout, metrics = learn(rewards, before, rollout, KEY)
        error = rewards.rnd.novelty(state.own.lifelong, rollout)  # of the networks of before
        errors.append(np.asarray(error).reshape(-1))

    norm = state.own.lifelong.observations
    now, after = (
        jax.vmap(jax.vmap(lambda o: before.own.model.embedding(norm(o, 5.0))))(seen)
        for seen in (rollout.observation, rollout.next_observation)
    )
    _, episodic = jax.lax.scan(
        jax.vmap(rewards.step), before.own.recollection, (now, after, rollout.ended, rollout.counts)
    )
    everything = np.concatenate(errors)
    alpha = 1 + (np.asarray(error) - everything.mean()) / everything.std()
    expected = 2 * np.asarray(episodic) * np.clip(alpha, 1, 1.5)
    found = relabel(rewards, state, rollout).rewards["bonus"]
    np.testing.assert_allclose(found, expected, rtol=1e-2)
    assert (alpha < 1).any() and (alpha > 1.5).any()
    assert {"inverse_loss", "rnd_loss", "lifelong_scale"} <= metrics.keys()
    # What is replayed keeps the bonus it was noted with.
    later, _, _ = learn(rewards, state, rollout._replace(rewards_info=()), KEY)
    np.testing.assert_array_equal(relabel(rewards, later, rollout).rewards["bonus"], found)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EpisodicNovelty(neighbours=0), "neighbours of EpisodicNovelty is 1 or more"),
        (lambda: EpisodicNovelty(memory_size=4), "neighbours of EpisodicNovelty is at most memory_size"),
        (lambda: EpisodicNovelty(epsilon=0.0), "epsilon of EpisodicNovelty is above 0"),
        (lambda: EpisodicNovelty(embedding_size=0), "embedding-size of EpisodicNovelty is 1 or more"),
    ],
)
def test_what_it_cannot_do(make, words):
    with pytest.raises(ForageError, match=words):
        check(make(), SPEC)
