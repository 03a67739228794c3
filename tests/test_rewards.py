"""Rewards: what counts as good."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.agents.ppo import PPO
from forage.behaviours.own import Own
from forage.environments.classic.cartpole import CartPole
from forage.environments.treasure import DeepSeaTreasure
from forage.experiment import Experiment
from forage.learner import Learner
from forage.memory.rollout import LastRollout
from forage.rewards.rnd import RND
from forage.rewards.scaling import NormaliseReturn, Scale
from forage.rewards.weighted import Weighted
from forage.starts.reset import Reset
from forage.tasks.same import Same
from forage.types import Clock, Experience, ForageError, Spec


def spec_of(observation_space=None, reward_names=(), name="Here"):
    observation_space = observation_space or gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    return Spec(name, observation_space, gymnasium.spaces.Discrete(2), reward_names)


def experience_of(reward, terminated=None, truncated=None, next_observation=None):
    reward = jnp.asarray(reward, jnp.float32)
    none = jnp.zeros(reward.shape[:2], bool)
    terminated, truncated = (none if flag is None else jnp.asarray(flag, bool) for flag in (terminated, truncated))
    seen = jnp.zeros((*none.shape, 2)) if next_observation is None else next_observation
    return Experience(seen, none, reward, seen, terminated, truncated, none.astype(int), ())


KEY = jax.random.key(0)
learn = jax.jit(lambda rewards, *arguments: rewards.learn(*arguments))
relabel = jax.jit(lambda rewards, *arguments: rewards.relabel(*arguments))


# Scale


def test_scale_then_clip():
    rewards = Scale(2.0, -3.0, 5.0)
    result = relabel(rewards, rewards.init(KEY, spec_of(), 2), experience_of([[-4, -1], [1, 4]]))
    np.testing.assert_array_equal(result.reward, [[-3, -2], [2, 5]])
    unclipped = Scale(-0.5)
    result = relabel(unclipped, (), experience_of([[-4e6, 1]]))
    np.testing.assert_array_equal(result.reward, [[2e6, -0.5]])


# NormaliseReturn


def test_rewards_are_divided_by_the_spread_of_the_discounted_return():
    rng = np.random.default_rng(0)
    envs, discount = 3, 0.9
    rewards = NormaliseReturn(discount)
    state = rewards.init(KEY, spec_of(), envs)
    running, everything = np.zeros(envs), []
    for _ in range(4):  # the running returns go on from rollout to rollout
        reward = rng.normal(3.0, 2.0, (5, envs))
        terminated = rng.random((5, envs)) < 0.2
        truncated = ~terminated & (rng.random((5, envs)) < 0.2)
        rollout = experience_of(reward, terminated, truncated)
        state, metrics = learn(rewards, state, rollout, KEY)
        for r, ended in zip(reward, terminated | truncated, strict=True):
            running = discount * running + r
            everything.append(running)  # also the return of the step that ends the episode
            running = np.where(ended, 0.0, running)
        deviation = np.std(np.array(everything))
        np.testing.assert_allclose(relabel(rewards, state, rollout).reward, reward / deviation, rtol=1e-4)
        np.testing.assert_allclose(metrics["return_scale"], deviation, rtol=1e-4)
    np.testing.assert_allclose(state.running, running, rtol=1e-4)


def test_normalised_rewards_are_limited_and_zero_stays_zero():
    rewards = NormaliseReturn(limit=1.5)
    state, _ = learn(rewards, rewards.init(KEY, spec_of(), 2), experience_of([[0, 0], [0, 0]]), KEY)
    result = relabel(rewards, state, experience_of([[0, 7], [-7, 0]])).reward
    np.testing.assert_array_equal(result, [[0, 1.5], [-1.5, 0]])


# Weighted


def test_rewards_are_weighed_by_name():
    rewards = Weighted(("time", "gold"), (0.5, 10.0))
    spec = spec_of(reward_names=("gold", "pain", "time"))
    rewards.check(spec)
    result = relabel(rewards, rewards.init(KEY, spec, 2), experience_of([[[1, 100, -4], [2, 100, 6]]]))
    np.testing.assert_allclose(result.reward, [[8, 23]])


@pytest.mark.parametrize(
    ("make", "names", "words"),
    [
        (lambda: Weighted(("tresure",), (1.0,)), ("treasure", "time"), "no reward tresure; the nearest is treasure"),
        (lambda: Weighted(("zzz",), (1.0,)), ("treasure", "time"), "it has treasure, time"),
        (lambda: Weighted(("time",), (1.0,)), (), "gives one reward"),
        (lambda: Weighted(("time",), (1.0, 2.0)), ("time",), "2 weights"),
        (lambda: Weighted(("time", "time"), (1.0, 2.0)), ("time",), "different names"),
        (lambda: Weighted((), ()), ("time",), "one or more"),
        (lambda: Scale(), ("time",), "several rewards"),
        (lambda: NormaliseReturn(inner=Scale()), ("time",), "several rewards"),
        (lambda: RND(), ("time",), "several rewards"),
        (lambda: Scale(1.0, 2.0, 1.0), (), "low <= high"),
        (lambda: RND(proportion=0.0), (), "proportion=0.0"),
    ],
)
def test_mistakes_are_named(make, names, words):
    with pytest.raises(ForageError) as error:
        make().check(spec_of(reward_names=names))
    assert words in str(error.value), error.value


def test_rnd_says_what_it_can_see():
    space = gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2)])
    with pytest.raises(ForageError, match="boxes, images and numbers"):
        RND().check(spec_of(space))


# Random network distillation

SMALL = {"embedding_size": 16, "hidden_sizes": (16,), "minibatch_size": 16}


def test_the_bonus_is_the_prediction_error_over_the_spread_of_its_return():
    rewards = RND(coefficient=2.0, discount=0.8, inner=Scale(3.0), **SMALL)
    state = jax.jit(rewards.init, static_argnums=(1, 2))(KEY, spec_of(), 4)
    rng = np.random.default_rng(0)
    novelty, running, returns, seen = None, np.zeros(4), [], []
    for _ in range(3):
        before = state
        observation = jnp.asarray(rng.normal(5.0, [1.0, 30.0], (8, 4, 2)), jnp.float32).at[0, 0, 1].set(1e6)
        ended = rng.random((8, 4)) < 0.3
        rollout = experience_of(rng.normal(size=(8, 4)), ended, None, observation)
        state, metrics = learn(rewards, state, rollout, KEY)
        result = relabel(rewards, state, rollout)

        seen.append(np.asarray(observation, np.float64).reshape(-1, 2))
        rows = np.concatenate(seen)
        x = np.clip((observation - rows.mean(0)) / rows.std(0), -5, 5).astype(np.float32).reshape(-1, 2)
        # The predictor as it was before it learned from this rollout.
        error = (jax.vmap(before.predictor)(x) - jax.vmap(state.target)(x)) ** 2
        novelty = np.asarray(error).mean(-1).reshape(8, 4)
        for row in novelty:
            running = 0.8 * running + row  # across the ends of episodes
            returns.append(running)
        bonus = novelty / np.std(returns)
        np.testing.assert_allclose(result.reward, 3 * rollout.reward + 2 * bonus, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(metrics["rnd_bonus"], bonus.mean(), rtol=1e-3)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, before.target, state.target))
    moved = jax.tree.leaves(jax.tree.map(lambda a, b: jnp.abs(a - b).max(), before.predictor, state.predictor))
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
    return jnp.asarray(rng.integers(0, 3, (16, 4))), jnp.asarray(rng.integers(3, 5, (16, 4)))


@pytest.mark.parametrize("kind", SPACES)
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
        state, metrics = rewards.learn(state, both, KEY)

        def novelty(state):
            fresh = state._replace(scorer=state.predictor)
            return jnp.stack([rewards.novelty(fresh, e.next_observation).mean() for e in (near, far)])

        first = novelty(state)
        state, _ = jax.lax.scan(lambda s, k: (rewards.learn(s, near, k)[0], None), state, jax.random.split(KEY, 60))
        return first, novelty(state), metrics, rewards.relabel(state, near).reward

    first, last, metrics, bonus = run(rewards, near, far)
    assert last[0] < 0.3 * first[0]
    assert last[1] > 3 * last[0]
    assert np.isfinite(list(metrics.values())).all() and bonus.shape == (16, 4) and (bonus >= 0).all()


@pytest.mark.parametrize(("time", "minibatches"), [(1, (1, 1)), (31, (1, 16)), (160, (5, 16))])
def test_training_uses_the_proportion_it_is_told(time, minibatches):
    rewards = RND(proportion=0.5, epochs=1, **SMALL)
    state = jax.eval_shape(lambda: rewards.init(KEY, spec_of(), 2))
    program = str(jax.make_jaxpr(rewards.train)(state, jax.ShapeDtypeStruct((time, 2), jnp.float32), KEY))
    assert f"f32[{minibatches[0]},{minibatches[1]},2]" in program


def test_action_masks_are_left_aside():
    space = gymnasium.spaces.Dict(
        observation=gymnasium.spaces.Box(-1, 1, (3,), np.float32), action_mask=gymnasium.spaces.MultiBinary(2)
    )
    rewards = RND(**SMALL)
    rewards.check(spec_of(space))
    seen = {"observation": jnp.zeros((16, 4, 3)), "action_mask": jnp.ones((16, 4, 2), jnp.int8)}
    rollout = experience_of(jnp.zeros((16, 4)), next_observation=seen)
    state = jax.eval_shape(lambda: rewards.init(KEY, spec_of(space), 4))
    after, _ = jax.eval_shape(rewards.learn, state, rollout, KEY)
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, state)
    assert jax.eval_shape(rewards.relabel, state, rollout).reward.shape == (16, 4)


# In the loop


def experiment_of(rewards, environment):
    agent = PPO(num_envs=4, rollout_length=8, epochs=2, minibatches=2, hidden_sizes=(8,))
    spec = Spec("Here", environment.observation_space, environment.action_space, environment.reward_names)
    experiment = Experiment(Learner(agent, Own(), rewards, LastRollout(), spec), environment, Same(), Reset())
    experiment.learner.check()
    return experiment


@jax.jit
def train(experiment):
    """Four turns of the loop: learner before and after, what happened, the rollouts and what was learned from."""
    clock = Clock(jnp.int32(0), jnp.float32(1e6))
    state = experiment.init(KEY)

    def turn(carry, _):
        state, clock = carry
        after, tally = experiment.iterate(state, clock)
        clock = clock._replace(steps=clock.steps + experiment.steps_per_iteration)
        rollout = after.learner.memory  # LastRollout: as it was experienced
        relabelled = experiment.learner.rewards.relabel(after.learner.rewards, rollout)
        return (after, clock), (rollout, relabelled.reward, tally)

    (after, _), (rollouts, learned, tallies) = jax.lax.scan(turn, (state, clock), None, 4)
    return state.learner, after.learner, total(tallies), rollouts, learned


def total(tallies):
    return jax.tree.map(lambda x: x.sum(0), tallies)


def learned_something(before, after):
    leaves = zip(*(jax.tree.leaves(state.agent.network) for state in (before, after)), strict=True)
    return all(np.isfinite(b).all() and (a != b).any() for a, b in leaves)


def test_ppo_learns_from_rewards_that_wrap_one_another():
    rewards = NormaliseReturn(0.99, inner=Scale(0.5, inner=RND(coefficient=0.1, **SMALL)))
    before, after, tally, rollouts, learned = jax.device_get(train(experiment_of(rewards, CartPole(max_steps=10))))
    assert learned_something(before, after)
    assert (rollouts.reward == 1).all()  # the environment's, untouched
    assert tally.episodes.episode_return == tally.episodes.length > 0
    assert {"return_scale", "rnd_loss", "rnd_bonus", "value_loss"} <= tally.metrics.keys()
    scale = np.sqrt(after.rewards.norm.variance)
    assert learned.shape == (4, 8, 4) and (learned[-1] > 0.5 / scale).all() and len(np.unique(learned[-1])) > 20
    # The loop remembers the intrinsic return of each environment, and has seen every step once.
    assert after.rewards.inner.observations.count == after.rewards.norm.count == 4 * 8 * 4
    assert (after.rewards.inner.running > 0).all()


def test_ppo_runs_on_two_objectives_once_they_are_weighed():
    rewards = RND(coefficient=0.0, inner=Weighted(("time", "treasure"), (0.25, 2.0)), **SMALL)
    before, after, tally, rollouts, learned = jax.device_get(
        train(experiment_of(rewards, DeepSeaTreasure(max_steps=12)))
    )
    assert learned_something(before, after)
    assert rollouts.reward.shape == (4, 8, 4, 2) and tally.episodes.episode_return.shape == (2,)
    treasure, time = np.moveaxis(rollouts.reward, -1, 0)
    assert (treasure > 0).any() and (time == -1).all()
    np.testing.assert_allclose(learned, 2 * treasure - 0.25, rtol=1e-6)
