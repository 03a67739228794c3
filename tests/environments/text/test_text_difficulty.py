"""Difficulty that follows success, counted by hand."""

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.environments.text.difficulty import Rule, Window

RULE = Rule(threshold=0.75, prompts=2, samples=2, width=3)  # checked after 4 answers at the upper level


def test_the_window_moves_up_where_most_answers_at_its_upper_level_are_right():
    window = RULE.follow(Window(), [0, 0, 0], [1.0, 1.0, 0.0], last=9)
    assert window == Window(0, 3, 2.0)  # one answer short of a check
    window = RULE.follow(window, [0], [1.0], last=9)
    assert window == Window(1)  # 3 of 4 are right, and the count begins anew
    assert list(RULE.levels(window)) == [0, 1]


def test_the_count_begins_anew_after_a_check_that_fails():
    assert RULE.follow(Window(2, 3, 2.0), [2], [0.0], last=9) == Window(2)  # 2 of 4


def test_answers_below_the_upper_level_do_not_count():
    assert RULE.follow(Window(2), [0, 1, 1, 0, 1], [1.0] * 5, last=9) == Window(2)
    assert RULE.follow(Window(2), [0, 2, 1], [1.0, 0.5, 1.0], last=9) == Window(2, 1, 0.5)


def test_a_large_batch_is_one_check():
    assert RULE.follow(Window(), [0] * 40, [1.0] * 40, last=9) == Window(1)


def test_the_window_stays_within_the_levels_and_its_width():
    assert RULE.follow(Window(4), [4] * 4, [1.0] * 4, last=4) == Window(4)
    assert list(RULE.levels(Window(5))) == [3, 4, 5] and list(Rule().levels(Window(5))) == [2, 3, 4, 5]
    generator = np.random.default_rng(0)
    assert {RULE.draw(Window(5), generator) for _ in range(60)} == {3, 4, 5}
    assert {RULE.draw(Window(), generator) for _ in range(5)} == {0}


def test_the_authors_defaults():
    assert Rule()[:2] == (0.9, 8) and Rule().width == 4
    nearly = Rule().follow(Window(), [0] * 8, [1.0] * 7 + [0.0], last=9)  # 7 of 8 are fewer than 90 %
    assert nearly == Window(0) and Rule().follow(Window(), [0] * 8, [1.0] * 8, last=9) == Window(1)


def test_a_policy_that_is_right_up_to_a_level_ends_one_above_it():
    """A policy that solves levels 0 to 3 and none above is trained on 1 to 4, of which 4 teaches."""
    generator, window, rule = np.random.default_rng(1), Window(), Rule()
    for _ in range(200):
        levels = [rule.draw(window, generator) for _ in range(16)]
        window = rule.follow(window, levels, [float(level <= 3) for level in levels], last=9)
    assert list(rule.levels(window)) == [1, 2, 3, 4]


@pytest.mark.parametrize("wrong", [Rule(threshold=0.0), Rule(threshold=1.5), Rule(prompts=0), Rule(width=0)])
def test_rules_without_sense_are_refused(wrong):
    with pytest.raises(ForageError, match="needs a threshold above 0 and at most 1"):
        wrong.check()
    Rule().check()
