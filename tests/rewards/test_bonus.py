"""Common features of bonuses: weights, schedules, nesting, and agents with and without a bonus head."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from reward_helpers import KEY, experience_of, learn, spec_of
from tiers import gate_cases

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.core.types import GONE, Clock, Experience, ForageError
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.nn.normalise import RunningNorm
from forage.rewards.bonuses.base import Bonus
from forage.rewards.bonuses.icm import ICM
from forage.rewards.bonuses.rnd import RND
from forage.rewards.scaling import NormaliseReturn, Scale


class NotedBonus(Bonus):
    """Novelty is the stored rewards_info: the time of the step within its rollout, plus one."""

    normalise: bool = False

    def begin(self, key: Any, spec: Any, num_envs: int) -> Any:
        return jnp.int32(0)

    def remark(self, spec: Any) -> Any:
        return jnp.zeros(())

    def novelty(self, own: Any, experience: Experience) -> Any:
        return experience.rewards_info

    def study(self, own: Any, rollout: Experience, clock: Clock, key: Any) -> Any:
        time = jnp.arange(1.0, len(rollout.reward) + 1)
        return own + 1, jnp.broadcast_to(time[:, None], rollout.reward.shape), {"noted": own}


def at(share):
    return Clock(jnp.int32(1000 * share), jnp.float32(1000))


@pytest.mark.parametrize(
    ("schedule", "weights"),
    [("fixed", [2.0, 2.0, 2.0]), ("linear", [2.0, 1.1, 0.2]), ("exponential", [2.0, 2 * 0.1**0.5, 0.2])],
)
def test_weights_follow_their_schedule(schedule, weights):
    bonus = NotedBonus(2.0, 0.1, schedule)
    found = [float(bonus.scheduled_weight(RunningNorm.from_shape(()), at(share))) for share in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(found, weights, rtol=1e-6)


def test_a_balanced_weight_grows_with_what_is_rewarded():
    rng = np.random.default_rng(0)
    reward, ended = rng.normal(size=(50, 2)), rng.random((50, 2)) < 0.1

    def run_learn(factor):
        bonus = NotedBonus(0.5, schedule="balanced", norm_discount=0.9)
        state = bonus.init(KEY, spec_of(), 2)
        return float(bonus.learn(state, experience_of(factor * reward, ended), at(0.0), KEY)[0].weight)

    running, returns = np.zeros(2), []
    for now, over in zip(reward, ended, strict=True):
        running = 0.9 * running + now
        returns.append(running)
        running = np.where(over, 0, running)
    np.testing.assert_allclose(run_learn(1.0), 0.5 * np.std(returns), rtol=1e-4)
    np.testing.assert_allclose(run_learn(100.0), 100 * run_learn(1.0), rtol=1e-4)
    assert run_learn(0.0) == 0.5  # nothing was rewarded yet


def test_bonuses_add_up_and_each_keeps_its_note():
    rewards = NotedBonus(10.0, inner=Scale(2.0, inner=NotedBonus(1.0)))
    state = small.at_once(lambda: rewards.init(KEY, spec_of(), 3))
    rollout = experience_of(np.ones((4, 3)))
    state, rewards_info, _ = rewards.learn(state, rollout, at(0.0), KEY)
    assert jax.tree.structure(rewards_info) == jax.tree.structure(rewards.example_info(spec_of()))
    found = rewards.relabel(state, rollout._replace(rewards_info=rewards_info))
    np.testing.assert_array_equal(found.reward, np.full((4, 3), 2.0))
    np.testing.assert_array_equal(found.rewards["bonus"], np.broadcast_to(11 * np.arange(1, 5)[:, None], (4, 3)))


def test_a_normalised_bonus_has_returns_of_unit_spread():
    rewards = NotedBonus(1.0, normalise=True, norm_discount=0.0)
    state = small.at_once(lambda: rewards.init(KEY, spec_of(), 3))
    rollout = experience_of(np.ones((4, 3)))
    state, rewards_info, _ = rewards.learn(state, rollout, at(0.0), KEY)
    found = rewards.relabel(state, rollout._replace(rewards_info=rewards_info)).rewards["bonus"]
    np.testing.assert_allclose(np.std(found), 1.0, rtol=1e-5)


@pytest.mark.parametrize("own_head", [False, True])
def test_an_agent_gets_the_sum_or_hears_of_the_bonus_by_itself(own_head, monkeypatch):
    """PPO's input for learning, recorded by a spy in place of its `learn`."""
    spec = spec_of(gymnasium.spaces.Box(-1, 1, (2,), np.float32))
    agent = PPO(num_envs=2, rollout_length=4, minibatches=1, hidden_sizes=(8,), bonus_head=own_head)
    learner = Learner(agent, AgentPolicy(), NotedBonus(10.0), LastRollout(), spec)
    heard = {}

    def spy(self, state, batch, clock, key):
        heard["batch"] = batch.experience
        return state, {}, jnp.zeros(2)

    monkeypatch.setattr(PPO, "learn", spy)
    state = small.at_once(lambda: learner.init(KEY))
    example = learner.example(state.agent, state.behaviour)
    rollout = jax.tree.map(lambda x: jnp.zeros((4, 2, *x.shape), x.dtype), example)
    learner.learn(state, rollout._replace(reward=np.ones((4, 2)), rewards_info=()), at(0.0), KEY)
    bonus = np.broadcast_to(10 * np.arange(1.0, 5)[:, None], (4, 2))
    if own_head:
        np.testing.assert_array_equal(heard["batch"].rewards["bonus"], bonus)
        np.testing.assert_array_equal(heard["batch"].reward, 1.0)
    else:
        assert heard["batch"].rewards == {}
        np.testing.assert_array_equal(heard["batch"].reward, 1 + bonus)


