"""Edits: a word after a list of changes."""

from __future__ import annotations

import numpy as np

from forage.environments.text import answers
from forage.environments.text.draws import one, word
from forage.environments.text.problems import Family, Problem

ALPHABET = "abcde"
KINDS = ("append", "front", "remove", "replace", "reverse", "rotate", "swap", "double")


def apply_edit(text: str, edit: list[str]) -> str:
    """Return a word after one edit."""
    kind, *letters = edit
    if kind == "append":
        return text + letters[0]
    if kind == "front":
        return letters[0] + text
    if kind == "remove":
        return text.replace(letters[0], "")
    if kind == "replace":
        return text.replace(letters[0], letters[1])
    if kind == "reverse":
        return text[::-1]
    if kind == "rotate":
        return text[1:] + text[:1]
    if kind == "swap":
        return text[-1] + text[1:-1] + text[0] if len(text) > 1 else text
    return text + text[-1]


def describe_edit(edit: list[str]) -> str:
    """Return one edit in words."""
    kind, *letters = edit
    return {
        "append": "append {}",
        "front": "put {} in front",
        "remove": "remove every {}",
        "replace": "replace every {} by {}",
        "reverse": "reverse it",
        "rotate": "move the first letter to the end",
        "swap": "swap the first and the last letter",
        "double": "repeat the last letter",
    }[kind].format(*letters)


class Edits(Family):
    """Change a word step by step: append, remove, replace, reverse, move, swap, repeat."""

    name = "edits"
    levels = ("1 edit", *(f"{count} edits" for count in range(2, 7)))
    measure = "edits"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        start = text = word(generator, 5, ALPHABET)
        edits: list[list[str]] = []
        while len(edits) <= difficulty:
            first, second = (ALPHABET[int(place)] for place in generator.permutation(len(ALPHABET))[:2])
            kind = one(generator, KINDS)
            edit = [kind, *{"append": first, "front": first, "remove": first, "replace": first + second}.get(kind, "")]
            if after := apply_edit(text, edit):
                text = after
                edits.append(edit)
        prompt = f"Start with {start}. {'; '.join(map(describe_edit, edits)).capitalize()}. What is the word now?"
        return Problem(prompt, text, {"start": start, "edits": edits})

    def size(self, problem: Problem) -> int:
        return len(problem.data["edits"])

    def reason(self, problem: Problem) -> str:
        """Write the word after each edit."""
        text, lines = problem.data["start"], []
        for edit in problem.data["edits"]:
            text = apply_edit(text, edit)
            lines.append(f"{describe_edit(edit)}: {text}")
        return ", ".join(lines) + "."

    def parse_answer(self, problem: Problem, found: str) -> str | None:
        """Return a word of small letters."""
        return answers.matching(found, "[a-z]+")
