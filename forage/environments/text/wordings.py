"""Other wordings of a problem, to test whether a policy learned the problem or the words of its prompt.

A policy that learns from prompts of one form may do worse on the same problems in another form. Aissi, Romac, Carta,
Lamprier, Oudeyer, Sigaud, Soulier, Thome (2024), "Reinforcement Learning for Aligning Large Language Models Agents with
Interactive Environments: Quantifying and Mitigating Prompt Overfitting", arXiv 2410.19920, train with one formulation
and test with others: the same in another order, between tags, and in other words. Theirs are of two text games; these
are of any problem, and leave numbers, names and the verifier unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from forage.core.errors import ForageError, nearest
from forage.core.text.dialogue import Dialogue, content_of, replace_content
from forage.environments.text.worlds import Start, World, WorldReply

SAME = (
    ("Compute", "What is"),
    ("Use", "Take"),
    ("to make", "so that you get"),
    ("Sort", "Put in order"),
    ("Write", "Put down"),
    ("Give", "Name"),
    ("Solve", "Find the solution of"),
    ("Move", "Shift"),
    ("Start", "Begin"),
    ("What is", "Tell me"),
    ("What does", "Say what does"),
    ("Which", "Say which"),
    ("Make", "Get"),
    ("Who has what?", "What does each of them have?"),
    ("Edges", "Connections"),
    ("is hidden", "is kept secret"),
)
"""Words of Forage's prompts, and others that ask the same."""


def in_other_words(prompt: str) -> str:
    """Return a prompt with other verbs; each place is replaced once."""
    table = dict(SAME)
    return re.sub(
        "|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in sorted(table, key=len, reverse=True)),
        lambda found: table[found[0]],
        prompt,
    )


class Wording(NamedTuple):
    """A form of prompts."""

    says: str  # what it does, for people
    change: Callable[[str], str]


WORDINGS: dict[str, Wording] = {
    "question": Wording("between Question: and Answer:", lambda prompt: f"Question: {prompt}\nAnswer:"),
    "tags": Wording("between tags", lambda prompt: f"<problem>{prompt}</problem>"),
    "polite": Wording("after a sentence that says nothing", lambda prompt: f"Here is a problem for you. {prompt}"),
    "other-words": Wording("with other verbs", in_other_words),
}
"""Wordings by name; the original prompt is not among them."""


def wording(name: str) -> Wording:
    """Return a wording by its name. Raise `ForageError` if there is none of that name."""
    if name not in WORDINGS:
        raise ForageError(f"There is no wording {name!r}{nearest(name, WORDINGS)}")
    return WORDINGS[name]


class RewordedWorld(World):
    """A world with a reworded first text and no other change."""

    def __init__(self, world: World, change: Callable[[str], str]):
        self.world, self.change = world, change
        self.levels, self.turns, self.verified = world.levels, world.turns, world.verified

    def begin(self, start: Start) -> str | Dialogue:
        prompt = self.world.begin(start)
        if isinstance(prompt, str):
            return self.change(prompt)
        last = len(prompt.messages) - 1
        return replace_content(prompt, last, self.change(content_of(prompt.messages[last])))

    def reply(self, written: str) -> WorldReply:
        return self.world.reply(written)

    def reference(self) -> str:
        return self.world.reference()

    def close(self) -> None:
        self.world.close()
