"""Four habits of reasoning, counted in texts by rules: verification, backtracking, subgoals, backward chaining.

Gandhi, Chakravarthy, Singh, Lile, Goodman (2025), "Cognitive Behaviors that Enable Self-Improving Reasoners, or, Four
Habits of Highly Effective STaRs", arXiv 2503.01307, count them with a large language model that is asked four
questions (they stand in the authors' published code, and the examples there are this module's tests). Rules are used
here instead: the same text has the same counts everywhere and for ever. They know fewer phrasings than such a model,
so what they count is a lower bound, and good for comparing models that write alike.

A text is cut into sentences, and a sentence counts once for each habit whose phrases it has. Where the numbers given
and the target are known, as in Countdown, operations such as `12 + 3 = 15` are read as well:

- backtracking: an operation with numbers that are used up already, so that it begins anew from those given. The
  authors also count operations that do not go on from the last result; here such a one does not count while its numbers
  are free, as (1 + 2) * (3 + 4) is worked out in such an order.
- backward chaining: an operation that begins with the target, where that is not one of the numbers given.
- verification: a result that is said to be or not to be the target.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from forage.core.errors import ForageError

NUMBER = r"-?\d+(?:\.\d+)?"
OPERATION = re.compile(rf"(?<![\d.])(\d+(?:\.\d+)?) ?([-+*/]) ?(\d+(?:\.\d+)?) ?= ?({NUMBER})(?!\d|\.\d)")
SENTENCE = re.compile(r"(?<=[.!?])\s+|[;\n]+")


def phrases(*any_of: str) -> re.Pattern[str]:
    """Return a pattern that matches phrases as whole words."""
    return re.compile(r"(?<!\w)(?:" + "|".join(any_of) + r")(?!\w)", re.IGNORECASE)


VERIFICATION = phrases(
    "not equal",
    "(?:does|do|did)(?: not|n't) (?:equal|match|work)",
    "(?:matches|equals|reaches) the target",
    "too (?:high|low|big|small|large|much|little|many|few)",
    "(?:this|that|it) works",
    "(?:let me|let's|let us|to) (?:check|verify|double-check)",
    "(?:checking|verifying|verify|double-check)",
    "(?:is|that's|this is) (?:right|correct|incorrect|wrong|not right|not correct)",
)
BACKTRACKING = phrases(
    "wait",
    "try (?:again|another|something else)",
    "(?:try|need|use) a different",
    "another (?:way|approach|combination)",
    "(?:go|going|went|back) (?:back )?to the (?:start|beginning|original|initial|previous)",
    "start(?:ing)? (?:over|again|anew)",
    "(?:does|do|did|will|would)(?: not|n't) work",
    "won't work",
    "(?:a|my) mistake",
    "alternatively",
)
SUBGOALS = phrases(
    "(?:first|next|then),? (?:I'll|I will|let's|let us|I|we) (?:need|try|want|have|get|find|make|aim)",
    "(?:get|getting|come) close(?:r)? to",
    "(?:sub-?goal|intermediate goal)s?",
    "step \\d+:",
    "(?:break|breaking|split) (?:it|this|that|the problem) (?:down|up|into)",
    "(?:aim|aiming) for",
)
BACKWARD = phrases(
    "work(?:ing)? back(?:ward|wards)?",
    "start(?:ing)? (?:from|with|at) the (?:target|goal|answer|end|result)",
    "since the (?:target|goal|answer|result) is",
    "(?:to (?:reach|get|make)|for) (?:the target|the goal|\\d+),? (?:of \\d+,? )?(?:I|we|you) (?:would )?need",
)


class Habits(NamedTuple):
    """The number of occurrences of each habit in a text."""

    verification: int  # a result is checked
    backtracking: int  # an approach is given up for another
    subgoals: int  # a goal on the way is set
    backward: int  # it is worked from the target towards what is given


def habits(text: str, given: Sequence[int] = (), target: int | None = None) -> Habits:
    """Count the habits in a text. `given`, `target`: the numbers and the target of a problem."""
    sentences = [sentence for sentence in SENTENCE.split(text) if sentence.strip()]
    verified, again, goals, back = (
        [bool(pattern.search(sentence)) for sentence in sentences]
        for pattern in (VERIFICATION, BACKTRACKING, SUBGOALS, BACKWARD)
    )
    if target is not None:
        said = result_pattern(target)
        verified = [seen or bool(said.search(one)) for seen, one in zip(verified, sentences, strict=True)]
        from_target = target not in given
        back = [
            seen or (from_target and any(float(left) == target for left, *_ in operations(one)))
            for seen, one in zip(back, sentences, strict=True)
        ]
    renewed = restarts(operations(text), given, target) if given else 0
    return Habits(sum(verified), max(sum(again), renewed), sum(goals), sum(back))


def operations(text: str) -> list[tuple[str, str, str, str]]:
    """Return the operations of two numbers that a text has: left, operator, right, result."""
    return OPERATION.findall(text)


def result_pattern(target: int) -> re.Pattern[str]:
    """Return a pattern of results compared with the target."""
    verb = "(?<!target )(?<!goal )(?:is|are)(?: not| equal to| not equal to)?"
    return re.compile(rf"(?:!=|\b{verb}) ?{target}(?!\d|\.\d)")


def restarts(done: Sequence[tuple[str, str, str, str]], given: Sequence[int], target: int | None = None) -> int:
    """Count operations that start over from the numbers given, because their inputs are used up.

    The numbers left are those given; an operation takes its two and leaves its result. An operation on numbers that are
    not left, but are among those given, starts over. An operation that starts with the target works backward, and one
    with other numbers is none of this problem; neither counts.
    """
    first: Counter[float] = Counter(float(number) for number in given)
    left, count = first.copy(), 0
    for one, _, other, result in done:
        used: Counter[float] = Counter((float(one), float(other)))
        if target is not None and float(one) == target and not first[float(one)]:
            continue
        if not used <= left:
            if not used <= first:
                continue
            left, count = first.copy(), count + 1
        left = left - used + Counter((float(result),))
    return count


class HabitFrequency(NamedTuple):
    """The frequency of each habit in texts."""

    mean: dict[str, float]  # times in a text, on average
    share: dict[str, float]  # of texts that show it at all


def habit_frequency(texts: Sequence[str], problems: Sequence[dict[str, Any]] = ()) -> HabitFrequency:
    """Count habits in many texts. `problems`: for each text, the `numbers` and the `target` if it has them."""
    if not texts:
        raise ForageError("Habits are counted in one text or more, and there is none.")
    known = problems or [{}] * len(texts)
    if len(known) != len(texts):
        raise ForageError(f"Each text has a problem, and there are {len(texts)} texts and {len(known)} problems.")
    found = np.array(
        [habits(text, data.get("numbers", ()), data.get("target")) for text, data in zip(texts, known, strict=True)]
    )
    mean, share = (dict(zip(Habits._fields, one.mean(0).tolist(), strict=True)) for one in (found, found > 0))
    return HabitFrequency(mean, share)
