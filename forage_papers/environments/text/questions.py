"""LMRL-Gym's twenty questions and guess my city: find a hidden word by questions that are answered yes or no.

Abdulhai, White, Snell, Sun, Hong, Zhai, Xu, Levine, "LMRL Gym: Benchmarks for Multi-Turn Reinforcement Learning with
Language Models", arXiv 2311.18232, by the authors' program, github.com/abdulhaim/LMRL-Gym (`twenty_questions/env/` and
`guess_city/env/`: `env.py`, `data.py`, `oracle.py`). Each question costs 1, but for the one that names the word, which
ends the game, as does the last of 20. Answers are `Yes.` or `No.`, and `No.` where a question is not understood.

Differences: there a model of 3 billion parameters answers, about 158 objects and about cities; here a program looks the
question up in a table of 24 words and their properties. It understands a question that holds a word of the table, which
is a guess, or else a property. Data of recorded games are not here.
"""

from __future__ import annotations

import dataclasses
import random
import re
from typing import ClassVar

from forage.environments.text.games.game import EXECUTED, Turn, check_whole, running

OBJECTS = """\
cat: animal furry pet; dog: animal furry pet barking; horse: animal furry big; bear: animal big; eagle: animal flying;
shark: animal swimming big; banana: fruit yellow; apple: fruit round; orange: fruit round sour;
lemon: fruit yellow sour; car: vehicle wheels; bus: vehicle wheels big;
airplane: vehicle flying wheels big; boat: vehicle swimming;
piano: instrument keys big; guitar: instrument strings; violin: instrument strings small; drum: instrument round;
chair: furniture legs; bed: furniture legs big; hammer: tool; saw: tool teeth; shirt: clothes; boots: clothes feet"""
CITIES = """\
paris: france europe capital; lyon: france europe; marseille: france europe sea; berlin: germany europe capital;
munich: germany europe; hamburg: germany europe port; rome: italy europe capital; naples: italy europe sea;
tokyo: japan asia capital sea; kyoto: japan asia; osaka: japan asia sea; beijing: china asia capital;
shanghai: china asia sea; delhi: india asia; mumbai: india asia sea; cairo: egypt africa capital;
alexandria: egypt africa sea; nairobi: kenya africa capital; lagos: nigeria africa sea; lima: peru america capital sea;
toronto: canada america; boston: states america sea; chicago: states america; bogota: colombia america capital"""
"""Words, each with its properties."""


@dataclasses.dataclass
class TwentyQuestions:
    """An object to find by questions, each of which costs 1 unless it names the object."""

    names: ClassVar[tuple[str, ...]] = (*EXECUTED, "found")
    table: ClassVar[str] = OBJECTS

    tries: int = 20  # questions

    def __post_init__(self) -> None:
        """Check the number of questions."""
        check_whole("The number of questions", self.tries, 1, 1000)
        pairs = (line.split(":") for line in self.table.split(";"))
        self.facts = {word.strip(): set(said.split()) for word, said in pairs}
        self.properties = sorted(set.union(*self.facts.values()))
        self.over = True

    def begin(self, seed: int) -> str:
        """Begin a game with a newly drawn word."""
        self.word = random.Random(seed).choice(list(self.facts))
        self.left, self.asked, self.over = list(self.facts), 0, False
        return "Questions:"

    def reply(self, text: str) -> Turn:
        """Answer a question."""
        running(self.over)
        self.asked += 1
        words = re.findall(r"[a-z]+", text.lower())
        guess = next((word for word in words if word in self.facts), None)
        one = guess or next((word for word in words if word in self.properties), None)
        true = one is not None and self.fits(self.word, one)
        self.left = [word for word in self.left if one is None or self.fits(word, one) == true]
        found = guess == self.word
        self.over = found or self.asked >= self.tries
        self.told = {"executed": float(one is not None), "found": float(found)}
        return ("Yes." if true else "No."), 0.0 if found else -1.0, self.over

    def fits(self, word: str, one: str) -> bool:
        """Return whether a guess or a property fits a word."""
        return word == one or one in self.facts[word]

    def expert(self) -> str:
        """Return a guess if one or two words are left, else a question that halves them best."""
        if len(self.left) <= 2:
            return f"Is it {self.left[0]}?"
        counts = {one: sum(self.fits(word, one) for word in self.left) for one in self.properties}
        best = min(self.properties, key=lambda one: abs(2 * counts[one] - len(self.left)))
        known = 0 < counts[best] < len(self.left)
        return f"Is it {best if known else self.left[0]}?"


class GuessCity(TwentyQuestions):
    """A city to find by questions, each of which costs 1 unless it names the city."""

    table: ClassVar[str] = CITIES
