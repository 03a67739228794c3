"""Values of policies from logs, against numbers worked out by hand: chains, one-step problems, trees, behaviours."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.data.logged import LoggedEpisodes, Transitions
from forage.evaluation.off_policy import estimate
from forage.evaluation.off_policy.behaviour import fit_behaviours, reliability_error
from forage.evaluation.off_policy.encoding import Encoder, PolicyActions, Polynomial
from forage.evaluation.off_policy.estimators.cross_fitted_q import CrossFit
from forage.evaluation.off_policy.trees import bin_columns, column_cuts, grow_tree
from forage.evaluation.off_policy.value import estimate_value, thin_episodes

Discrete, MultiDiscrete, Box = gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete, gymnasium.spaces.Box


def greedy(function):
    """Return the answer of a policy that always takes one action."""
    return lambda observation: PolicyActions(function(observation)[None], np.ones((1, len(observation))))


def one_step(observation, action, reward, **more) -> Transitions:
    """Return a log of episodes of one step."""
    over = np.ones(len(reward), bool)
    return Transitions(observation, action, reward, observation, over, ~over, **more)


def chain(episodes: int = 60, length: int = 6, seed: int = 0) -> Transitions:
    """Log two states and two actions: 0 stays, 1 switches, with the reward state + action / 2; actions at random."""
    action = np.random.default_rng(seed).integers(0, 2, (episodes, length))
    state = np.concatenate([np.zeros((episodes, 1), int), action.cumsum(1) % 2], 1)
    eye, last = np.eye(2), np.tile(np.arange(length) == length - 1, episodes)
    reward = (state[:, :-1] + action / 2).ravel()
    return Transitions(
        eye[state[:, :-1].ravel()], action.ravel(), reward, eye[state[:, 1:].ravel()], np.zeros(len(last), bool), last
    )


def test_two_states():
    """To the second state and stay there: V(1) = 1 + V(1) / 2 = 2, and J = V(0) = 1/2 + V(1) / 2 = 3/2."""
    log = chain()
    found = estimate_value(log, greedy(lambda o: o.argmax(1) == 0), Discrete(2), 0.5)
    assert found.value == pytest.approx(1.5, abs=0.01)
    assert found.low < 1.5 < found.high and found.high - found.low < 0.1
    assert found.others["dr"].value == pytest.approx(1.5, abs=0.02)
    assert [one["log_loss"] for one in found.behaviour] == pytest.approx([np.log(2)] * 2, abs=0.05)
    # With the true probabilities in the log nothing is fitted. Staying at 0 for ever is worth nothing.
    told = dataclasses.replace(log, behaviour_probability=np.full(log.transitions, 0.5))
    found = estimate_value(told, greedy(lambda o: np.zeros(len(o), int)), Discrete(2), 0.5)
    assert found.behaviour == () and found.value == pytest.approx(0, abs=0.01)
    assert found.others["dr"].value == pytest.approx(0, abs=0.02) == found.others["wpdis"].value


def test_a_stochastic_policy():
    """Each action with 1/2: V(1) - V(0) = 1, V(0) = 1/4 + (V(0) + V(1)) / 4, so J = V(0) = 1."""
    both = lambda o: PolicyActions(np.stack([np.zeros(len(o), int), np.ones(len(o), int)]), np.full((2, len(o)), 0.5))  # noqa: E731
    found = estimate_value(chain(200), both, Discrete(2), 0.5)
    assert found.value == pytest.approx(1.0, abs=0.03) and found.warnings == ()
    assert found.effective_episodes > 150 and found.rare == 0


def test_actions_of_numbers():
    """One step of reward -(a - o)^2, o and a uniform on [-1, 1]: a = o / 2 is worth -E[o^2] / 4 = -1/12."""
    draw = np.random.default_rng(0)
    observation, action = draw.uniform(-1, 1, (2, 500, 1)).astype(np.float32)
    log = one_step(observation, action, -((action - observation)[:, 0] ** 2) + 0.1 * draw.normal(size=500))
    space = Box(-1, 1, (1,), np.float32)
    found = estimate_value(log, greedy(lambda o: o / 2), space, 0.9)
    assert found.value == pytest.approx(-1 / 12, abs=0.015) and found.low < -1 / 12 < found.high
    assert found.high - found.low < 0.06 and found.others == {} and found.warnings == ()


def test_several_columns_of_an_action():
    """Rewards of one step are a table of three times two choices, of which the last is worth 7."""
    table = np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 7.0]])
    action = np.random.default_rng(0).integers(0, [3, 2], (400, 2))
    log = one_step(np.zeros((400, 1), np.float32), action, table[tuple(action.T)])
    found = estimate_value(log, greedy(lambda o: np.tile([2, 1], (len(o), 1))), MultiDiscrete([3, 2]), 0.9)
    assert found.value == pytest.approx(7, abs=0.1)
    assert found.others["wpdis"].value == pytest.approx(7, abs=1e-6)
    assert found.others["dr"].value == pytest.approx(7, abs=0.2)


def test_a_policy_that_the_log_does_not_cover_is_warned_of():
    """The third choice was logged once in 300 episodes."""
    action = np.random.default_rng(0).integers(0, 2, 300)
    action[7] = 2
    log = one_step(np.zeros((300, 1), np.float32), action, np.where(action == 2, 5.0, 1.0))
    found = estimate_value(log, greedy(lambda o: np.full(len(o), 2)), Discrete(3), 0.9)
    assert found.rare == 1
    assert "the log does not cover what this policy does" in found.warnings[0]
    assert "100 % of the logged observations the policy does what the log hardly has" in found.warnings[1]
    assert "Warning: the log does not cover" in str(found)
    numbers = one_step(np.zeros((300, 1)), np.random.default_rng(0).normal(size=(300, 1)), np.ones(300))
    found = estimate_value(numbers, greedy(lambda o: np.full((len(o), 1), 9.0)), Box(-9, 9, (1,)), 0.9)
    assert found.rare == 1 and "no action near it" in str(found)


def test_the_interval_adds_chance_spread_and_shift():
    """var / n = 2 / 2, (1 + 1/2) var of the fits = 3/2 * 2, shift = (2 - 1)^2: the error is the root of 5."""
    rows = np.zeros(2)
    found = CrossFit(np.array([1.0, 3.0]), np.array([0.0, 2.0]), rows, rows, rows, rows, 0.0, 0.0)
    assert found.value == 1 and found.error == pytest.approx(5**0.5)
    low, high = found.interval(0.95)
    assert (low + high) / 2 == pytest.approx(1) and (high - low) / 2 == pytest.approx(12.706 * 5**0.5, rel=1e-3)


def test_trees_split_where_the_target_does():
    columns = np.array([[0.0, 5], [1, 4], [2, 5], [3, 4], [4, 5], [5, 4]])
    cuts = column_cuts(columns)
    assert [list(one) for one in cuts] == [[0.5, 1.5, 2.5, 3.5, 4.5], [4.5]]
    bins = bin_columns(columns, cuts)
    tree = grow_tree(bins, np.array([1.0, 1, 1, 9, 9, 5]), leaves=3, least=1)
    leaf = tree.leaf_of(bins)
    assert tree.leaves == 3 and leaf[0] == leaf[1] == leaf[2] and leaf[3] == leaf[4] and len(set(leaf)) == 3
    assert grow_tree(bins, np.array([1.0, 1, 1, 9, 9, 5]), leaves=3, least=3).leaves == 2
    assert grow_tree(bins, np.ones(6), leaves=3, least=1).leaves == 1
    assert tree.features(bins).sum(1).tolist() == [1] * 6
    many = np.random.default_rng(0).uniform(size=(1000, 1))
    assert len(column_cuts(many)[0]) == 31


def test_columns_and_their_products():
    """A number, a column that never varies and a choice of two: standardised, within the data's range."""
    observation, action = np.array([[0.0, 3], [2, 3], [4, 3]]), np.array([0, 1, 1])
    encoder = Encoder.from_data(observation, action, Discrete(2))
    columns = encoder(observation, action)
    assert encoder.observed == 2
    np.testing.assert_allclose(columns[:, 0], np.array([-1, 0, 1]) * 1.5**0.5)
    np.testing.assert_allclose(columns[:, 1], 0)
    np.testing.assert_allclose(encoder(np.array([[99.0, 3]]), np.array([0]))[0, 0], 1.5**0.5)
    features = Polynomial.from_columns(columns, 2)(columns)
    assert features.shape == (3, 1 + 4 + 4)  # 1, columns, the number times itself and both choices, and these two
    np.testing.assert_allclose(features[:, 5], columns[:, 0] ** 2)
    np.testing.assert_allclose(features[:, 6], columns[:, 0] * columns[:, 2])


