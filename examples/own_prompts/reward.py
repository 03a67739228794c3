"""Reward functions of the sums that `make.py` writes."""

import re


def score(completions, answer, **kwargs):
    """Return the share of digits that are right, counted from the last; 0 without an answer between tags."""
    rewards = []
    for said, right in zip(completions, answer, strict=True):
        found = re.findall(r"<answer>(\d+)</answer>", said)
        given = found[-1].zfill(len(right)) if found else ""
        same = sum(one == other for one, other in zip(reversed(given), reversed(right), strict=False))
        rewards.append(same / max(len(given), len(right)))
    return rewards


def truth(completions, answer, **kwargs):
    """Return 1 for the right sum, else 0; with weight 0 it is measured and not learned from."""
    found = [re.findall(r"<answer>(\d+)</answer>", said) for said in completions]
    return [float(bool(each) and each[-1] == right) for each, right in zip(found, answer, strict=True)]
