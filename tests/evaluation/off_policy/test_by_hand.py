"""Off-policy estimators against tables worked by hand, and against all trajectories of a tiny MDP."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tables import Tiny, three_steps

from forage.core.types import ForageError
from forage.data.logged import LoggedEpisodes
from forage.evaluation.off_policy.estimators import doubly_robust, importance
from forage.evaluation.off_policy.estimators.density_ratio import marginalised_importance
from forage.evaluation.off_policy.estimators.fitted_q import fitted_q, linear_values
from forage.evaluation.off_policy.estimators.magic import Magic, blend, partial_estimates
from forage.evaluation.off_policy.target import Target, effective_sample_size, overlap


def target(discount=0.5, **options):
    log, table = three_steps()
    return Target(log, lambda o: o @ table, discount, **options)


def constant(values):
    """Q as one row for all observations."""
    return lambda observation, time: np.tile(np.asarray(values, float), (len(time), 1))


def test_importance_by_hand():
    """Discounted rewards: 1, 1, 1 and 3, 5/2; weights 1/2, 3/2, 3/4 and 3/2, 9/4. Returns 3 and 11/2."""
    ask = target()
    np.testing.assert_allclose(ask.weights("is"), [[0.5, 1.5, 0.75], [1.5, 2.25, 2.25]])
    np.testing.assert_allclose(importance.importance_sampling(ask), [0.75 * 3, 2.25 * 5.5])
    np.testing.assert_allclose(importance.per_decision(ask), [0.5 + 1.5 + 0.75, 1.5 * 3 + 2.25 * 2.5])
    assert importance.self_normalised(ask).mean() == pytest.approx((0.75 * 3 + 2.25 * 5.5) / 3)
    # Step by step: (1/2 + 9/2) / 2, (3/2 + 45/8) / (15/4), 3/4 / 3: the ended episode keeps its weight.
    by_step = 5 / 2 + (1.5 + 5.625) / 3.75 + 0.75 / 3
    assert importance.self_normalised_per_decision(ask).mean() == pytest.approx(by_step)


def test_effective_sample_size_by_hand():
    assert effective_sample_size(np.array([1.0, 1.0, 1.0])) == pytest.approx(3)
    assert effective_sample_size(np.array([0.75, 2.25])) == pytest.approx(9 / 5.625)
    assert effective_sample_size(np.array([0.0, 5.0])) == pytest.approx(1)
    assert effective_sample_size(np.zeros(2)) == 0
    found = overlap(target())
    assert found.effective_sample_size == pytest.approx(1.6)
    assert found.largest_weight == pytest.approx(0.75)
    assert found.mean_ratio == pytest.approx((0.5 + 3 + 0.5 + 1.5 + 1.5) / 5)
    assert found.unlogged == 0
    assert found.cut == 0


def test_doubly_robust_by_hand():
    """Q = (2, 4), so V = 3.5. Backwards, first episode: 3.5 + 1/2 (4 - 2) = 4.5; 3.5 + 3 (2 + 9/4 - 4) = 4.25;
    3.5 + 1/2 (1 + 17/8 - 2) = 4.0625. Second: 3.5 + 3/2 (5 - 4) = 5; 3.5 + 3/2 (3 + 5/2 - 4) = 5.75."""
    found = doubly_robust.doubly_robust(target(), constant([2, 4]))
    np.testing.assert_allclose(found, [4.0625, 5.75])


def test_weighted_doubly_robust_by_hand():
    """The same Q. Sums over steps of w_t (r - Q) and w_{t-1} V, the weights divided by their sums 2, 15/4, 3."""
    first = (0.5 * (1 - 2) + 1.5 * (3 - 4)) / 2 + 3.5
    second = 0.5 * ((1.5 * (2 - 4) + 2.25 * (5 - 4)) / 3.75 + 3.5)
    third = 0.25 * (0.75 * (4 - 2) / 3 + 1.5 * 3.5 / 3.75)
    found = doubly_robust.weighted_doubly_robust(target(), constant([2, 4]))
    assert found.mean() == pytest.approx(first + second + third)


def test_a_model_of_nothing_leaves_importance_sampling():
    ask, nothing = target(), constant([0, 0])
    np.testing.assert_allclose(doubly_robust.doubly_robust(ask, nothing), importance.per_decision(ask))
    np.testing.assert_allclose(
        doubly_robust.weighted_doubly_robust(ask, nothing), importance.self_normalised_per_decision(ask)
    )


def test_partial_estimates_run_from_the_model_to_weighted_doubly_robust():
    ask, values = target(), constant([2, 4])
    found = partial_estimates(ask, values)
    assert found.shape == (2, 4)
    assert found[:, 0].mean() == pytest.approx(3.5)
    np.testing.assert_allclose(found[:, -1], doubly_robust.weighted_doubly_robust(ask, values))
    second = 3.5 + (0.5 * (1 - 2) + 1.5 * (3 - 4)) / 2 + 0.5 * 3.5
    assert found[:, 1].mean() == pytest.approx(second)


def test_blend_weighs_by_error():
    random = np.random.default_rng(0)
    sure, unsure = 1 + 0.01 * random.normal(size=400), 1 + random.normal(size=400)
    far = np.full(400, 9.0)
    x = blend(np.stack([far, sure, unsure], axis=1), 0.9, 200)
    assert x.sum() == pytest.approx(1)
    assert x[1] > 0.95
    assert x[0] < 0.02
    np.testing.assert_allclose(blend(np.ones((5, 4)), 0.9, 50), 0.25)


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("horizon", [1, 2, 4])
def test_unbiased_over_all_trajectories(discount, horizon):
    """The mean over every trajectory, weighed by its probability under the behaviour, is the exact value."""
    tiny = Tiny(horizon)
    log, chance = tiny.trajectories()
    assert chance.sum() == pytest.approx(1)
    ask, exact = Target(log, tiny.policy, discount, horizon), tiny.exact(discount)
    random = np.random.default_rng(1).normal(size=(horizon + 1, 3, 2))

    def values(observation, time):  # any Q will do, also one that knows the time
        return np.einsum("ns,nsa->na", observation, random[time])

    for found in (
        importance.importance_sampling(ask),
        importance.per_decision(ask),
        doubly_robust.doubly_robust(ask, values),
    ):
        assert chance @ found == pytest.approx(exact, abs=1e-9)
    if horizon > 1:  # and on-policy they would not be
        assert abs(chance @ ask.per_episode(ask.decay * ask.logged.reward) - exact) > 0.05


@pytest.mark.parametrize("discount", [1.0, 0.7])
@pytest.mark.thorough
def test_exact_where_every_trajectory_is_logged_as_often_as_it_should_be(discount):
    """Each trajectory of two steps in proportion to its probability, 100,000 in all: no chance is left."""
    tiny = Tiny(2)
    log, chance = tiny.trajectories()
    often = np.rint(chance * 1e5).astype(int)
    assert often.sum() == 100_000
    np.testing.assert_allclose(often, chance * 1e5)
    rows = np.concatenate([np.tile(np.flatnonzero(log.numbers == e), n) for e, n in enumerate(often)])
    fields = ("observation", "action", "reward", "next_observation", "terminated", "truncated", "behaviour_probability")
    ask = Target(LoggedEpisodes(*(getattr(log, name)[rows] for name in fields)), tiny.policy, discount, 2)
    for estimator in (
        importance.importance_sampling,
        importance.self_normalised,
        importance.per_decision,
        importance.self_normalised_per_decision,
        functools.partial(fitted_q, ridge=1e-9),
        functools.partial(doubly_robust.doubly_robust, folds=1),
        functools.partial(doubly_robust.weighted_doubly_robust, folds=1),
        Magic(folds=1),
        marginalised_importance,
    ):
        assert estimator(ask).mean() == pytest.approx(tiny.exact(discount), abs=1e-6), estimator


def test_overlap_of_very_long_episodes():
    """Weights of 3^2000 are no numbers, but their shares are."""
    size = 2000
    ended = np.tile(np.arange(size) == size - 1, 2)
    chosen = np.repeat([0, 1], size)
    log = LoggedEpisodes(np.ones((2 * size, 1)), chosen, np.ones(2 * size), np.ones((2 * size, 1)), ended, ended &
    False,
                 np.full(2 * size, 0.25))  # fmt: skip
    ask = Target(log, lambda o: np.tile([0.75, 0.25], (len(o), 1)), 0.9)
    assert overlap(ask).effective_sample_size == pytest.approx(1)
    assert overlap(ask).largest_weight == pytest.approx(1)
    with pytest.raises(ForageError, match="weights of pdis are too large for a number after 2000 steps"):
        importance.per_decision(ask)


def test_the_true_values_leave_doubly_robust_only_what_chance_adds():
    """With the exact Q of each step and random rewards and actions alone, DR has less variance than PDIS."""
    tiny = Tiny(4)
    log, chance = tiny.trajectories()
    ask = Target(log, tiny.policy, 0.9, 4)
    q, values = [np.zeros((3, 2))], np.zeros(3)
    for _ in range(4):
        q.append(tiny.reward + 0.9 * tiny.transition @ values)
        values = np.append((tiny.target * q[-1]).sum(1)[:2], 0.0)
    table = np.stack(q)
    robust = doubly_robust.doubly_robust(ask, lambda o, t: np.einsum("ns,nsa->na", o, table[4 - t]))
    plain = importance.per_decision(ask)
    variance = [chance @ (x - chance @ x) ** 2 for x in (robust, plain)]
    assert variance[0] < 0.5 * variance[1]


@pytest.mark.parametrize("horizon", [2, 5])
def test_fitted_q_is_exact_in_the_logged_frequencies(horizon):
    """A log with the exact frequencies: each transition as often as its probability. The value is then exact."""
    tiny = Tiny(horizon)
    rows = [
        (s, a, after, count)
        for s in range(2)
        for a in range(2)
        for after in range(3)
        for count in range(round(10 * tiny.transition[s, a, after]))
    ]
    # One-step episodes: how often they begin in each state is weighed by hand below.
    states, actions, following = (np.array([row[i] for row in rows]) for i in range(3))
    eye = np.eye(3)
    log = LoggedEpisodes(
        eye[states], actions, tiny.reward[states, actions], eye[following], following == 2, following != 2, None
    )
    for ask, steps in ((Target(log, tiny.policy, 0.9), 400), (Target(log, tiny.policy, 0.9), horizon)):
        if steps == horizon:
            object.__setattr__(ask, "horizon", horizon)  # its own episodes are shorter, which the regression ignores
        found = (tiny.target * linear_values(ask)(eye, np.zeros(3, int))).sum(1)
        values = np.zeros(3)
        for _ in range(steps):
            q = tiny.reward + 0.9 * tiny.transition @ values
            values = np.append((tiny.target * q).sum(1)[:2], 0.0)
        np.testing.assert_allclose(found[:2], values[:2], atol=1e-6)
        begins = np.bincount(states) / len(states)
        assert fitted_q(ask).mean() == pytest.approx(begins @ values[:2], abs=1e-6)


def test_magic_is_between_its_ends():
    log, _ = Tiny(4).trajectories()
    ask = Target(log, Tiny(4).policy, 0.9, 4)
    ends = partial_estimates(ask).mean(0)
    assert ends.min() - 1e-9 <= Magic()(ask).mean() <= ends.max() + 1e-9
