"""Random network distillation: the bonus by hand, and that novelty wears off."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from reward_helpers import CLOCK, KEY, experience_of, learn, relabel, spec_of

from forage.core.types import ForageError
from forage.rewards.bonuses.rnd import RND
from forage.rewards.scaling import Scale


def test_rnd_says_what_it_can_see():
    space = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2)])
    with pytest.raises(ForageError, match="boxes, images or numbers"):
        check(RND(), spec_of(space))
    with pytest.raises(ForageError, match=r"Here gives Discrete\(4, start=1\)"):
        check(RND(), spec_of(gymnasium.spaces.Discrete(4, start=1)))


# Random network distillation

SMALL = {"embedding_size": 16, "hidden_sizes": (16,), "minibatch_size": 16}


def test_the_bonus_is_the_prediction_error_over_the_spread_of_its_return():
    rewards = RND(weight=2.0, norm_discount=0.8, inner=Scale(3.0), **SMALL)
    state = jax.jit(rewards.init, static_argnums=(1, 2))(KEY, spec_of(), 4)
    rng = np.random.default_rng(0)
    novelty, running, returns, seen = None, np.zeros(4), [], []
    for _ in range(3):
        before = state
        observation = jnp.asarray(rng.normal(5.0, [1.0, 30.0], (8, 4, 2)), jnp.float32).at[0, 0, 1].set(1e6)
        ended = rng.random((8, 4)) < 0.3
        rollout = experience_of(rng.normal(size=(8, 4)), ended, None, observation)
        state, rollout, metrics = learn(rewards, state, rollout, KEY)
        result = relabel(rewards, state, rollout)

        seen.append(np.asarray(observation, np.float64).reshape(-1, 2))
        rows = np.concatenate(seen)
        x = np.clip((observation - rows.mean(0)) / rows.std(0), -5, 5).astype(np.float32).reshape(-1, 2)
        # The predictor as it was before it learned from this rollout.
        error = (jax.vmap(before.own.predictor)(x) - jax.vmap(state.own.target)(x)) ** 2
        novelty = np.asarray(error).mean(-1).reshape(8, 4)
        for row in novelty:
            running = 0.8 * running + row  # across the ends of episodes
            returns.append(running)
        bonus = novelty / np.std(returns)
        np.testing.assert_allclose(result.reward, 3 * rollout.reward, rtol=1e-6)
        np.testing.assert_allclose(result.rewards["bonus"], 2 * bonus, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(metrics["bonus"], 2 * bonus.mean(), rtol=1e-3)
    assert jax.tree.all(jax.tree.map(np.array_equal, before.own.target, state.own.target))
    moved = jax.tree.leaves(jax.tree.map(lambda a, b: np.abs(a - b).max(), before.own.predictor, state.own.predictor))
    assert min(moved) > 0


SPACES = {
    "vector": gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "image": gymnasium.spaces.Box(0, 255, (6, 6, 2), np.uint8),
    "number": gymnasium.spaces.Discrete(5),
}


def near_and_far(kind):
    """Observations of two corners of a space: one to be seen often, one seldom."""
    rng = np.random.default_rng(1)

    def numbers(centre):
        return jnp.asarray(centre + 0.2 * rng.normal(size=(16, 4, 3)), jnp.float32)

    def pictures(half):
        pixels = np.zeros((16, 4, 6, 6, 2), np.uint8)
        pixels[:, :, half, :, :] = rng.integers(150, 255, (16, 4, 3, 6, 2))
        return jnp.asarray(pixels)

    if kind == "vector":
        return numbers(1.0), numbers(-1.0)
    if kind == "image":
        return pictures(slice(0, 3)), pictures(slice(3, 6))
    return np.asarray(rng.integers(0, 3, (16, 4))), np.asarray(rng.integers(3, 5, (16, 4)))


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.thorough
def test_novelty_wears_off_where_the_agent_has_been(kind):
    rewards = RND(learning_rate=3e-3, proportion=1.0, **SMALL)
    rewards.check(spec_of(SPACES[kind]))
    near, far = near_and_far(kind)

    @jax.jit
    def run(rewards, near, far):
        state = rewards.init(KEY, spec_of(SPACES[kind]), 4)
        none = jnp.zeros((16, 4))
        near, far = (experience_of(none, next_observation=o) for o in (near, far))
        # One look at the far corner, so that it is within the normaliser's range.
        both = jax.tree.map(lambda a, b: a.at[0].set(b[0]), near, far)
        state, _, metrics = rewards.learn(state, both, CLOCK, KEY)

        def novelty(state):
            fresh = state.own._replace(scorer=state.own.predictor)
            return jnp.stack([rewards.novelty(fresh, e).mean() for e in (near, far)])

        first = novelty(state)
        again = jax.random.split(KEY, 60)
        state, _ = jax.lax.scan(lambda s, k: (rewards.learn(s, near, CLOCK, k)[0], None), state, again)
        return (
            first,
            novelty(state),
            metrics,
            rewards.relabel(state, near._replace(rewards_info=((), ()))).rewards["bonus"],
        )

    first, last, metrics, bonus = run(rewards, near, far)
    assert last[0] < 0.3 * first[0]
    assert last[1] > 3 * last[0]
    assert np.isfinite(list(metrics.values())).all() and bonus.shape == (16, 4) and (bonus >= 0).all()


@pytest.mark.parametrize(
    ("proportion", "time", "num_envs", "minibatches"),
    [
        (0.5, 2, 1, (1, 1)),
        (0.5, 31, 1, (1, 16)),
        (0.5, 160, 1, (5, 16)),
        (None, 10, 8, (5, 16)),  # as published: all of it,
        (None, 10, 64, (20, 16)),  # or as much as 32 environments make
    ],
)
def test_training_uses_the_proportion_it_is_told(proportion, time, num_envs, minibatches):
    rewards = RND(proportion=proportion, epochs=1, **SMALL)
    state = jax.eval_shape(lambda: rewards.init(KEY, spec_of(), num_envs)).own
    rollout = experience_of(np.zeros((time, num_envs)), next_observation=np.zeros((time, num_envs, 2), np.float32))
    program = str(jax.make_jaxpr(rewards.study)(state, rollout, CLOCK, KEY))
    assert f"f32[{minibatches[0]},{minibatches[1]},2]" in program


def test_it_sees_the_last_of_the_stacked_frames_where_it_is_told():
    space = gymnasium.spaces.Box(0, 255, (6, 6, 4), np.uint8)
    rewards = RND(channels=1, **SMALL)
    rewards.check(spec_of(space))
    state = jax.jit(rewards.init, static_argnums=(1, 2))(KEY, spec_of(space), 4)
    pictures = np.random.default_rng(0).integers(0, 255, (8, 4, 6, 6, 4), np.uint8)
    other = pictures // np.asarray([2, 3, 4, 1], np.uint8)  # but for the last frame
    rollouts = [experience_of(np.zeros((8, 4)), next_observation=jnp.asarray(p)) for p in (pictures, other)]
    bonuses = []
    for rollout in rollouts:
        after, rollout, _ = learn(rewards, state, rollout, KEY)
        bonuses.append(relabel(rewards, after, rollout).rewards["bonus"])
    np.testing.assert_array_equal(*bonuses)
    assert (bonuses[0] > 0).all()


def test_large_images_are_seen_by_the_networks_of_the_paper():
    space = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)
    own = jax.eval_shape(lambda: RND(channels=1).init(KEY, spec_of(space), 1)).own
    sizes = [[layer.weight.shape for layer in network.head.layers] for network in (own.target, own.predictor)]
    assert sizes == [[(3136, 512)], [(3136, 512), (512, 512), (512, 512)]]
    assert own.target.torso.body.dense is None


@pytest.mark.parametrize("space", ["box", "number"])
def test_channels_that_are_not_there_are_refused(space):
    spaces = {"box": gymnasium.spaces.Box(-1, 1, (3,)), "number": gymnasium.spaces.Discrete(5)}
    with pytest.raises(ForageError, match="channels=4"):
        RND(channels=4).check(spec_of(spaces[space]))


def test_action_masks_are_left_aside():
    space = gymnasium.spaces.Dict(
        observation=gymnasium.spaces.Box(-1, 1, (3,), np.float32), action_mask=gymnasium.spaces.MultiBinary(2)
    )
    rewards = RND(**SMALL)
    rewards.check(spec_of(space))
    seen = {"observation": np.zeros((16, 4, 3)), "action_mask": np.ones((16, 4, 2), jnp.int8)}
    rollout = experience_of(np.zeros((16, 4)), next_observation=seen)
    state = jax.eval_shape(lambda: rewards.init(KEY, spec_of(space), 4))
    after, rewards_info, _ = jax.eval_shape(rewards.learn, state, rollout, CLOCK, KEY)
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, state)
    assert jax.eval_shape(rewards.relabel, state, rollout._replace(rewards_info=rewards_info)).rewards[
        "bonus"
    ].shape == (16, 4)
