"""The contract of verifiable problems: a family makes them, and its verifier judges texts.

A new family is one file: a class with `levels`, `measure`, `make`, `size` and `reason`, and, unless its answers are
whole numbers, `parse_answer` and `judge`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from forage.environments.text import answers

INSTRUCTION = "Put your final answer between <answer> and </answer>."
"""For policies that have not seen worked solutions; prompts leave it out, as a small model's context is short."""


class Problem(NamedTuple):
    """One problem: its prompt, a right answer, and the verifier's data."""

    prompt: str
    answer: str  # one right answer, as it stands between the tags; others may be right too
    data: Mapping[str, Any]  # numbers, texts, lists and mappings of them, so that it can be written as JSON


class Verdict(NamedTuple):
    """A verifier's opinion of a text, with form and truth apart."""

    format: bool  # the text holds an answer of the family's form
    truth: float  # 1 for a right answer, 0 for a wrong one; between them where a family pays for parts
    failure: str = ""  # why the verifier reached no verdict; empty where it did


class Family(ABC):
    """A kind of problem, from level 0, the easiest, upward.

    `verify` is total for the families of Forage: it returns a verdict for any text, soon, and raises nothing. A family
    that cannot promise this leaves `bounded` False and is then verified in a process of its own (`guard.Guard`).
    """

    name: str  # as the table has it
    levels: tuple[str, ...]  # the meaning of each level
    measure: str  # what `size` counts; its mean grows with the level
    bounded: bool = False  # `verify` is total and ends soon, whatever the text

    @abstractmethod
    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        """Draw a problem of a level."""

    @abstractmethod
    def size(self, problem: Problem) -> int:
        """Return the size of a problem, in units of `measure`."""

    @abstractmethod
    def reason(self, problem: Problem) -> str:
        """Return the steps that lead to the answer."""

    def solution(self, problem: Problem) -> str:
        """Return a worked reference answer: the steps, then the answer between tags."""
        return f"{self.reason(problem)} <answer>{problem.answer}</answer>"

    def verify(self, problem: Problem, text: str) -> Verdict:
        """Judge a text: whether it holds an answer of the right form, and whether that is true."""
        found = self.extract(text)
        value = None if found is None else self.parse_answer(problem, found)
        if value is None:
            return Verdict(False, 0.0)
        return Verdict(True, float(self.judge(problem, value)))

    def extract(self, text: str) -> str | None:
        """Return the answer in a text, or None if it has none."""
        return answers.extract_answer(text)

    def parse_answer(self, problem: Problem, found: str) -> Any | None:
        """Return the parsed answer, or None if it is not of the family's form."""
        return answers.integer(found)

    def judge(self, problem: Problem, value: Any) -> bool:
        """Return whether a parsed answer is right."""
        return value == self.parse_answer(problem, problem.answer)

    def identity(self, problem: Problem) -> str:
        """Return a text that two problems share exactly if they ask the same question."""
        return problem.prompt
