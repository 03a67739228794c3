"""What all bonuses have in common: weights, schedules, nesting, and agents that hear of them or do not."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from rewarded import KEY, experience_of, spec_of

from forage.agents.ppo import PPO
from forage.behaviours.own import Own
from forage.learner import Learner
from forage.memory.rollout import LastRollout
from forage.nn.normalise import RunningNorm
from forage.rewards.bonus import Bonus
from forage.rewards.scaling import Scale
from forage.types import Clock, Experience, ForageError


class Noted(Bonus):
    """Novelty is what was noted: the time of the step within its rollout, plus one."""

    normalise: bool = False

    def begin(self, key: Any, spec: Any, num_envs: int) -> Any:
        return jnp.int32(0)

    def remark(self, spec: Any) -> Any:
        return jnp.zeros(())

    def novelty(self, own: Any, experience: Experience) -> Any:
        return experience.note

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
    bonus = Noted(2.0, 0.1, schedule)
    found = [float(bonus.scheduled(RunningNorm.of(()), at(share))) for share in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(found, weights, rtol=1e-6)


def test_a_balanced_weight_grows_with_what_is_rewarded():
    rng = np.random.default_rng(0)
    reward, ended = rng.normal(size=(50, 2)), rng.random((50, 2)) < 0.1

    def learned(factor):
        bonus = Noted(0.5, schedule="balanced", norm_discount=0.9)
        state = bonus.init(KEY, spec_of(), 2)
        return float(bonus.learn(state, experience_of(factor * reward, ended), at(0.0), KEY)[0].weight)

    running, returns = np.zeros(2), []
    for now, over in zip(reward, ended, strict=True):
        running = 0.9 * running + now
        returns.append(running)
        running = np.where(over, 0, running)
    np.testing.assert_allclose(learned(1.0), 0.5 * np.std(returns), rtol=1e-4)
    np.testing.assert_allclose(learned(100.0), 100 * learned(1.0), rtol=1e-4)
    assert learned(0.0) == 0.5  # nothing was rewarded yet


def test_bonuses_add_up_and_each_keeps_its_note():
    rewards = Noted(10.0, inner=Scale(2.0, inner=Noted(1.0)))
    state = small.at_once(lambda: rewards.init(KEY, spec_of(), 3))
    rollout = experience_of(np.ones((4, 3)))
    state, note, _ = rewards.learn(state, rollout, at(0.0), KEY)
    assert jax.tree.structure(note) == jax.tree.structure(rewards.note(spec_of()))
    found = rewards.relabel(state, rollout._replace(note=note))
    np.testing.assert_array_equal(found.reward, np.full((4, 3), 2.0))
    np.testing.assert_array_equal(found.bonus, np.broadcast_to(11 * np.arange(1, 5)[:, None], (4, 3)))


def test_a_normalised_bonus_has_returns_of_unit_spread():
    rewards = Noted(1.0, normalise=True, norm_discount=0.0)
    state = small.at_once(lambda: rewards.init(KEY, spec_of(), 3))
    rollout = experience_of(np.ones((4, 3)))
    state, note, _ = rewards.learn(state, rollout, at(0.0), KEY)
    found = rewards.relabel(state, rollout._replace(note=note)).bonus
    np.testing.assert_allclose(np.std(found), 1.0, rtol=1e-5)


@pytest.mark.parametrize("own_head", [False, True])
def test_an_agent_gets_the_sum_or_hears_of_the_bonus_by_itself(own_head, monkeypatch):
    """What PPO is given to learn from, seen by a spy in the place of its `learn`."""
    spec = spec_of(gymnasium.spaces.Box(-1, 1, (2,), np.float32))
    agent = PPO(num_envs=2, rollout_length=4, minibatches=1, hidden_sizes=(8,), bonus_head=own_head)
    learner = Learner(agent, Own(), Noted(10.0), LastRollout(), spec)
    heard = {}

    def spy(self, state, batch, clock, key):
        heard["batch"] = batch.experience
        return state, {}, jnp.zeros(2)

    monkeypatch.setattr(PPO, "learn", spy)
    state = small.at_once(lambda: learner.init(KEY))
    example = learner.example(state.agent, state.behaviour)
    rollout = jax.tree.map(lambda x: jnp.zeros((4, 2, *x.shape), x.dtype), example)
    learner.learn(state, rollout._replace(reward=np.ones((4, 2)), note=()), at(0.0), KEY)
    bonus = np.broadcast_to(10 * np.arange(1.0, 5)[:, None], (4, 2))
    if own_head:
        np.testing.assert_array_equal(heard["batch"].bonus, bonus)
        np.testing.assert_array_equal(heard["batch"].reward, 1.0)
    else:
        assert heard["batch"].bonus is None
        np.testing.assert_array_equal(heard["batch"].reward, 1 + bonus)


def test_a_schedule_that_is_none_is_named():
    with pytest.raises(ForageError, match="no schedule 'cosine'; there are fixed, linear, exponential, balanced"):
        Noted(schedule="cosine")
