"""Off-policy estimates of tabular MDPs against exact values: within their own error, less of it with more data."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from tiers import gate_cases

from forage.core.types import ForageError
from forage.environments import make
from forage.environments.tabular.makers import chain, frozen_lake, river_swim, seeded_garnet
from forage.environments.tabular.mdp import Tabular
from forage.environments.tabular.values import expected_return, finite_horizon_return, occupancy, optimal
from forage.evaluation.off_policy import (
    ESTIMATORS,
    LoggedEpisodes,
    NetworkDice,
    NetworkQ,
    Target,
    estimate,
    log_episodes,
    soften_policy,
    tabular_policy,
)
from forage.evaluation.off_policy.estimators import density_ratio
from forage.evaluation.off_policy.estimators.doubly_robust import doubly_robust
from forage.evaluation.off_policy.estimators.fitted_q import fitted_q

MDPS = {
    "river": (functools.partial(river_swim, max_steps=40), 0.8),
    "chain": (functools.partial(chain, max_steps=40), 0.8),
    "garnet": (functools.partial(seeded_garnet, 3, 8, 3, 3, 40), 0.8),
    "lake": (functools.partial(frozen_lake, 4, 0.2), 0.9),
}
WITHIN = 4.5  # standard errors


@functools.cache
def problem(name: str, episodes: int = 2000, seed: int = 0):
    """Return the MDP, its discount, the target's table and policy, and the log of a softer policy."""
    maker, discount = MDPS[name]
    mdp = maker()
    table = 0.7 * np.asarray(optimal(mdp, discount).policy, np.float64) + 0.3 / mdp.num_actions
    policy = tabular_policy(table)
    return mdp, discount, table, policy, log_episodes(mdp, soften_policy(policy, 0.2), episodes, seed)


