"""The hand-over from an offline run: a comparison of the score before and during online learning.

A policy that was learned from data is often lost in the first steps of learning online. So a run that starts from an
offline one evaluates the policy before it learns, and warns if a later score is more than a tenth lower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from forage.evaluation.statistics import Score
from forage.runs.run import by_setting

CHANCE = ", which may be chance, as their intervals overlap (--evaluation-episodes plays more)"
MOST = 0.1  # share of the score at the hand-over that may be lost without a warning


def handover_record(members: list[dict[str, Any]], evaluations: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """Compare each evaluation with the first, that of the hand-over. Return a record, and a sentence about the newest.

    The score is that of a run, the interquartile mean over seeds; each setting of a sweep has its own. The sentence is
    empty unless the newest fall is the largest so far or the score has recovered.
    """
    first, settings, said = by_setting(members, evaluations[0]["return"]), [], []
    later = [(row["steps"], by_setting(members, row["return"])) for row in evaluations[1:]]
    for label, score in first.items():
        before = score.value
        each = [(steps, scores[label].value) for steps, scores in later]
        falls = [{"steps": steps, "score": now, "fall": fall(before, now)} for steps, now in each]
        falls = [found for found in falls if found["fall"] > MOST]
        settings.append({"setting": label, "score": before, "falls": falls})
        newest, what = evaluations[-1]["steps"], f" with {label}" if label else ""
        if falls and falls[-1]["steps"] == newest:
            now, earlier = falls[-1], [found["fall"] for found in falls[:-1]]
            if now["fall"] > max(earlier, default=MOST):
                sure = is_below(later[-1][1][label], score)
                said.append(
                    f"the score{what} is {now['fall']:.0%} below the hand-over's, {now['score']:.6g} and was "
                    f"{before:.6g}" + (": learning is undoing what the run began with" if sure else CHANCE)
                )
        elif len(later) > 1 and falls and falls[-1]["steps"] == later[-2][0]:
            said.append(f"the score{what} is no longer a tenth below the hand-over's")
    record = {"steps": evaluations[0]["steps"], "most": MOST, "settings": settings}
    return record, f"Note: {'; '.join(said)}." if said else ""


def is_below(now: Score, before: Score) -> bool:
    """Return whether a score's interval is entirely below another's; without intervals, whether the score is lower."""
    ends = now.high, before.low
    if any(end is None or not math.isfinite(end) for end in ends):
        return now.value < before.value
    return now.high < before.low  # type: ignore[operator]


def fall(before: float, now: float) -> float:
    """Compute the share of a score's size that is lost, negative if it rose; of 0, all or none is lost."""
    if before == 0:
        return 1.0 if now < 0 else 0.0
    return (before - now) / abs(before)
