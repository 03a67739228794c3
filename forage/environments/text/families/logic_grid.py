"""Logic grids: the assignment of pets, drinks and hats to people, from clues."""

from __future__ import annotations

from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np

from forage.environments.text.draws import one
from forage.environments.text.problems import Family, Problem

PEOPLE = ("Ann", "Ben", "Cleo", "Dan")
THINGS = {
    "pet": ("cat", "dog", "bird", "fish"),
    "drink": ("tea", "milk", "water", "juice"),
    "hat": ("red", "blue", "green", "black"),
}
VERBS = {  # what people do with a thing, and what they do not
    "pet": ("has the", "does not have the"),
    "drink": ("drinks", "does not drink"),
    "hat": ("wears", "does not wear"),
}
SIZES = ((3, 1), (4, 1), (3, 2), (4, 2), (3, 3))  # people and kinds of things, by level


@cache
def arrangements(people: int, kinds: int) -> np.ndarray:
    """Return all ways to give objects to people: `[way, kind, person]`, the number of the object."""
    orders = list(permutations(range(people)))
    return np.array(list(product(orders, repeat=kinds)), int)


class LogicGrid(Family):
    """Find each person's pet, drink and hat from clues; exactly one arrangement fits all clues."""

    name = "logic-grid"
    levels = tuple(f"{people} people, {' and '.join(list(THINGS)[:kinds])}" for people, kinds in SIZES)
    measure = "facts to find"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        people, kinds = SIZES[difficulty]
        ways = arrangements(people, kinds)
        truth = one(generator, ways)  # pyrefly: ignore
        clues: list[list[int]] = []
        while len(ways) > 1:
            clue = self._clue(generator, truth, people, kinds)
            fits = fitting(ways, clue)
            if fits.sum() < len(ways):
                clues.append(clue)
                ways = ways[fits]
        names = list(THINGS)[:kinds]
        shown = "; ".join(f"{kind}: {', '.join(THINGS[kind][:people])}" for kind in names)
        said = " ".join(f"{number}. {sentence(clue)}." for number, clue in enumerate(clues, 1))
        prompt = f"{', '.join(PEOPLE[:people])} each have one of each. {shown}. {said} Who has what? "
        prompt += f"Answer as NAME: {', '.join(names)}; NAME: ..."
        answer = "; ".join(
            f"{PEOPLE[person]}: {', '.join(THINGS[kind][truth[row, person]] for row, kind in enumerate(names))}"
            for person in range(people)
        )
        return Problem(prompt, answer, {"people": people, "kinds": kinds, "clues": clues})

    def _clue(self, generator: np.random.Generator, truth: np.ndarray, people: int, kinds: int) -> list[int]:
        """Draw a true clue: `[kind, object, person, -1, yes]`, or `[kind, object, other, its kind, yes]`."""
        yes = bool(generator.random() < 0.35)
        kind, person = int(generator.integers(kinds)), int(generator.integers(people))
        thing = int(truth[kind, person])
        if kinds > 1 and generator.integers(2):
            other_kind = int((kind + 1 + generator.integers(kinds - 1)) % kinds)
            owners = [person] if yes else [other for other in range(people) if other != person]
            return [kind, thing, int(truth[other_kind, one(generator, owners)]), other_kind, int(yes)]
        owner = person if yes else one(generator, [other for other in range(people) if other != person])
        return [kind, thing, owner, -1, int(yes)]

    def size(self, problem: Problem) -> int:
        return problem.data["people"] * problem.data["kinds"]

    def reason(self, problem: Problem) -> str:
        """Name the facts that become certain after each clue."""
        people, kinds = problem.data["people"], problem.data["kinds"]
        ways, known, lines = arrangements(people, kinds), set(), []
        for number, clue in enumerate(problem.data["clues"], 1):
            ways = ways[fitting(ways, clue)]
            new = [
                (person, kind)
                for person, kind in product(range(people), range(kinds))
                if (person, kind) not in known and (ways[:, kind, person] == ways[0, kind, person]).all()
            ]
            known.update(new)
            if new:
                facts = [f"{PEOPLE[person]} {things(kind)[ways[0, kind, person]]}" for person, kind in new]
                lines.append(f"After {number}: {', '.join(facts)}")
        return ". ".join(lines) + "."

    def parse_answer(self, problem: Problem, found: str) -> dict[str, tuple[str, ...]] | None:
        """Return each person's objects, in the order of the kinds; the order of the people does not matter."""
        people, kinds = problem.data["people"], problem.data["kinds"]
        rows = [row.partition(":") for row in found.split(";")]
        held = {name.strip(): tuple(word.strip() for word in what.split(",")) for name, _, what in rows}
        if len(rows) != people or held.keys() != set(PEOPLE[:people]):
            return None
        right = all(
            len(words) == kinds and all(word in things(kind)[:people] for kind, word in enumerate(words))
            for words in held.values()
        )
        return held if right else None

    def judge(self, problem: Problem, value: Any) -> bool:
        """Return whether the answer is the only arrangement."""
        return value == self.parse_answer(problem, problem.answer)

    def identity(self, problem: Problem) -> str:
        """Return the clues; their order makes no other problem."""
        return f"{problem.data['people']} {problem.data['kinds']} {sorted(problem.data['clues'])}"


def things(kind: int) -> tuple[str, ...]:
    """Return the objects of a kind."""
    return tuple(THINGS.values())[kind]


def fitting(ways: np.ndarray, clue: list[int]) -> np.ndarray:
    """Return a mask of the arrangements that agree with a clue."""
    kind, thing, other, other_kind, yes = clue
    if other_kind < 0:
        return (ways[:, kind, other] == thing) == bool(yes)
    return ((ways[:, kind] == thing) & (ways[:, other_kind] == other)).any(1) == bool(yes)


def sentence(clue: list[int]) -> str:
    """Return a clue in words."""
    kind, thing, other, other_kind, yes = clue
    verbs = list(VERBS.values())
    who = PEOPLE[other] if other_kind < 0 else f"Whoever {verbs[other_kind][0]} {things(other_kind)[other]}"
    return f"{who} {verbs[kind][1 - yes]} {things(kind)[thing]}"
