"""PPO-Lagrangian: the multiplier and the advantage by hand, costs across rollouts, and PPO without costs."""

import dataclasses

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.agents.policy_gradient.ppo import PPO
from forage.config.resolve import resolve
from forage.core.types import AGENT, GONE, Batch, Clock, Experience, ForageError, Spec
from forage.rewards.weighted import WeightedRewards
from forage_papers.agents.policy_gradient.ppo_lagrangian import PPOLagrangian, episode_totals

SPEC = Spec("Here", gymnasium.spaces.Box(-1, 1, (1,), np.float32), gymnasium.spaces.Discrete(2), ("reward", "cost"))
CLOCK, KEY = Clock(jnp.int32(0), jnp.float32(100)), jax.random.key(0)
SMALL = {"num_envs": 2, "rollout_length": 3, "minibatches": 1, "epochs": 1, "hidden_sizes": (4,)}
AGENT_HERE = PPOLagrangian(**SMALL, limit=2.0, multiplier_rate=0.5, initial_multiplier=1.0)


def batch_of(cost, terminated, source=AGENT):
    cost, terminated = np.asarray(cost, np.float32), np.asarray(terminated, bool)
    observation, zero = np.zeros((3, 2, 1), np.float32), np.zeros((3, 2), np.float32)
    experience = Experience(
        observation, np.zeros((3, 2), np.int32), zero, observation, terminated, np.zeros((3, 2), bool),
        np.broadcast_to(np.int32(source), (3, 2)), (), rewards={"cost": cost},
    )  # fmt: skip
    return jax.device_put(Batch(experience, np.ones(2, np.float32), np.arange(2)))


def test_costs_are_summed_across_rollouts():
    ended = np.array([[0, 0], [1, 0], [0, 0]], bool)
    under_way, totals = episode_totals(jnp.array([5.0, 7.0]), jnp.ones((3, 2)), ended)
    np.testing.assert_array_equal(totals, [[6, 8], [7, 9], [1, 10]])
    np.testing.assert_array_equal(under_way, [1, 10])


def test_the_multiplier_climbs_by_the_mean_cost_beyond_the_limit_and_stays_above_zero():
    learn = jax.jit(AGENT_HERE.learn)
    state = small.at_once(lambda: AGENT_HERE.init(KEY, SPEC))
    # Nothing ended: nothing is known of an episode's cost.
    state, metrics, _ = learn(state, batch_of(np.ones((3, 2)), np.zeros((3, 2))), CLOCK, KEY)
    assert metrics["multiplier"] == 1.0
    np.testing.assert_array_equal(state.cost, 3.0)
    # Episodes of cost 4, 1 and 5 end: 4/3 beyond the limit in the mean.
    ends = [[1, 0], [1, 1], [0, 0]]
    state, metrics, _ = learn(state, batch_of(np.ones((3, 2)), ends), CLOCK, KEY)
    np.testing.assert_allclose(metrics["multiplier"], 1 + 0.5 * (10 / 3 - 2), rtol=1e-6)
    np.testing.assert_array_equal(AGENT_HERE.truncate(state).cost, 0.0)
    # An agent that has left ends no episode; the other's cost nothing, and 0 is the least.
    source = np.array([[AGENT, GONE]] * 3)
    quiet = AGENT_HERE.truncate(state)._replace(multiplier=jnp.float32(0.25))
    _, metrics, _ = learn(quiet, batch_of(np.zeros((3, 2)), np.ones((3, 2)), source), CLOCK, KEY)
    assert metrics["multiplier"] == 0.0
    # A step that was lost ends the sum of its episode, and tells nothing of it.
    source = np.array([[AGENT, AGENT], [GONE, AGENT], [AGENT, AGENT]])
    state, metrics, _ = learn(quiet, batch_of(np.ones((3, 2)), [[0, 0], [1, 0], [0, 0]], source), CLOCK, KEY)
    assert metrics["multiplier"] == 0.25
    np.testing.assert_array_equal(state.cost, [1, 3])


def test_the_advantage_weighs_return_and_cost_by_hand():
    agent = dataclasses.replace(AGENT_HERE, discount=0.5, cost_discount=0.25, gae_lambda=1.0)
    experience = batch_of([[4, 0], [8, 0], [0, 0]], [[0, 0], [1, 0], [0, 0]]).experience
    experience = experience._replace(reward=jnp.array([[1.0, 0], [2, 0], [0, 0]]))
    zero = jnp.zeros((3, 2, 2))
    gains = agent.advantages(experience, zero, zero, agent.gae_lambda)
    np.testing.assert_allclose(gains[:, 0], [[1 + 0.5 * 2, 4 + 0.25 * 8], [2, 8], [0, 0]])
    state = small.at_once(lambda: agent.init(KEY, SPEC))._replace(multiplier=jnp.float32(3.0))
    np.testing.assert_allclose(agent.combine_advantages(state, gains)[0, 0], (2 - 3 * 6) / 4)


def test_without_a_multiplier_the_policy_is_learned_as_ppo_learns_it():
    agent = dataclasses.replace(AGENT_HERE, initial_multiplier=0.0, multiplier_rate=0.0, value_coefficient=0.0)
    plain = PPO(**SMALL, value_coefficient=0.0)
    batch = batch_of(np.ones((3, 2)), np.zeros((3, 2)))
    batch = batch._replace(experience=batch.experience._replace(reward=jnp.arange(6.0).reshape(3, 2)))
    ours, theirs = (small.at_once(lambda a=a: a.init(KEY, SPEC)) for a in (agent, plain))
    critic = ours.network.critic
    where = lambda network: (network.critic.weight, network.critic.bias)  # noqa: E731
    one = equinox.tree_at(where, ours.network, (critic.weight[..., :1], critic.bias[..., :1]))
    theirs = theirs._replace(network=one)
    ours, theirs = (jax.jit(a.learn)(s, batch, CLOCK, KEY)[0] for a, s in ((agent, ours), (plain, theirs)))
    np.testing.assert_allclose(ours.network.actor.weight, theirs.network.actor.weight, atol=1e-6)


def test_the_cost_must_be_one_of_the_rewards():
    rewards = WeightedRewards(("reward",), (1.0,))
    resolve("ppo-lagrangian", "Pendulum-cost", rewards=rewards).learner()
    with pytest.raises(ForageError, match="reward called price apart from the rest, and Pendulum-cost has the rewards"):
        resolve("ppo-lagrangian", "Pendulum-cost", agent_options={"cost": "price"}, rewards=rewards).learner()
    with pytest.raises(ForageError, match="Pendulum-v1 has one reward alone"):
        resolve("ppo-lagrangian", "Pendulum-v1").learner()
