"""Rules for choosing numbered problems, worked by hand, and hints in text."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.environments.text.difficulty import Rule, Window
from forage_papers.tasks.adaptive_difficulty import AdaptiveDifficulty
from forage_papers.tasks.cdas import CDAS, Ratings
from forage_papers.tasks.dars import DARS, played_groups
from forage_papers.tasks.filtered import FilteredProblems, Rates, running
from forage_papers.tasks.greso import Greso
from forage_papers.tasks.hints import Hints
from forage_papers.tasks.numbered import ProblemOutcomes
from forage_papers.tasks.rising import Rising
from forage_papers.tasks.seele import Seele, fit_model

KEY = jax.random.key(0)


def exam(*difficulty: float, slot: int = 4, kinds: Any = None) -> Any:
    kinds = np.zeros(len(difficulty), np.int32) if kinds is None else np.array(kinds)
    fields = {"difficulty": jnp.array(difficulty), "slot": jnp.int32(slot), "kinds": kinds}
    return SimpleNamespace(num_starts=len(difficulty), **fields)


def tell(*rates: float | None, answers: int = 8) -> ProblemOutcomes:
    """Return a rollout's results: each problem's success rate of 0-or-1 scores, `None` if it was not played."""
    met = np.array([rate is not None for rate in rates])
    rate = np.array([rate or 0.0 for rate in rates], np.float32)
    least, most = np.where(met, rate == 1, 1), np.where(met, rate > 0, 0)
    return ProblemOutcomes(*(jnp.asarray(x, jnp.float32) for x in (met * answers, rate * answers, least, most)))


def test_the_target_difficulty_follows_the_reward():
    part, world = AdaptiveDifficulty(), exam(0, 0.25, 0.5, 0.75)  # 0, 1/3, 2/3 and 1 of what there is
    target = part.update_state(part.first(world), tell(1.0, None, None, None), world)
    assert target == pytest.approx(0.5 * np.tanh(1.0))  # 0.381
    assert np.argsort(part.rank(target, KEY, world)).tolist() == [1, 2, 0, 3]
    assert part.update_state(target, tell(0.5, 0.5, None, None), world) == target
    higher = part.update_state(target, tell(None, 1.0, None, None), world)
    assert higher == pytest.approx(np.tanh(1.0))
    assert part.update_state(higher, tell(None, None, 1.0, None), world) == 1  # the hardest there is


def test_the_easy_levels_of_a_family_are_climbed_one_by_one():
    """Sums of 0 to 3 of addition's levels, 0 to 7: after the easiest come the next, and not the hardest."""
    part, world = AdaptiveDifficulty(), exam(0, 1 / 7, 2 / 7, 3 / 7)
    target = part.update_state(part.first(world), tell(1.0, None, None, None), world)
    assert np.argsort(part.rank(target, KEY, world))[0] == 1


def test_difficulties_and_competence_balance():
    part, world = CDAS(), exam(0, 0, 0, 0)
    own = part.update_state(part.first(world), tell(1.0, 0.0, None, None), world)
    np.testing.assert_allclose(own.difficulty, [-0.25, 0.25, 0, 0])
    assert own.competence == 0
    own = part.update_state(own, tell(0.0, None, None, None), world)
    expected = 1 / (1 + np.exp(-0.25))
    second = (2 * -0.25 + expected) / 3
    np.testing.assert_allclose(own.difficulty, [second, 0.25, 0, 0], rtol=1e-6)
    assert own.competence == pytest.approx(-(second + 0.25) / 4)


def test_both_sides_of_the_competence_take_turns():
    ratings = Ratings(jnp.array([0.3, -0.1, 0.1, 0.9]), jnp.zeros(4, jnp.int32), jnp.zeros(()))
    assert np.argsort(CDAS().rank(ratings, KEY, exam(0, 0, 0, 0))).tolist() == [1, 2, 0, 3]


def test_what_was_alike_in_a_row_is_skipped():
    part, world = Greso(), exam(0, 0, 0, 0)
    own = part.update_state(part.first(world), tell(1.0, 0.0, 0.5, None), world)
    own = part.update_state(own, tell(1.0, None, 1.0, None), world)
    # The first epoch is over: of two groups both were easy, more than a twelfth, and none was hard, less than a sixth.
    assert own.easy_base == pytest.approx(0.49) and own.hard_base == pytest.approx(0.51)
    np.testing.assert_allclose(part.skip(own), [1 - 0.49**2, 0.49, 0.51, 0], rtol=1e-5)
    own = part.update_state(own, tell(0.5, 1.0, None, None), world)
    assert own.easy.tolist() == [0, 1, 1, 0] and own.hard.tolist() == [0, 0, 0, 0]
    long = own._replace(hard=jnp.array([50, 0, 0, 0], jnp.int32))
    assert part.skip(long)[0] == pytest.approx(0.99)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"normalised": True}, [24, 5, 0]),  # S = 2 sqrt(7) / 8 of p = 1/8: 8 / 0.661 - 8 = 4.1
        ({"normalised": False}, [24, 11, 0]),  # S = 7/32: 4 / 0.219 - 8 = 10.3
        ({"normalised": False, "schedule": "hard"}, [24, 24, 0]),  # 7 / 0.219 - 8 = 24
        ({"normalised": False, "most": 16}, [8, 8, 0]),
    ],
)
def test_hard_problems_get_more_answers(options, wanted):
    if options == {"normalised": True}:
        wanted = [9, *wanted[1:]]  # of p = 0, counted as 1/16: S = 0.484, 8 / 0.484 - 8 = 8.5
    more = DARS(**options).extra_answers(jnp.array([0.0, 0.125, 0.5]), jnp.full(3, 8.0))
    np.testing.assert_allclose(more, wanted)


