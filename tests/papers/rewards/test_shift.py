"""Reward shifting: a constant that leaves a bonus unchanged, and its optimism."""

import numpy as np
import pytest
import small
from reward_helpers import KEY, experience_of, learn, relabel, spec_of

from forage.core.types import ForageError
from forage.rewards.scaling import Scale
from forage_papers.rewards.bonuses.counts import Counts
from forage_papers.rewards.shift import Shift


def test_a_constant_is_added_to_what_is_within_and_not_to_the_bonus():
    rewards = Shift(-0.5, inner=Scale(2.0, inner=Counts(weight=1.0)))
    state = small.at_once(lambda: rewards.init(KEY, spec_of(), 2))
    rollout = experience_of([[1, -3], [0, 2]])
    state, rollout, metrics = learn(rewards, state, rollout, KEY)
    found = relabel(rewards, state, rollout)
    np.testing.assert_allclose(found.reward, [[1.5, -6.5], [-0.5, 3.5]])
    np.testing.assert_allclose(found.rewards["bonus"], 0.5)  # one state, seen four times
    assert "new_states" in metrics
    np.testing.assert_array_equal(rollout.reward, [[1, -3], [0, 2]])


@pytest.mark.parametrize("shift", [-0.5, 0.5])
def test_it_is_another_start_of_the_values(shift):
    """Q-learning with r + shift from Q = 0 acts as Q-learning with r does from Q = -shift / (1 - discount)."""
    discount, rate = 0.9, 0.5

    def run_learn(q, shifted):
        rng, state, actions = np.random.default_rng(0), 0, []
        for _ in range(200):
            action = int(np.argmax(q[state]))
            after, reward = int(rng.integers(3)), float(rng.normal())
            reward = float(relabel(Shift(shift), (), experience_of([[reward]])).reward[0, 0]) if shifted else reward
            q[state, action] += rate * (reward + discount * q[after].max() - q[state, action])
            actions.append(action)
            state = after
        return q, actions

    q, actions = run_learn(np.zeros((3, 4)), True)
    other, same = run_learn(np.full((3, 4), -shift / (1 - discount)), False)
    assert actions == same
    np.testing.assert_allclose(q, other + shift / (1 - discount), atol=1e-4)
    assert len(set(actions[:12])) > 2 if shift < 0 else True  # optimism tries everything


def test_several_rewards_are_named():
    with pytest.raises(ForageError, match="several rewards"):
        Shift().check(spec_of(reward_names=("gold", "time")))
