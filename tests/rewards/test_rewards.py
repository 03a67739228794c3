"""Rewards: scaling, normalisation, weights and bonuses."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from reward_helpers import KEY, experience_of, learn, relabel, spec_of

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.config.ranges import check_ranges
from forage.config.resolve import resolve
from forage.core.types import Clock, ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea_treasure import DeepSeaTreasure
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.rewards.bonuses.rnd import RND
from forage.rewards.scaling import DataScale, NormaliseReturn, Scale
from forage.rewards.weighted import WeightedRewards
from forage.starts.reset import Reset
from forage.tasks.same import Same

SMALL = {"embedding_size": 16, "hidden_sizes": (16,), "minibatch_size": 16}


# Scale


def test_scale_then_clip():
    rewards = Scale(2.0, -3.0, 5.0)
    result = relabel(rewards, small.at_once(lambda: rewards.init(KEY, spec_of(), 2)), experience_of([[-4, -1], [1, 4]]))
    np.testing.assert_array_equal(result.reward, [[-3, -2], [2, 5]])
    unclipped = Scale(0.5)
    result = relabel(unclipped, (), experience_of([[-4e6, 1]]))
    np.testing.assert_array_equal(result.reward, [[-2e6, 0.5]])


# DataScale


def test_rewards_are_divided_by_the_deviation_of_the_data_and_values_multiplied():
    """Rewards 1, 5, 1, 5 deviate by 2; a value of 3 is 6 in the units of the data, and a loss stays as it is."""
    rewards = DataScale().fit(np.array([1.0, 5.0, 1.0, 5.0]))
    assert rewards.deviation == 2 and DataScale(3.0).fit(np.array([1.0, 5.0])).deviation == 3
    assert DataScale().fit(np.full(4, 7.1)).deviation == 1  # all alike
    np.testing.assert_array_equal(relabel(rewards, (), experience_of([[-4, 1]])).reward, [[-2, 0.5]])
    learner, metrics = SimpleNamespace(rewards=rewards), {"value": 3.0, "critic_loss": 3.0, "advantage": -1.0}
    assert Learner.in_units(learner, metrics) == {"value": 6.0, "critic_loss": 3.0, "advantage": -2.0}
    with pytest.raises(ForageError, match="data-scale takes the deviation of a data set's rewards; name it with"):
        resolve("dqn", "CartPole-v1", rewards="data-scale", steps=4)


# NormaliseReturn


def test_rewards_are_divided_by_the_spread_of_the_discounted_return():
    rng = np.random.default_rng(0)
    envs, discount = 3, 0.9
    rewards = NormaliseReturn(discount)
    state = small.at_once(lambda: rewards.init(KEY, spec_of(), envs))
    running, everything = np.zeros(envs), []
    for _ in range(4):  # the running returns go on from rollout to rollout
        reward = rng.normal(3.0, 2.0, (5, envs))
        terminated = rng.random((5, envs)) < 0.2
        truncated = ~terminated & (rng.random((5, envs)) < 0.2)
        rollout = experience_of(reward, terminated, truncated)
        state, rollout, metrics = learn(rewards, state, rollout, KEY)
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
    state, _, _ = learn(rewards, rewards.init(KEY, spec_of(), 2), experience_of([[0, 0], [0, 0]]), KEY)
    result = relabel(rewards, state, experience_of([[0, 7], [-7, 0]])).reward
    np.testing.assert_array_equal(result, [[0, 1.5], [-1.5, 0]])


# Weighted


def test_rewards_are_weighed_by_name():
    rewards = WeightedRewards(("time", "gold"), (0.5, 10.0))
    spec = spec_of(reward_names=("gold", "pain", "time"))
    rewards.check(spec)
    result = relabel(rewards, rewards.init(KEY, spec, 2), experience_of([[[1, 100, -4], [2, 100, 6]]]))
    np.testing.assert_allclose(result.reward, [[8, 23]])


@pytest.mark.parametrize(
    ("make", "names", "words"),
    [
        (
            lambda: WeightedRewards(("tresure",), (1.0,)),
            ("treasure", "time"),
            "no reward 'tresure'. Did you mean 'treasure'",
        ),
        (lambda: WeightedRewards(("zzz",), (1.0,)), ("treasure", "time"), "Available: treasure, time"),
        (lambda: WeightedRewards(("time",), (1.0,)), (), "gives one reward"),
        (lambda: WeightedRewards(("time",), (1.0, 2.0)), ("time",), "2 weights"),
        (lambda: WeightedRewards(("time", "time"), (1.0, 2.0)), ("time",), "different names"),
        (lambda: WeightedRewards((), ()), ("time",), "one or more"),
        (lambda: Scale(), ("time",), "several rewards"),
        (lambda: NormaliseReturn(inner=Scale()), ("time",), "several rewards"),
        (lambda: RND(), ("time",), "several rewards"),
        (lambda: Scale(1.0, 2.0, 1.0), (), "low of Scale is at most high"),
        (lambda: Scale(-0.5), (), "factor is above 0, not -0.5: learning the opposite"),
        (lambda: Scale(0.0), (), "factor is above 0, not 0"),
        (lambda: RND(proportion=0.0), (), "proportion of RND is above 0 and at most 1, not 0"),
        (lambda: check_ranges(NormaliseReturn(epsilon=0.0), "it"), (), "epsilon of it is above 0, not 0"),
    ],
)
def test_mistakes_are_named(make, names, words):
    with pytest.raises(ForageError) as error:
        check(make(), spec_of(reward_names=names))
    assert words in str(error.value), error.value


# In the loop


def loop_of(rewards, environment):
    agent = PPO(num_envs=4, rollout_length=8, epochs=2, minibatches=2, hidden_sizes=(8,))
    spec = Spec("Here", environment.observation_space, environment.action_space, environment.reward_names)
    loop = DeviceLoop(Learner(agent, AgentPolicy(), rewards, small.KeptRollout(), spec), environment, Same(), Reset())
    loop.learner.check()
    return loop


@jax.jit
def train(loop):
    """Return four turns of the loop: learner before and after, totals, the rollouts, rewards and bonuses."""
    clock = Clock(jnp.int32(0), jnp.float32(1e6))
    state = small.at_once(lambda: loop.init(KEY))

    def turn(carry, _):
        state, clock = carry
        after, tally = loop.iterate(state, clock)
        clock = clock._replace(steps=clock.steps + loop.steps_per_iteration)
        rollout = after.learner.memory
        relabelled = loop.learner.rewards.relabel(after.learner.rewards, rollout)
        bonus = relabelled.rewards.get("bonus", 0 * relabelled.reward)
        return (after, clock), (rollout, relabelled.reward, bonus, tally)

    (after, _), (rollouts, learned, bonus, tallies) = jax.lax.scan(turn, (state, clock), None, 4)
    return state.learner, after.learner, total(tallies), rollouts, learned, bonus


def total(tallies):
    return jax.tree.map(lambda x: x.sum(0), tallies)


def learned_something(before, after):
    leaves = zip(*(jax.tree.leaves(state.agent.network) for state in (before, after)), strict=True)
    return all(np.isfinite(b).all() and (a != b).any() for a, b in leaves)


@pytest.mark.thorough
def test_ppo_learns_from_rewards_that_wrap_one_another():
    rewards = NormaliseReturn(0.99, inner=Scale(0.5, inner=RND(weight=0.1, **SMALL)))
    before, after, tally, rollouts, learned, bonus = jax.device_get(train(loop_of(rewards, CartPole(max_steps=10))))
    assert learned_something(before, after)
    assert (rollouts.reward == 1).all()  # the environment's, untouched
    assert tally.episodes.episode_return == tally.episodes.length > 0
    assert {"return_scale", "rnd_loss", "bonus", "value_loss"} <= tally.metrics.keys()
    scale = np.sqrt(after.rewards.norm.variance)
    np.testing.assert_allclose(learned[-1], 0.5 / scale, rtol=1e-6)  # the bonus stays beside it, unscaled
    assert bonus.shape == (4, 8, 4) and (bonus > 0).all() and len(np.unique(bonus[-1])) > 20
    # The loop remembers the intrinsic return of each environment, and has seen every step once.
    assert after.rewards.inner.own.observations.count == after.rewards.norm.count == 4 * 8 * 4
    assert (after.rewards.inner.running[0] > 0).all()


@pytest.mark.thorough
def test_ppo_runs_on_two_objectives_once_they_are_weighed():
    rewards = RND(weight=0.0, inner=WeightedRewards(("time", "treasure"), (0.25, 2.0)), **SMALL)
    before, after, tally, rollouts, learned, _ = jax.device_get(train(loop_of(rewards, DeepSeaTreasure(max_steps=12))))
    assert learned_something(before, after)
    assert rollouts.reward.shape == (4, 8, 4, 2) and tally.episodes.episode_return.shape == (2,)
    treasure, time = np.moveaxis(rollouts.reward, -1, 0)
    assert (treasure > 0).any() and (time == -1).all()
    np.testing.assert_allclose(learned, 2 * treasure - 0.25, rtol=1e-6)