def test_owed_groups_are_paid_in_the_order_of_their_numbers():
    assert played_groups(jnp.array([2, 0, 3]), jnp.int32(4)).tolist() == [2, 0, 2]
    part, world = DARS(normalised=False), exam(0, 0, 0, slot=4)
    own = part.update_state(jnp.array([2, 0, 3], jnp.int32), tell(0.125, None, 0.125), world)
    assert own.tolist() == [0, 0, 1]  # answers that were owed bring no debts
    own = part.update_state(jnp.array([0, 0, 1], jnp.int32), tell(0.125, 0.75, 0.5), world)
    assert own.tolist() == [2, 0, 0]  # 11 more answers are two groups of 8


def test_who_is_solved_sometimes_comes_first_and_then_whose_rate_is_oldest():
    part, world = FilteredProblems(patience=5), exam(0, 0, 0, 0, 0)
    rates = Rates(
        jnp.array([0.5, 0.0, 1.0, 0.0, 1.0]), jnp.array([8.0, 8, 8, 0, 8]), jnp.array([0, 3, 1, 0, 5], jnp.int32)
    )
    order = np.argsort(part.rank(rates, KEY, world)).tolist()
    assert set(order[:3]) == {0, 3, 4} and order[3:] == [1, 2]
    rates = part.update_state(rates, tell(0.0, None, None, 1.0, None), world)
    assert rates.rate.tolist() == [0, 0, 1, 1, 1] and rates.age.tolist() == [0, 4, 2, 0, 6]


def test_a_running_rate_forgets():
    rate = running(jnp.array([0.5, 0.5, 0.5]), jnp.array([8.0, 0, 8]), tell(1.0, 1.0, None), 0.75)
    assert rate.tolist() == [0.625, 1, 0.5]


def test_the_window_moves_as_that_of_one_family():
    generator, rule = np.random.default_rng(0), Rule(threshold=0.75, prompts=2, samples=4)
    part, world = Rising(threshold=0.75, answers=8, width=2), exam(0, 0.2, 0.6)
    own, window, seen = part.first(world), Window(), set()
    for _ in range(30):
        rates = [float(generator.choice([0.5, 0.75, 1.0])) if generator.random() < 0.8 else None for _ in range(3)]
        own = part.update_state(own, tell(*rates, answers=4), world)
        pairs = [(level, rate) for level, rate in enumerate(rates) if rate is not None for _ in range(4)]
        window = rule.follow(window, [level for level, _ in pairs], [rate for _, rate in pairs], 2)
        assert (*own.high.tolist(), *own.answers.tolist(), *own.right.tolist()) == tuple(window)
        seen.add(window.high)
    assert seen == {0, 1, 2}


def test_each_level_of_the_window_is_drawn_equally_often():
    part, world = Rising(width=2), exam(*[0.1] * 4, *[0.2] * 2, *[0.3] * 3)
    own = part.first(world)._replace(high=jnp.array([1]))
    order = np.argsort(part.rank(own, KEY, world))
    level = np.asarray(own.level)[order].tolist()
    assert sorted(level[:2]) == sorted(level[2:4]) == [0, 1] and level[4:6] == [0, 0] and level[6:] == [2, 2, 2]


def test_a_problem_that_nobody_solves_gets_more_hints_until_somebody_does():
    part, world = Hints(), exam(0, 0, 0)
    own = part.update_state(part.first(world), tell(0.0, 0.0, 0.5), world)
    assert part.owes(own, world).tolist() == [1, 1, 0]
    own = part.update_state(own, tell(0.0, None, None), world)
    assert [float(part.hint(own, jnp.int32(i))) for i in range(3)] == [0.5, 0.25, 0]
    own = part.update_state(own, tell(0.0, 0.125, None), world)
    assert [float(part.hint(own, jnp.int32(i))) for i in range(3)] == [0.75, 0, 0]
    assert part.update_state(own, tell(0.0, None, None), world).tolist() == [0, 0, 0]  # there are no more


@pytest.mark.thorough
def test_hints_lead_to_half_of_the_answers():
    hints = jnp.array([[0, 0.5, 0.7, 0.8]])
    rates = jax.nn.sigmoid(16 * (hints - 0.75))
    model = fit_model(hints, rates, jnp.ones((1, 4), bool))
    np.testing.assert_allclose(model, [[16, 0.75, 0]])
    part, world = Seele(rounds=2), exam(0, 0, 0)
    assert part.target_hint(model).tolist() == pytest.approx([0.75])
    own = part.update_state(part.first(world), tell(0.0, 1.0, None), world)
    assert own.hint.tolist() == pytest.approx([0.5625, 0, 0]) and own.round.tolist() == [1, 1, 0]
    assert part.owes(own, world).tolist() == [1, 1, 0]
    own = part.update_state(own, tell(0.0, 1.0, None), world)
    assert 0.5625 < own.hint[0] <= 0.9 and own.hint[1] == 0 and own.round.tolist() == [0, 0, 0]
    own = part.update_state(own, tell(1.0, None, None), world)  # with that hint, one round of the next epoch
    assert own.hint[0] < 0.9 and own.hints[0, 0] > 0.5
