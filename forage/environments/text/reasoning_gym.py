"""Families of the library `reasoning-gym`, by name: `reasoning-gym:chain_sum`.

Stojanovski and others, Reasoning Gym: Reasoning Environments for Reinforcement Learning with Verifiable Rewards, 2025
(arXiv 2505.24760), which is cited by name; version 0.1.25 of the library was read. A level is one of the library's
curriculum for that family, set for all of its attributes at once; a family without one has a single level. Truth is
the library's own score, which pays a little for some wrong answers. Its verifiers promise no bound, so `guard.Guard`
runs them in a process of their own. Making a problem is not bounded either: one of sokoban may take a minute.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

import numpy as np

from forage.core.errors import ForageError, nearest
from forage.environments.text import answers
from forage.environments.text.problems import Family, Problem, Verdict

LONGEST = 4000  # characters of an answer; grids are longer than what our own families ask for
RUNS = "its verifier runs answers as Python, which Forage never does"
REFUSED = {
    **dict.fromkeys(("binary_matrix", "n_queens", "spiral_matrix", "string_insertion"), RUNS),
    **dict.fromkeys(("intermediate_integration", "polynomial_multiplication", "simple_integration"), RUNS),
    **dict.fromkeys(("countdown", "puzzle24"), f"{RUNS}; Forage's own family countdown is like it"),
    "list_functions": "its problems differ for the same seed",
    "game_of_life_halting": "its verifier takes every answer for a right one",
    "composite": "it only mixes other families",
}
"""Families that are left out, with the reasons."""


def library() -> Any:
    """Import the table of the library's families."""
    try:
        importlib.import_module("reasoning_gym")
        return importlib.import_module("reasoning_gym.factory")
    except ImportError as error:
        raise ForageError(
            f"Families of reasoning-gym need its library: pip install 'forage-rl[reasoning-gym]' ({error})."
        ) from error


@lru_cache
def dataset(name: str, level: int, seed: int) -> Any:
    """Return the library's source of problems of a family, a level and a seed."""
    factory = library()
    made, config = factory.DATASETS[name]
    try:
        if not factory.has_curriculum(name):
            return made(config=config(seed=seed, size=1))
        curriculum = factory.create_curriculum(name)
        curriculum.set_global_level(level)
        return made(config=curriculum.generate_configuration({"seed": seed, "size": 1}))
    except (AssertionError, ValueError) as error:
        raise ForageError(f"reasoning-gym cannot make problems of {name} at its level {level}: {error}.") from error


class ReasoningGym(Family):
    """A family of the library."""

    measure = "level of the library's curriculum"

    def __init__(self, title: str):
        factory = library()
        if title not in factory.DATASETS:
            end = nearest(title, factory.DATASETS, "reasoning-gym:")
            raise ForageError(f"reasoning-gym has no family named {title!r}{end}")
        if title in REFUSED:
            raise ForageError(f"The family {title} of reasoning-gym is not taken: {REFUSED[title]}.")
        self.title, self.name = title, f"reasoning-gym:{title}"
        attributes = factory.create_curriculum(title).attributes if factory.has_curriculum(title) else {}
        last = max((len(each.levels) for each in attributes.values()), default=1)
        self.levels = tuple(f"level {level} of the library" for level in range(last))

    def __reduce__(self) -> tuple[type[ReasoningGym], tuple[str]]:
        """Open the family again on unpickling, so that its process has the library before the first text."""
        return (ReasoningGym, (self.title,))

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        seed = int(generator.integers(2**31))
        entry = dataset(self.title, difficulty, seed)[0]
        answer = "" if entry["answer"] is None else str(entry["answer"])
        return Problem(entry["question"], answer, {"level": difficulty, "seed": seed})

    def size(self, problem: Problem) -> int:
        return problem.data["level"]

    def reason(self, problem: Problem) -> str:
        """Return an empty text: the library has answers and no steps."""
        return ""

    def solution(self, problem: Problem) -> str:
        """Return the answer between tags.

        Raises:
            ForageError: The library can judge answers of this family, and knows none.
        """
        if not problem.answer:
            raise ForageError(f"{self.name} judges answers and has none of its own to show.")
        return f"<answer>{problem.answer}</answer>"

    def extract(self, text: str) -> str | None:
        """Return the answer in a text, of the length of a grid at most."""
        return answers.extract_answer(text, LONGEST)

    def verify(self, problem: Problem, text: str) -> Verdict:
        """Judge a text by the library's own score of its answer."""
        found = self.extract(text)
        if found is None:
            return Verdict(False, 0.0)
        source = dataset(self.title, problem.data["level"], problem.data["seed"])
        entry = source[0]
        if entry["question"] != problem.prompt:
            raise ForageError(f"{self.name} made another problem of the same seed, in another version of the library.")
        return Verdict(True, float(source.score_answer(found, entry)))
