"""ReSeek: a search agent that judges each result, and drops those that it judges useless.

Li, Wang, Li, Wei, Tang, Chen (2025), "ReSeek: A Self-Correcting Framework for Search Agents with Instructive Rewards",
arXiv 2510.00568, by the formulas on the authors' page (github.com/TencentBAC/ReSeek, `docs/index.html`; their program
is not public). After a search with the result o_t the policy writes a judgement j_t, and its next text stands behind

    C_t = what was said before, and o_t unless j_t is `bad`

It is paid for the judgement by its agreement with the ideal one, and at the end 1 for the right answer:

    +match if j_t = j*_t, else -mismatch       j*_t: whether the utility of o_t reaches `threshold`

where utility is a reranker's score of o_t and the right answer. Differences: the score here is the share of the right
answer's words that stand in o_t; `match`, `mismatch` and `threshold` are ours, as the page prints no numbers;
judgements are `<judge>good</judge>` and `<judge>bad</judge>`, and a text without one counts as a mismatch and keeps the
result; questions are about invented people, which no model has read of (the paper's benchmark FictionalHot is
Wikipedia with invented names), and answers are compared word by word.
"""

from __future__ import annotations

import dataclasses
import random
import re
from typing import ClassVar

from forage.core.errors import ForageError
from forage.environments.text.answers import extract_answer
from forage.environments.text.games.game import EXECUTED, Turn, check_whole, running
from forage.environments.text.games.search_qa import NAMES, draw_people
from forage.environments.text.tools.search import text_words


@dataclasses.dataclass
class ReSeek:
    """The home of an invented person; results of searches are judged, and those called bad are dropped."""

    names: ClassVar[tuple[str, ...]] = (*EXECUTED, "agreed", "right")

    hops: int = 1  # documents that an answer needs
    people: int = 8  # documents of the corpus
    searches: int = 3  # searches, each followed by a judgement; the paper has 4 turns with tools
    match: float = 0.5  # paid for a judgement that agrees with the ideal one
    mismatch: float = 0.5  # taken for one that does not
    threshold: float = 0.5  # utility from which on a result is good
    judges: bool = True  # whether results are judged; without that it is a plain search agent

    def __post_init__(self) -> None:
        """Check the sizes."""
        check_whole("The number of people", self.people, 2, len(NAMES))
        check_whole("The number of hops", self.hops, 1, self.people)
        check_whole("The number of searches", self.searches, 1, 100)
        if min(self.match, self.mismatch) < 0 or not 0 < self.threshold <= 1:
            raise ForageError("A judgement is paid 0 or more, and a threshold of utility is above 0 and at most 1.")
        self.tries = self.searches * (1 + self.judges) + 1
        self.over = True

    def begin(self, seed: int) -> str:
        """Make people up, and ask about one of them."""
        draw = random.Random(seed)
        corpus = draw_people(draw, self.people)
        self.toolbox, start = corpus.toolbox, draw.choice(list(corpus.homes))
        self.chain = corpus.chain(start, self.hops)
        self.answer = corpus.homes[self.chain[-1]]
        self.said = f"Where does {'the friend of ' * (self.hops - 1)}{start} live?"
        self.result, self.searched, self.anew, self.over = "", 0, False, False
        self.agreed: list[float] = []
        return self.said

    def reply(self, text: str) -> Turn:
        """Return the result of a search, take a judgement of it, or judge the answer."""
        running(self.over)
        self.anew = False
        return self.judge(text) if self.result and self.judges else self.act(text)

    def act(self, text: str) -> Turn:
        """Return the result of a search, or judge the answer."""
        found, answer = self.toolbox.reply(text), extract_answer(text)
        failed = any(one.error for one in found.answers)
        self.told = {"executed": float(answer is not None or (bool(found.answers) and not failed))}
        if found.answers and answer is None and self.searched < self.searches:
            self.searched += 1
            self.result, self.said = found.text, f"{self.said}\n{text}"
            return found.text, 0.0, False
        self.over = True
        right = float(text_words(answer or "") == text_words(self.answer))
        self.told |= {"agreed": sum(self.agreed) / max(len(self.agreed), 1), "right": right}
        return "", right, True

    def judge(self, text: str) -> Turn:
        """Return the context with or without the newest result, and the reward of its judgement."""
        judged = re.findall(r"<judge>\s*(good|bad)\s*</judge>", text)
        wanted = "good" if self.utility() >= self.threshold else "bad"
        agreed = bool(judged) and judged[-1] == wanted
        self.agreed.append(float(agreed))
        self.told = {"executed": float(bool(judged))}
        self.anew = True
        self.said += "" if judged and judged[-1] == "bad" else f"\n{self.result}"
        self.result = ""
        return self.said, self.match if agreed else -self.mismatch, False

    def utility(self) -> float:
        """Return the share of the right answer's words that stand in the newest result."""
        words, wanted = set(text_words(self.result)), text_words(self.answer)
        return sum(word in words for word in wanted) / len(wanted)

    def expert(self) -> str:
        """Return the ideal judgement, the next search, or the answer."""
        if self.result and self.judges:
            return f"<judge>{'good' if self.utility() >= self.threshold else 'bad'}</judge>"
        if self.searched < min(len(self.chain), self.searches):
            return f"<call>search: {self.chain[self.searched]}</call>"
        return f"<answer>{self.answer}</answer>"
