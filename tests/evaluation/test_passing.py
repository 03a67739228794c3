"""Pass@k: the estimator by hand and against all choices of k, and its report of learning."""

import itertools

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.evaluation.passing import draw_passing, pass_at, passing, tries


def test_the_estimate_is_the_share_of_all_choices_with_a_right_answer():
    drawn, ks = 6, (1, 2, 4, 6)
    for right, k in itertools.product(range(drawn + 1), ks):
        choices = list(itertools.combinations([True] * right + [False] * (drawn - right), k))
        assert pass_at(np.array(right), drawn, k) == pytest.approx(np.mean([any(one) for one in choices]))


@pytest.mark.parametrize(("right", "k", "says"), [(1, 5, "from 1 to 4"), (1, 0, "from 1 to 4"), (5, 1, "0 to 4")])
def test_what_cannot_be_estimated_is_said(right, k, says):
    with pytest.raises(ForageError, match=says):
        pass_at(np.array([right]), 4, k)


def test_problems_are_the_same_for_both_models():
    # Each seed solves every problem once more than the first model, so the difference has no chance in it at k = 1.
    first = np.array([0, 1, 2, 3])
    found = passing(np.stack([first + 1, first + 1]), first, drawn=4)
    assert found.ks == [1, 2, 4]
    assert found.difference.low[0] == pytest.approx(0.25) and found.difference.high[0] == pytest.approx(0.25)
    assert found.trained.low[0] < found.trained.value[0] == pytest.approx(0.625)
    assert found.first.value[-1] == pytest.approx(0.75)  # of three of four problems one answer of four is right
    assert found.boundary == (0.25, 0.0, 0.75, 0.0) and found.boundary.share_newly_solved == 1


def test_a_verdict_goes_by_the_most_tries():
    first = np.tile([0, 2, 2, 2], 25)
    sharper, beyond, narrower = 2 * first, np.full(100, 2), np.where(np.arange(100) % 2, 4, 0)
    says = [passing(one[None], first, drawn=4).verdict.partition(" ")[0] for one in (sharper, beyond, narrower, first)]
    assert says == ["sharper:", "beyond", "narrower", "no"]


def test_tries_are_powers_of_two_and_all():
    assert tries(12) == [1, 2, 4, 8, 12] and tries(1) == [1]


def test_counts_of_other_problems_are_refused():
    with pytest.raises(ForageError, match="seeds, problems"):
        passing(np.ones((2, 3), int), np.ones(4, int), 4)


def test_a_picture_says_what_it_is_of(tmp_path):
    found = passing(np.array([[1, 2, 0]]), np.array([1, 0, 0]), drawn=3)
    assert draw_passing(tmp_path / "pass.svg", found, "GRPO").read_text().count("3 problems, 3 answers to each, 1 seed")
