"""Curiosity: the bonus by hand, surprise that wears off, and any kind of actions."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from reward_helpers import CLOCK, KEY, experience_of, learn, relabel
from tiers import first

from forage.core.types import NOBODY, ForageError, Spec
from forage.rewards.bonuses.icm import ICM

SMALL = {"embedding_size": 6, "hidden_sizes": (16,), "head_size": 16, "minibatch_size": 32}
BOX = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
CHOICE = gymnasium.spaces.Discrete(3)


def spec_of(action_space, space=BOX):
    return Spec("Here", space, action_space)


def walk(rng, time, envs, noise=0.0):
    """Steps to the left, none, or to the right on a line; the second number is the noise."""
    action = rng.integers(0, 3, (time, envs))
    now = rng.uniform(-1, 1, (time, envs, 2))
    after = np.stack([now[..., 0] + action - 1, noise * rng.normal(size=action.shape)], -1)
    rollout = experience_of(np.zeros(action.shape), next_observation=np.asarray(after, jnp.float32))
    return rollout._replace(observation=np.asarray(now, jnp.float32), action=np.asarray(action))


@pytest.mark.parametrize("actions", first(1, [CHOICE, gymnasium.spaces.Box(-2, 2, (1,), np.float32)]))
def test_the_bonus_is_half_the_squared_error_in_the_embedding(actions):
    rewards = ICM(weight=2.0, normalise=False, **SMALL)
    spec = spec_of(actions)
    rewards.check(spec)
    before = small.at_once(lambda: rewards.init(KEY, spec, 2))
    rollout = walk(np.random.default_rng(0), 8, 2)
    if actions is not CHOICE:
        rollout = rollout._replace(action=2.0 * rollout.action[..., None] - 2)
    state, rollout, metrics = learn(rewards, before, rollout, KEY)
    bonus = relabel(rewards, state, rollout).rewards["bonus"]

    after = np.asarray(rollout.next_observation).reshape(-1, 2)
    x, y = (
        jnp.asarray(np.clip((np.asarray(seen).reshape(-1, 2) - after.mean(0)) / np.sqrt(after.var(0) + 1e-8), -5, 5))
        for seen in (rollout.observation, rollout.next_observation)
    )
    heard = np.asarray(rollout.action).reshape(-1)
    heard = np.eye(3)[heard] if actions is CHOICE else heard[:, None] / 2
    model = before.own.model  # as it was before it learned from this rollout

    def foresee(x, y):
        phi, goal = jax.vmap(model.inverse.embedding)(x), jax.vmap(model.inverse.embedding)(y)
        return jax.vmap(model.forward)(jnp.concatenate([phi, heard], 1)), goal

    guess, goal = small.compute(foresee, x, y)
    np.testing.assert_allclose(bonus.reshape(-1), ((guess - goal) ** 2).sum(1), rtol=1e-3)  # 2 times one half
    assert np.isfinite(metrics["icm_loss"])
    moved = jax.tree.map(lambda a, b: not np.array_equal(a, b), model, state.own.model)
    assert all(jax.tree.leaves(moved))


@pytest.mark.thorough
def test_surprise_wears_off_where_it_has_been():
    rewards = ICM(normalise=False, learning_rate=3e-3, **SMALL)
    rng = np.random.default_rng(0)
    near = walk(rng, 32, 4)
    far = near._replace(next_observation=near.next_observation + np.float32([6, 0]))  # the same steps lead elsewhere

    @jax.jit
    def run(near, far):
        state = rewards.init(KEY, spec_of(CHOICE), 4)
        state, _, _ = rewards.learn(state, far, CLOCK, KEY)  # one look, so that it is within the normaliser's range
        keys = jax.random.split(KEY, 150)
        state, _ = jax.lax.scan(lambda s, k: (rewards.learn(s, near, CLOCK, k)[0], None), state, keys)
        seen = jax.vmap(state.own.model.inverse.embedding)(near.observation.reshape(-1, 2) / 2)
        spread = 0.5 * seen.var(0).sum()
        return spread, *[rewards.novelty(state.own, e).mean() for e in (near, far)]

    spread, near, far = run(near, far)
    assert near < 0.1 * spread and far > 10 * near


def test_actions_that_were_not_heard_teach_nothing():
    rewards = ICM(**SMALL)
    rollout = walk(np.random.default_rng(0), 8, 2)
    silent = rollout._replace(source=jnp.full_like(rollout.source, NOBODY))
    before = small.at_once(lambda: rewards.init(KEY, spec_of(CHOICE), 2))
    after, _, metrics = learn(rewards, before, silent, KEY)
    assert metrics["icm_loss"] == 0
    same = jax.tree.map(np.array_equal, before.own.model, after.own.model)
    assert all(jax.tree.leaves(same))


@pytest.mark.parametrize(
    ("make", "actions", "space", "words"),
    [
        (lambda: ICM(epochs=0), CHOICE, BOX, "epochs of ICM is 1 or more, not 0"),
        (lambda: ICM(beta=1.0), CHOICE, BOX, "beta of ICM is"),
        (lambda: ICM(), gymnasium.spaces.MultiBinary(2), BOX, "Agents act in"),
        (lambda: ICM(), CHOICE, gymnasium.spaces.Tuple([CHOICE]), "ICM needs boxes, images or numbers"),
    ],
)
def test_what_it_cannot_do(make, actions, space, words):
    with pytest.raises(ForageError, match=words):
        check(make(), spec_of(actions, space))