def test_fitted_behaviours_are_calibrated():
    """Action 1 with 0.8 or 0.2: the least log-loss is the entropy 0.5004; without observations it is log 2."""
    draw = np.random.default_rng(0)
    state = draw.integers(0, 2, 4000)
    action = (draw.random(4000) < np.where(state == 1, 0.8, 0.2)).astype(int)[:, None]
    observed, once = state[:, None] - 0.5, np.ones((1, 4000))
    episode = np.arange(4000) // 4
    for found in fit_behaviours(observed, action, [2], episode, np.zeros((1, 4000, 1), int), once):
        assert found.log_loss == pytest.approx(0.5004, abs=0.02) and found.plain_loss == pytest.approx(0.693, abs=0.005)
        assert found.reliability < 0.03 and found.policy.max() == 0
        np.testing.assert_allclose(np.exp(found.logged.logarithm[(state == 1) & (action[:, 0] == 1)]), 0.8, atol=0.04)
    numbers = (0.5 * observed + 0.1 * draw.normal(size=(4000, 1))) * 10
    far = np.stack([np.full((4000, 1), 2.5), np.full((4000, 1), 99.0)])
    for found in fit_behaviours(observed, numbers, None, episode, far, np.full((2, 4000), 0.5)):
        assert found.log_loss == pytest.approx(0.5 * np.log(2 * np.pi * np.e), abs=0.03)  # deviation 1
        assert found.policy.min() == 0.5 and found.policy[state == 0].mean() == 1  # 99 is far, 2.5 from 0 only
        assert found.reliability < 0.02
    assert reliability_error(np.array([[0.75, 0.25]] * 4), np.array([0, 0, 0, 1])) == 0
    assert reliability_error(np.array([[0.9, 0.1]] * 2), np.array([0, 1])) == pytest.approx(0.4)