def error(values: np.ndarray) -> float:
    return float(values.std() / len(values) ** 0.5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", gate_cases(MDPS, list(MDPS)[:1]))
def test_without_a_horizon(name):
    mdp, discount, table, policy, log = problem(name)
    exact = float(expected_return(mdp, table, discount))
    target = Target(log, policy, discount)
    for estimator in ("pdis", "wpdis", "fqe", "dr", "wdr", "mis", "dualdice"):
        found = ESTIMATORS[estimator](target)
        assert abs(found.mean() - exact) < WITHIN * error(found) + 1e-3 * abs(exact), estimator
        assert error(found) < 0.25 * abs(exact), estimator
    assert abs(ESTIMATORS["magic"](target).mean() - exact) < 0.2 * abs(exact)


@pytest.mark.parametrize("name", MDPS)
@pytest.mark.thorough
def test_within_a_horizon(name):
    mdp, discount, table, policy, log = problem(name)
    exact = float(finite_horizon_return(mdp, table, 8, discount))
    target = Target(log, policy, discount, horizon=8)
    for estimator in ("is", "wis", "pdis", "wpdis", "fqe", "dr", "wdr", "mis"):
        found = ESTIMATORS[estimator](target)
        assert abs(found.mean() - exact) < WITHIN * error(found) + 1e-3 * abs(exact), estimator


@pytest.mark.parametrize("estimator", ["pdis", "wpdis", "fqe", "dr", "wdr", "mis"])
@pytest.mark.thorough
def test_error_shrinks_with_data(estimator):
    """Ten logs of 40 episodes and ten of 640, cut from one: the mean squared error falls."""
    mdp, discount, table, policy, log = problem("garnet", 6800, 1)
    exact = float(finite_horizon_return(mdp, table, 10, discount))
    errors, first = [], 0
    for size in (40, 640):
        squared = []
        for _ in range(10):
            part = log.select((log.numbers >= first) & (log.numbers < first + size))
            found = ESTIMATORS[estimator](Target(part, policy, discount, horizon=10)).mean()
            squared.append((found - exact) ** 2)
            first += size
        errors.append(np.mean(squared))
    assert errors[1] < 0.4 * errors[0]


@pytest.mark.parametrize("estimator", ["wpdis", "fqe", "dr", "mis"])
@pytest.mark.thorough
def test_errors_are_as_large_as_they_say(estimator):
    """Over 40 logs of 150 episodes the estimates vary as the numbers of one log say they do."""
    _, discount, _, policy, log = problem("garnet", 6800, 1)
    found = []
    for part in range(40):
        target = Target(log.select(log.numbers // 150 == part), policy, discount, horizon=10)
        found.append(ESTIMATORS[estimator](target))
    between = np.std([values.mean() for values in found], ddof=1)
    within = np.mean([error(values) for values in found])
    assert 0.6 < within / between < 1.6


def test_ratios_are_those_of_the_occupancies():
    mdp, discount, table, policy, log = problem("river")
    visits = np.asarray(occupancy(mdp, table, discount), np.float64)[:, None] * table * (1 - discount)
    states = log.observation.argmax(1)
    share = np.zeros_like(table)
    np.add.at(share, (states, log.action), 1 / log.transitions)
    found = density_ratio.ratios(Target(log, policy, discount))
    assert found.mean() == pytest.approx(1, abs=1e-6)  # no episode terminates
    true = (visits / np.maximum(share, 1e-12))[states, log.action]
    assert np.abs(found - true).mean() < 0.06
    lake, discount, table, policy, log = problem("lake")
    visits = np.asarray(occupancy(lake, table, discount)).sum() * (1 - discount)
    assert density_ratio.ratios(Target(log, policy, discount)).mean() == pytest.approx(visits, rel=0.05)


def test_linear_dualdice_is_linear_fitted_q():
    _, discount, _, policy, log = problem("garnet")
    target = Target(log, policy, discount)
    np.testing.assert_allclose(density_ratio.dualdice(target), fitted_q(target), rtol=1e-9)
    zeta = density_ratio.ratios(target)
    assert (zeta * log.reward).mean() / (1 - discount) == pytest.approx(fitted_q(target).mean(), rel=1e-5)


@pytest.mark.parametrize("horizon", [None, 10])
def test_equations_of_an_action_that_was_never_logged_have_no_single_solution(horizon):
    mdp = river_swim(max_steps=20)
    log = log_episodes(mdp, tabular_policy(np.tile([1.0, 0.0], (6, 1))), 20)
    target = Target(log, tabular_policy(np.full((6, 2), 0.5)), 0.9, horizon)
    with pytest.raises(ForageError, match=r"equations of fqe have no single solution; .* a ridge above 0"):
        fitted_q(target, ridge=0.0)


def test_features_that_hold_the_values_are_as_good_as_a_table():
    """The states' own numbers, mixed: still a basis."""
    _, discount, _, policy, log = problem("garnet")
    mixed = np.random.default_rng(0).normal(size=(8, 8))
    for horizon in (None, 10):
        target = Target(log, policy, discount, horizon)
        table, basis = fitted_q(target), fitted_q(target, features=lambda o: o @ mixed)
        np.testing.assert_allclose(basis, table, rtol=1e-4, atol=1e-4)


@pytest.mark.thorough
def test_on_the_behaviour_itself_all_weights_are_one():
    mdp, discount, table, _, _ = problem("chain")
    policy = tabular_policy(table)
    log = log_episodes(mdp, policy, 300)
    target = Target(log, policy, discount)
    plain = target.per_episode(target.decay * log.reward)
    for name in ("is", "wis", "pdis", "wpdis"):
        np.testing.assert_allclose(ESTIMATORS[name](target), plain, rtol=1e-6)
    table = estimate(log, policy, discount)
    assert table.overlap.effective_sample_size == pytest.approx(300)
    assert table.overlap.mean_ratio == pytest.approx(1)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    mdp, discount, table, policy, log = problem("garnet", 6800, 1)
    exact = float(finite_horizon_return(mdp, table, 10, discount))
    hits = {"wpdis": 0, "fqe": 0, "dr": 0}
    for part in range(40):
        told = estimate(log.select(log.numbers // 150 == part), policy, discount, tuple(hits), 10, resamples=300)
        for name in hits:
            hits[name] += told[name].low < exact < told[name].high
    assert min(hits.values()) >= 33, hits


def test_what_the_target_does_and_the_log_never_did():
    """Behaviour that never takes action 1: importance sampling misses its share, and the overlap reports how much."""
    mdp, discount = river_swim(max_steps=20), 0.8
    log = log_episodes(mdp, tabular_policy(np.tile([1.0, 0.0], (6, 1))), 200)
    table = estimate(log, tabular_policy(np.tile([0.75, 0.25], (6, 1))), discount)
    assert table.overlap.unlogged == pytest.approx(0.25)
    assert table.overlap.mean_ratio == pytest.approx(0.75)
    assert "unlogged 0.25" in str(table)


@pytest.mark.thorough
def test_networks():
    mdp, discount, table, policy, log = problem("chain", 300, 2)
    exact = float(expected_return(mdp, table, discount))
    fast = NetworkQ(iterations=40, steps=50, hidden_sizes=(32,), learning_rate=3e-3)
    dice = NetworkDice(steps=3000, hidden_sizes=(32,), learning_rate=3e-3)
    found = estimate(log, policy, discount, {"q": fast, "dice": dice, "fqe": fitted_q})
    assert found["q"].low is None
    # They see the data that linear values see: what they add of their own is small.
    assert abs(found["q"].value - found["fqe"].value) < 0.1 * exact
    assert abs(found["dice"].value - found["fqe"].value) < 0.2 * exact
    zeta, closed = dice.ratios(Target(log, policy, discount)), density_ratio.ratios(Target(log, policy, discount))
    assert np.corrcoef(zeta, closed)[0, 1] > 0.95
    robust = doubly_robust(Target(log, policy, discount), fit=fast.fit, folds=1)
    assert abs(robust.mean() - exact) < WITHIN * error(robust)


def test_observations_that_never_recur():
    """CartPole: importance sampling as usual, linear features, and a clear error for tabular methods."""
    environment = make("CartPole-v1")

    def lean(observation):
        push = jax.nn.sigmoid(6 * observation[:, 2:3] + 2 * observation[:, 3:4])
        return jax.numpy.concatenate([1 - push, push], axis=1)

    log = log_episodes(environment, soften_policy(lean, 0.3), 200, max_steps=40)
    exact = log_episodes(environment, lean, 400, 1, max_steps=40).lengths
    assert log.states is None
    alone = NetworkQ(iterations=2, steps=2, batch_size=8)(Target(log, lean, 0.9))  # asks nobody before it
    assert alone.shape == (200,) and np.isfinite(alone).all()
    with pytest.raises(ForageError, match="has to be of the environment that was logged"):
        _ = Target(log, lambda observation: observation @ np.ones((9, 2)), 0.9).actions

    def features(observation):
        return np.concatenate([np.ones((len(observation), 1)), observation, observation**2], axis=1)

    nothing = functools.partial(doubly_robust, values=lambda o, t: np.zeros((len(t), 2)))
    some = {"pdis": ESTIMATORS["pdis"], "dr": nothing}
    found = estimate(log, lean, 1.0, some, horizon=40)
    assert abs(found["pdis"].value - exact.mean()) < 6
    assert found["dr"].value == pytest.approx(found["pdis"].value)
    linear = estimate(log, lean, 0.9, {"fqe": functools.partial(fitted_q, features=features)})["fqe"]
    plain = (1 - 0.9 ** np.minimum(exact, 40)).mean() / 0.1
    assert abs(linear.value - plain) < 1.5
    with pytest.raises(ForageError, match="fqe keeps a table of observations"):
        estimate(log, lean, 0.9, ["fqe"])


@pytest.mark.thorough
def test_the_seed_says_what_is_logged():
    """The same seed logs the same episodes; another seed others."""
    mdp = seeded_garnet(0, 5, 2, 2, 10)
    assert isinstance(mdp, Tabular)
    policy = tabular_policy(np.full((5, 2), 0.5))
    one, same, other = (log_episodes(mdp, policy, 20, seed) for seed in (0, 0, 1))
    assert isinstance(one, LoggedEpisodes)
    np.testing.assert_array_equal(one.reward, same.reward)
    assert not np.array_equal(one.reward, other.reward)
    assert one.episodes == 20
    assert one.lengths.max() == 10
    assert one.truncated.sum() == 20
