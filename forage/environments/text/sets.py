"""Problems by number, and those held out from training.

A problem follows from family, level, seed and index alone. Whether it is held out follows from the problem itself:
from a hash of what it asks. So the two splits share no problem, whatever levels, seeds and indices either of them is
drawn with, as long as the share held out is the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from forage.core.errors import ForageError
from forage.environments.text.problems import Family, Problem

Split = Literal["train", "held-out"]
SPLITS = ("train", "held-out")
SHARE = 0.1  # of the problems are held out
ATTEMPTS = 1000  # draws before a split is said to be empty; with a share of 0.1 chance alone fails once in 1e45


def problem_hash(family: Family, problem: Problem) -> int:
    """Return a hash of 64 bits of the family and a problem's question."""
    text = f"{family.name}\n{family.identity(problem)}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def split_of(family: Family, problem: Problem, share: float = SHARE) -> Split:
    """Return the split of a problem, with a share of all problems held out."""
    return "held-out" if problem_hash(family, problem) < share * 2.0**64 else "train"


def problem_at(
    family: Family, level: int, seed: int, index: int, split: Split = "train", share: float = SHARE
) -> Problem:
    """Return problem number `index` of a seed, of a level and a split.

    Raises:
        ForageError: The level, the seed, the index or the split is none, or the split has no problem of this level.
    """
    check_level(family, level)
    if min(seed, index) < 0:
        raise ForageError(f"Seeds and indices of problems are 0 or more, not {min(seed, index)}.")
    if split not in SPLITS or not 0 <= share <= 1:
        raise ForageError(
            f"Problems are of the split 'train' or 'held-out', with a share of 0 to 1; not {split!r}, {share:g}."
        )
    name = int.from_bytes(hashlib.sha256(family.name.encode()).digest()[:8], "big")
    generator = np.random.default_rng([name, level, seed, index])
    for _ in range(ATTEMPTS):
        problem = family.make(generator, level)
        if split_of(family, problem, share) == split:
            return problem
    raise ForageError(
        f"{family.name} has no problem of level {level} in the split {split!r} with a share of {share:g} held out; "
        "another level or share has."
    )


def problem_set(
    family: Family, levels: Sequence[int], size: int, seed: int = 0, split: Split = "held-out", share: float = SHARE
) -> list[Problem]:
    """Return `size` different problems, spread evenly over the levels; the same for the same arguments.

    Raises:
        ForageError: The set would be empty, or there are too few different problems.
    """
    if size < 1 or not levels:
        raise ForageError("A set of problems is not empty: ask for at least one problem and one level.")
    found: dict[int, Problem] = {}
    for place, level in enumerate(levels):
        wanted = len(found) + size // len(levels) + (place < size % len(levels))
        for index in range(100 + 10 * size):  # enough to find nearly all where there are just so many
            if len(found) == wanted:
                break
            problem = problem_at(family, level, seed, index, split, share)
            found.setdefault(problem_hash(family, problem), problem)
        if len(found) < wanted:
            raise ForageError(
                f"{family.name} has too few different problems of level {level} in the split {split!r} for a set of "
                f"{size}; ask for fewer, for higher levels or for a larger share."
            )
    return list(found.values())


def check_level(family: Family, level: int) -> None:
    """Raise unless a level is one of a family's."""
    if isinstance(level, bool) or not isinstance(level, (int, np.integer)) or not 0 <= level < len(family.levels):
        last = len(family.levels) - 1
        raise ForageError(f"{family.name} has {f'levels 0 to {last}' if last else 'level 0 alone'}, not {level!r}.")


def show_problem(family: Family, level: int, seed: int = 0, index: int = 0) -> str:
    """Return a problem and its worked solution as text, for people."""
    problem = problem_at(family, level, seed, index)
    return f"{problem.prompt}\n\n{family.solution(problem)}"
