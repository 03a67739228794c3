"""MEM1: several questions at once, of which a policy keeps a state that it rewrites each turn.

Zhou, Qu, Wu, Kim, Prakash, Rus, Zhao, Low, Liang (2025), "MEM1: Learning to Synergize Memory and Reasoning for
Efficient Long-Horizon Agents", arXiv 2506.15841, by the authors' program, github.com/MIT-MI/MEM1
(`Mem1/train/rollout/llm_agent/generation_think.py`, and `compute_score_em` in `verl/utils/reward_score/`'s
`qa_multiple.py`).

Before turn t the policy reads the question and of all turns before only the last: what it wrote from `<think>` on, and
what the search found for it,

    question, <think> state </think> call_{t-1}, found_{t-1}

so that the context does not grow with turns, and each text is learned from behind the context that it was written in
(in the paper a mask of attention does the same). A text with neither a call nor an answer ends the game. N questions
are asked at once; an answer has N parts between semicolons, and each that is right, in its place, earns 1.

The other differences: questions are about invented people, and the search is BM25 that shows `results` documents
(there HotpotQA with Wikipedia and 3); calls are Forage's, `<call>search: words</call>`; the state is of the first
`<think>` on, as in the program, whose printed format is `<IS>` in the paper's text; the paper trains by PPO, as
`ppo-language` does.
"""

from __future__ import annotations

import dataclasses
import random
from typing import ClassVar

from forage.environments.text.answers import extract_answer
from forage.environments.text.games.game import EXECUTED, Turn, check_whole, running
from forage.environments.text.games.search_qa import NAMES, draw_people
from forage.environments.text.tools.search import text_words

THINK, THOUGHT = "<think>", "</think>"


@dataclasses.dataclass
class MEM1:
    """Questions about the homes of invented people, answered from a state that is rewritten each turn."""

    names: ClassVar[tuple[str, ...]] = (*EXECUTED, "right")
    anew: ClassVar[bool] = True

    objectives: int = 2  # questions that are asked at once
    people: int = 8  # documents of the corpus
    results: int = 1  # documents that a search shows
    tries: int = 0  # texts; 0: a search for each question and an answer
    whole: bool = False  # whether everything said before is read, as by an agent without a state

    def __post_init__(self) -> None:
        """Check the sizes."""
        check_whole("The number of people", self.people, 2, len(NAMES))
        check_whole("The number of questions", self.objectives, 1, self.people)
        check_whole("The number of results", self.results, 1, self.people)
        check_whole("The number of texts", self.tries, 0, 100)
        self.tries = self.tries or self.objectives + 1
        self.over = True

    def begin(self, seed: int) -> str:
        """Make people up, and ask about some of them."""
        draw = random.Random(seed)
        self.corpus = draw_people(draw, self.people, self.results)
        self.asked = draw.sample(list(self.corpus.homes), self.objectives)
        self.question = f"Where do {', '.join(self.asked)} live? Answer in this order, with ; in between."
        self.before, self.turn, self.over = self.question, 0, False
        return self.question

    def reply(self, text: str) -> Turn:
        """Return the next context, or the number of right parts of the answer."""
        running(self.over)
        self.turn += 1
        found, answer = self.corpus.toolbox.reply(text), extract_answer(text)
        failed = any(one.error for one in found.answers)
        self.told = {"executed": float(answer is not None or (bool(found.answers) and not failed))}
        if found.answers and answer is None and self.turn < self.tries:
            kept = THINK + text.partition(THINK)[2] if THINK in text else text
            left = self.tries - self.turn
            hint = f"{left} turns left." if left > 1 else "1 turn left: answer now."
            self.before = f"{self.before if self.whole else self.question}\n{kept}\n{hint} {found.text}"
            return self.before, 0.0, False
        self.over = True
        parts = [text_words(part) for part in (answer or "").split(";")]
        wanted = [text_words(self.corpus.homes[name]) for name in self.asked]
        right = sum(said == one for said, one in zip(parts, wanted, strict=False))
        self.told["right"] = right / self.objectives
        return "", float(right), True

    def expert(self) -> str:
        """Return a state with all homes found so far, and the next search or the answer."""
        known = [self.corpus.homes[name] for name in self.asked[: self.turn]]
        state = f"{THINK}{'; '.join(known)}{THOUGHT}"
        if self.turn < self.objectives:
            return f"{state}<call>search: {self.asked[self.turn]}</call>"
        return f"{state}<answer>{'; '.join(known)}</answer>"
