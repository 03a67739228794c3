"""Questions about invented people, new in each game, so that search and not memory can answer them."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from typing import ClassVar, NamedTuple, cast

from forage.environments.text.answers import extract_answer
from forage.environments.text.games.game import Turn, check_whole, running
from forage.environments.text.tools.search import Search, text_words
from forage.environments.text.tools.tool import Tool
from forage.environments.text.tools.toolbox import Toolbox

NAMES = (
    *("Ada", "Bea", "Cem", "Dov", "Eva", "Fay", "Gus", "Hal", "Ida", "Jan", "Kim", "Leo", "Mia"),
    *("Noa", "Oki", "Pia", "Raj", "Sam", "Tom", "Una", "Vic", "Wim", "Xia", "Yan", "Zoe"),
)
CITIES = ("Rome", "Oslo", "Lima", "Cairo", "Kyoto", "Quito", "Delhi", "Turin", "Sofia", "Accra")
LONGEST = 5  # words of an answer


class People(NamedTuple):
    """Invented people, each with a home and a friend, and a search over the documents that say so."""

    homes: dict[str, str]  # a city, by name
    friends: dict[str, str]  # a circle: no chain of friends is shorter
    toolbox: Toolbox

    def chain(self, start: str, hops: int) -> list[str]:
        """Return a person, a friend, the friend's friend, and so on."""
        found = [start]
        while len(found) < hops:
            found.append(self.friends[found[-1]])
        return found


def draw_people(draw: random.Random, number: int, results: int = 1) -> People:
    """Draw people, and documents about them in an order of their own. `results`: documents that a search shows."""
    people = draw.sample(NAMES, number)
    friends = dict(zip(people, [*people[1:], people[0]], strict=True))
    homes = {name: draw.choice(CITIES) for name in people}
    titles = draw.sample(people, len(people))
    documents = {name: f"{name} lives in {homes[name]}. {name} has a friend, {friends[name]}." for name in titles}
    return People(homes, friends, Toolbox((cast(Tool, Search(documents, results=results)),)))


@dataclasses.dataclass
class SearchQA:
    """The home city of a person, or of a person's friend: `hops` documents of a corpus lead to it, one by one.

    A text calls the search, `<call>search: words</call>`, and reads its results, or answers between `<answer>` and
    `</answer>`, which ends the game, as does the last of `tries` texts. The form is right if every call could be made,
    no text imitates a search result, and the last text has a short answer. The reward of a game is

        stage 1    0.5 for a search that was made + 0.5 for the right form
        stage 2    F1 of the answer's words and the right one's - 2 for a wrong form

    It reports for each text whether it was `executed`, calls included, and for a game `searched`, `form` and `overlap`:
    from these the rewards part `search-stages` makes both stages within one run.

    Source: Song, Jiang, Min, Chen, Chen, Zhao, Fang, Wen (2025), "R1-Searcher: Incentivizing the Search Capability in
    LLMs via Reinforcement Learning", arXiv 2503.05592, whose rewards these are, as summaries of it give them; its pages
    could not be looked up. Its corpus is Wikipedia and its questions are of several hops.
    """

    names: ClassVar[tuple[str, ...]] = ("executed", "searched", "form", "overlap")

    hops: int = 2  # documents that an answer needs
    people: int = 8  # documents of the corpus
    stage: int = 2  # 1: searching is rewarded, 2: answers are
    tries: int = 0  # texts; 0: as many as are needed

    def __post_init__(self) -> None:
        """Check the sizes."""
        check_whole("The number of people", self.people, 2, len(NAMES))
        check_whole("The number of hops", self.hops, 1, self.people)
        check_whole("A stage of rewards", self.stage, 1, 2)
        check_whole("The number of texts", self.tries, 0, 100)
        self.tries = self.tries or self.hops + 1
        self.over = True

    def begin(self, seed: int) -> str:
        """Make people up, and ask about one of them."""
        draw = random.Random(seed)
        people = draw_people(draw, self.people)
        self.toolbox, start = people.toolbox, draw.choice(list(people.homes))
        self.chain = people.chain(start, self.hops)
        self.answer = people.homes[self.chain[-1]]
        self.turn, self.searches, self.right, self.over = 0, 0, True, False
        return f"Where does {'the friend of ' * (self.hops - 1)}{start} live?"

    def reply(self, text: str) -> Turn:
        """Return the search results, or judge the answer."""
        running(self.over)
        self.turn += 1
        found = self.toolbox.reply(text)
        self.searches += sum(not one.error for one in found.answers)
        syntax = self.toolbox.syntax
        written = syntax.answer_begin in text or syntax.answer_end in text
        self.right = self.right and not written and not any(one.error for one in found.answers)
        answer = extract_answer(text)
        self.told = {"executed": float(not any(one.error for one in found.answers))}
        if found.answers and answer is None and self.turn < self.tries:
            return found.text, 0.0, False
        self.over = True
        said = text_words(answer or "")
        right = self.right and 1 <= len(said) <= LONGEST
        if not found.answers:
            self.told["executed"] = float(answer is not None)
        both = overlap(said, text_words(self.answer))
        self.told |= {"searched": float(self.searches > 0), "form": float(right), "overlap": both}
        if self.stage == 1:
            return "", 0.5 * (self.searches > 0) + 0.5 * right, True
        return "", both - (0.0 if right else 2.0), True

    def expert(self) -> str:
        """Return the next search, and then the answer."""
        if self.turn < len(self.chain):
            return f"<call>search: {self.chain[self.turn]}</call>"
        return f"<answer>{self.answer}</answer>"


def overlap(said: list[str], right: list[str]) -> float:
    """Return the F1 of words: twice those that both have, over those of both."""
    both = sum((Counter(said) & Counter(right)).values())
    return 2 * both / (len(said) + len(right)) if said else 0.0