def test_a_schedule_that_is_none_is_named():
    with pytest.raises(ForageError, match="schedule of NotedBonus is one of fixed, linear, exponential, balanced"):
        NotedBonus(schedule="cosine")


SMALL = {"hidden_sizes": (16,), "embedding_size": 8, "minibatch_size": 8}
LEARNING = {
    "rnd": RND(learning_rate=1e-2, **SMALL),
    "icm": ICM(learning_rate=1e-2, head_size=8, **SMALL),
    "balanced": RND(schedule="balanced", **SMALL),
    "normalise-return": NormaliseReturn(),
}


@pytest.mark.parametrize("name", gate_cases(LEARNING, list(LEARNING)[:2]))
def test_nothing_is_learned_from_agents_that_have_left(name):
    """The values in the rows of agents that have left do not matter."""
    rewards, rng = LEARNING[name], np.random.default_rng(0)
    state = small.at_once(lambda: rewards.init(KEY, spec_of(), 6))
    seen, paid = rng.normal(size=(5, 6, 2)).astype(np.float32), rng.normal(size=(5, 6)).astype(np.float32)
    gone = np.arange(6) >= 3
    found = []
    for other in (7.0, -3.0):
        observation = np.where(gone[:, None], np.float32(other), seen)
        rollout = experience_of(np.where(gone, 0, paid), np.broadcast_to(gone, (5, 6)), None, observation)
        rollout = rollout._replace(
            action=rollout.action.astype(np.int32),
            source=np.broadcast_to(np.where(gone, GONE, 0).astype(np.int32), (5, 6)),
        )
        after, rollout, metrics = learn(rewards, state, rollout, KEY)
        found.append((after, metrics))

    def present(leaf):
        """Return the part of each environment's values for those that are present."""
        return leaf[:3] if leaf.shape[:1] == (6,) else leaf[:, :3] if leaf.shape == (2, 6) else leaf

    one, other = (jax.tree.map(present, each) for each in found)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), one, other)
