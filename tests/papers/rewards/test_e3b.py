"""Elliptical bonuses: matrices inverted by hand, new episodes, and counting."""

import itertools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from reward_helpers import KEY, experience_of, learn, relabel

from forage.core.types import ForageError, Spec
from forage_papers.rewards.bonuses.e3b import E3B, sherman_morrison

SMALL = {"embedding_size": 5, "hidden_sizes": (8,), "head_size": 8, "minibatch_size": 16}
SPEC = Spec("Here", gymnasium.spaces.Box(-9, 9, (3,), np.float32), gymnasium.spaces.Discrete(2))


def rollouts(number, time, envs, rng):
    """Yield rollouts of one run; each observation is the next one of the step before, except at an episode's start."""
    now = rng.normal(size=(envs, 3))
    for _ in range(number):
        seen, after, ended = [], [], rng.random((time, envs)) < 0.3
        for over in ended:
            seen.append(now)
            after.append(rng.normal(size=(envs, 3)))
            now = np.where(over[:, None], rng.normal(size=(envs, 3)), after[-1])
        rollout = experience_of(np.zeros((time, envs)), ended, None, jnp.asarray(np.array(after), jnp.float32))
        action = jnp.asarray(rng.integers(0, 2, (time, envs)))
        yield rollout._replace(observation=jnp.asarray(np.array(seen), jnp.float32), action=action)


def test_sherman_and_morrison():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 4))
    c = 0.5 * np.eye(4) + np.outer(y, y)
    root, square = sherman_morrison(np.asarray(np.linalg.cholesky(np.linalg.inv(c))), np.asarray(x))
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(c + np.outer(x, x)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(square, x @ np.linalg.inv(c) @ x, rtol=1e-4)


def test_long_episodes_and_large_embeddings_do_not_break_it():
    """The inverse itself, in single precision, is not a number after some hundred of these steps."""
    places = 100 * jnp.linspace(0, 1, 32) * jax.random.normal(KEY, (50, 32))
    x = places[jax.random.randint(KEY, (20_000,), 0, 50)]
    _, found = jax.jit(lambda x: jax.lax.scan(sherman_morrison, jnp.eye(32) / 0.1**0.5, x))(x)
    before = np.asarray(x[:-1], np.float64)
    true = x[-1] @ np.linalg.inv(0.1 * np.eye(32) + before.T @ before) @ x[-1]
    np.testing.assert_allclose(found[-1], true, rtol=0.5)


def test_bonuses_are_elliptical_within_each_episode_and_go_on_from_rollout_to_rollout():
    rewards = E3B(weight=2.0, normalise=False, ridge=0.3, **SMALL)
    rewards.check(SPEC)
    state = jax.jit(rewards.init, static_argnums=(1, 2))(KEY, SPEC, 2)
    episodes = [[], []]  # of each environment: the embeddings of the episode so far
    fresh = [True, True]
    lengths = []
    for rollout in rollouts(3, 6, 2, np.random.default_rng(1)):
        before = state
        state, rollout, metrics = learn(rewards, state, rollout, KEY)
        found = relabel(rewards, state, rollout).rewards["bonus"]
        norm = state.own.observations
        phi = [
            np.asarray(jax.vmap(jax.vmap(lambda o: before.own.model.embedding(norm(o, 5.0))))(seen), np.float64)  # noqa: B023
            for seen in (rollout.observation, rollout.next_observation)
        ]
        for time in range(6):
            for env in range(2):
                if fresh[env]:
                    episodes[env] = [phi[0][time, env]]
                c = 0.3 * np.eye(5) + sum(np.outer(x, x) for x in episodes[env])
                x = phi[1][time, env]
                np.testing.assert_allclose(found[time, env], 2 * x @ np.linalg.inv(c) @ x, rtol=2e-3)
                episodes[env].append(x)
                lengths.append(len(episodes[env]))
                fresh[env] = bool(rollout.ended[time, env])
        assert np.isfinite(metrics["inverse_loss"])
    assert max(lengths) > 6  # an episode went on across a rollout's end


def test_it_counts_where_states_are_numbers():
    rewards = E3B(ridge=0.1, embedding_size=3)
    cells = np.array([0, 1, 0, 0, 2, 0])
    carry, found = (np.zeros((3, 3)), jnp.bool_(True)), []
    for now, after in itertools.pairwise(cells):
        carry, novelty = rewards.step(carry, (jnp.eye(3)[now], jnp.eye(3)[after], jnp.bool_(False)))
        found.append(float(novelty))
    np.testing.assert_allclose(found, [1 / (n + 0.1) for n in (0, 1, 2, 0, 3)], rtol=1e-5)


@pytest.mark.thorough
def test_the_embedding_learns_which_action_was_taken():
    rewards = E3B(learning_rate=3e-3, **SMALL)
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, (32, 4))
    now = rng.normal(size=(32, 4, 3))
    after = now + (2 * action[..., None] - 1) * np.array([1.0, 0, 0])
    rollout = experience_of(np.zeros((32, 4)), next_observation=np.asarray(after, jnp.float32))
    rollout = rollout._replace(observation=np.asarray(now, jnp.float32), action=np.asarray(action))

    @jax.jit
    def run(state, rollout):
        def turn(state, key):
            state, _, metrics = rewards.learn(state, rollout, None, key)
            return state, metrics["inverse_loss"]

        return jax.lax.scan(turn, state, jax.random.split(KEY, 100))[1]

    losses = run(small.at_once(lambda: rewards.init(KEY, SPEC, 4)), rollout)
    assert losses[0] > 0.5 and losses[-1] < 0.2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: E3B(ridge=0.0), "ridge of E3B is above 0, not 0"),
        (lambda: E3B(epochs=0), "epochs of E3B is 1 or more, not 0"),
    ],
)
def test_what_it_cannot_do(make, words):
    with pytest.raises(ForageError, match=words):
        check(make(), SPEC)
