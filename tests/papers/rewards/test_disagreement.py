"""Disagreement: the bonus by hand, agreement on frequent transitions, and no attraction to noise."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from reward_helpers import KEY, experience_of, learn, relabel
from tiers import gate_cases

from forage.core.types import ForageError, Spec
from forage_papers.rewards.bonuses.disagreement import Disagreement

SMALL = {"embedding_size": 6, "hidden_sizes": (16,), "minibatch_size": 64}
CHOICE = gymnasium.spaces.Discrete(2)


def spec_of(action_space=CHOICE, space=None):
    return Spec("Here", space or gymnasium.spaces.Box(-9, 9, (2,), np.float32), action_space)


def rollout_of(now, after, action):
    rollout = experience_of(np.zeros(action.shape[:2]), next_observation=jnp.asarray(after, jnp.float32))
    return rollout._replace(observation=jnp.asarray(now, jnp.float32), action=jnp.asarray(action))


@pytest.mark.parametrize("kind", gate_cases(["choice", "box", "image"], ["box"]))
def test_the_bonus_is_the_variance_of_predictions(kind):
    rng = np.random.default_rng(0)
    actions = gymnasium.spaces.Box(-2, 2, (1,), np.float32) if kind == "box" else CHOICE
    shape = (4, 4, 3) if kind == "image" else (2,)
    spec = spec_of(actions, gymnasium.spaces.Box(-9, 9, shape, np.float32))
    rewards = Disagreement(weight=2.0, normalise=False, members=3, **SMALL)
    rewards.check(spec)
    now, after = rng.normal(size=(2, 8, 2, *shape))
    action = rng.uniform(-2, 2, (8, 2, 1)).astype(np.float32) if kind == "box" else rng.integers(0, 2, (8, 2))
    before = small.at_once(lambda: rewards.init(KEY, spec, 2))
    state, rollout, metrics = learn(rewards, before, rollout_of(now, after, action), KEY)
    found = relabel(rewards, state, rollout).rewards["bonus"].reshape(-1)

    after = after.reshape(16, *shape)
    x = np.clip((now.reshape(16, *shape) - after.mean(0)) / after.std(0), -5, 5).astype(np.float32)
    phi = jax.vmap(before.own.view.features)(x) if kind == "image" else x
    heard = action.reshape(16, 1) / 2 if kind == "box" else np.eye(2)[action.reshape(16)]
    members = before.own.ensemble.members  # as they were before they learned from this rollout
    rows = np.concatenate([phi, heard], 1).astype(np.float32)
    guesses = small.compute(lambda: [jax.tree.map(lambda leaf, i=i: leaf[i], members)(rows) for i in range(3)])
    np.testing.assert_allclose(found, 2 * np.var(guesses, 0).mean(1), rtol=1e-3, atol=1e-5)
    assert np.isfinite(metrics["disagreement_loss"])
    moved = jax.tree.map(lambda a, b: not np.array_equal(a, b), before.own.ensemble, state.own.ensemble)
    assert all(jax.tree.leaves(moved))
    assert jax.tree.all(jax.tree.map(np.array_equal, before.own.view, state.own.view))


@pytest.mark.thorough
def test_models_agree_where_they_have_been_also_where_there_is_noise():
    """Action 0 leads to noise and action 1 to a new observation: only the latter gets a bonus."""
    rng = np.random.default_rng(0)
    rewards = Disagreement(normalise=False, learning_rate=1e-3, **(SMALL | {"hidden_sizes": (32, 32)}))
    now = rng.normal(size=(64, 4, 2))
    before = small.at_once(lambda: rewards.init(KEY, spec_of(), 4))

    @jax.jit
    def run(state, key):
        def turn(state, key):
            noise = jax.random.normal(key, (64, 4, 2))
            rollout = rollout_of(now, noise, jnp.zeros((64, 4), int))
            state, _, metrics = rewards.learn(state, rollout, None, key)
            return state, metrics["disagreement_loss"]

        state, losses = jax.lax.scan(turn, state, jax.random.split(key, 150))
        seen, unseen = (rewards.novelty(state.own, rollout_of(now, now, jnp.full((64, 4), a))).mean() for a in (0, 1))
        return seen, unseen, losses

    seen, unseen, losses = run(before, KEY)
    assert losses[-1] > 0.8  # noise cannot be foretold
    assert seen < 0.05 and unseen > 5 * seen


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Disagreement(members=1), "members of Disagreement is 2 or more, not 1"),
        (lambda: Disagreement(keep=0.0), "keep of Disagreement is above 0 and at most 1, not 0"),
    ],
)
def test_what_it_cannot_do(make, words):
    with pytest.raises(ForageError, match=words):
        check(make(), spec_of())
