"""Habits of reasoning are counted by rules: examples of the paper's code, and worked operations."""

import pytest

from forage.core.errors import ForageError
from forage.evaluation.habits import Habits, habit_frequency, habits

PLAIN = "8 - 2 = 6, 6 * 4 = 24. <answer>(8 - 2) * 4</answer>"


@pytest.mark.parametrize(
    ("text", "habit", "count"),
    [
        ("This sequence results in 1, which is not equal to 22. Too high! This works!", "verification", 3),
        ("Let me check: 3 + 4 = 7", "verification", 1),
        ("Let me try again; we need to try a different sequence of operations.", "backtracking", 2),
        ("Wait. I await the result.", "backtracking", 1),
        ("First, I'll try to get close to 12, then add. Step 2: multiply", "subgoals", 2),
        ("Let's work backwards from the target.", "backward", 1),
        ("Since the target is 22, and 22 + 3 = 25, it is easy", "backward", 1),
        ("To reach the target of 75, we need a number divisible by 5", "backward", 1),
    ],
)
def test_phrases_count_once_a_sentence(text, habit, count):
    assert habits(text)._asdict() == Habits(0, 0, 0, 0)._asdict() | {habit: count}


@pytest.mark.parametrize(
    ("text", "given", "target", "expected"),
    [
        (PLAIN, (8, 2, 4), 24, Habits(0, 0, 0, 0)),
        # Two branches of one expression go on from nothing, and are no new beginning.
        ("1 + 2 = 3, 3 + 4 = 7, 3 * 7 = 21.", (1, 2, 3, 4), 21, Habits(0, 0, 0, 0)),
        # The 8 and the 2 are used up: 8 + 2 begins anew, and 8 * 4 does so again.
        ("8 - 2 = 6, 6 + 4 = 10, 8 + 2 = 10, 10 * 4 = 40, 8 * 4 = 32.", (8, 2, 4), 30, Habits(0, 2, 0, 0)),
        ("24/2 = 12. So 12*2 = 24.", (12, 2), 24, Habits(0, 0, 0, 1)),
        ("24 - 4 = 20, 5 * 4 = 20", (24, 4, 5), 24, Habits(0, 1, 0, 0)),  # the target is given: no way back
        ("6 * 4 = 24, 24 is 24. 7 * 4 = 28, which is not 24", (6, 7, 4), 24, Habits(2, 1, 0, 0)),
        ("The target is 24. 9 + 9 = 18", (6, 4), 24, Habits(0, 0, 0, 0)),
    ],
)
def test_operations_are_followed(text, given, target, expected):
    assert habits(text, given, target) == expected


def test_many_texts_have_a_mean_and_a_share():
    found = habit_frequency([PLAIN, "Wait. Wait. Too low!"], [{"numbers": [8, 2, 4], "target": 24}, {}])
    assert found.mean == {"verification": 0.5, "backtracking": 1.0, "subgoals": 0.0, "backward": 0.0}
    assert found.share == {"verification": 0.5, "backtracking": 0.5, "subgoals": 0.0, "backward": 0.0}
    with pytest.raises(ForageError, match="2 texts and 1 problems"):
        habit_frequency(["a", "b"], [{}])