def test_rows_behind_a_gap_are_no_starts():
    """40 episodes start at 0, with reward 1, and have their second row, at 1 with reward 5, behind a gap: J = 1 + 5/2.

    Starts at 1, which are worth 5, would make it (3.5 + 5) / 2.
    """
    state = np.tile([0, 1], 40)
    action = np.random.default_rng(0).integers(0, 2, 80)
    over = state == 1
    log = Transitions(np.eye(2)[state], action, 1.0 + 4 * state, np.eye(2)[np.ones(80, int)], over, ~over)
    log = dataclasses.replace(log, behaviour_probability=np.full(80, 0.5))
    stay = greedy(lambda o: np.zeros(len(o), int))
    found = estimate_value(log, stay, Discrete(2), 0.5)
    assert found.value == pytest.approx(4.25, abs=0.03) and found.episodes == 80
    log = log.mark_starts(np.arange(80) % 2 == 0)
    found = estimate_value(log, stay, Discrete(2), 0.5)
    assert found.value == pytest.approx(3.5, abs=0.03) and found.low < 3.5 < found.high
    assert found.episodes == found.logged.episodes == found.others["dr"].episodes == 40
    assert found.logged.value == found.others["wpdis"].value == 1 and found.cut == 0.5
    assert found.others["dr"].value == pytest.approx(3.5, abs=0.03)
    logged = LoggedEpisodes.from_data(log)
    table = estimate(logged, lambda o: np.eye(2)[np.zeros(len(o), int)], 0.5, ("pdis", "wpdis"))
    assert table["wpdis"].value == 1 and table["wpdis"].episodes == 40
    some = thin_episodes(log, 20)  # a start with what follows its gap
    assert some.episodes == 20 and some.starts.tolist() == [True, False] * 10
    for ask in (
        lambda log: estimate_value(log, stay, Discrete(2), 0.5),
        lambda log: estimate(LoggedEpisodes.from_data(log), lambda o: np.full((len(o), 2), 0.5), 0.5, ("wpdis",)),
    ):
        with pytest.raises(ForageError, match="none of the log's 80 episodes has its first row"):
            ask(log.mark_starts(np.zeros(80, bool)))


def test_few_effective_episodes_have_no_interval_by_weights():
    """The third choice was logged 9 times of 300, with equal weights: 9 effective episodes; 10 are enough."""
    for times in (9, 10):
        action = np.repeat([0, 2], [300 - times, times])
        log = one_step(np.zeros((300, 1), np.float32), action, action + np.arange(300) % 2)
        log = dataclasses.replace(log, behaviour_probability=np.where(action == 2, times / 300, 1 - times / 300))
        found = estimate_value(log, greedy(lambda o: np.full(len(o), 2)), Discrete(3), 0.9)
        assert found.weighed_episodes == pytest.approx(times)
        for one in ("dr", "wpdis"):
            assert (found.others[one].low is None) == (found.others[one].high is None) == (times == 9)
        assert ("(no interval)" in str(found)) == ("have no interval (that takes 10)" in str(found)) == (times == 9)


def test_large_logs_are_thinned_by_whole_episodes():
    log = chain(50, 6)
    some = thin_episodes(log, 60)
    assert some.episodes == 10 and some.lengths.tolist() == [6] * 10 and some.numbers[-1] == 9
    assert thin_episodes(log, 300) is log
    with pytest.raises(ForageError, match="episodes are too long"):
        thin_episodes(log, 11)


WRONG = [
    ({"discount": 1.0}, r"discount of an estimated value is from 0 to below 1, such as 0.99, not 1"),
    ({"discount": 0.5, "confidence": 95}, r"confidence lies between 0 and 1, such as 0.95, not 95"),
    (
        {"discount": 0.5, "space": gymnasium.spaces.Text(3)},
        "actions that are one choice, several choices or numbers",
    ),
    ({"discount": 0.5, "data": chain(1)}, "needs two logged episodes or more; this log has one"),
]


@pytest.mark.parametrize(("changed", "said"), WRONG, ids=[said[:40] for _, said in WRONG])
def test_one_sentence(changed, said):
    words = {"data": chain(10), "space": Discrete(2)} | changed
    with pytest.raises(ForageError, match=said):
        estimate_value(answer=greedy(lambda o: np.zeros(len(o), int)), **words)
