"""The conversation in one environment of text, recorded in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from forage.core.host import Conversation
from forage.core.text.dialogue import Dialogue, content_of
from forage.environments.text.worlds import Question, World, WorldReply


@dataclasses.dataclass
class Record:
    """The running episode, and the newest that ended."""

    said: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # who said what
    rewards: list[float] = dataclasses.field(default_factory=list)  # of each answer
    notes: dict[str, str] = dataclasses.field(default_factory=dict)  # what reward functions logged of the last one
    judged: bool = False  # by reward functions
    lost: bool = False  # and they gave no reward
    prompt: str | Dialogue = ""
    opened: tuple[int, ...] = ()  # its tokens
    replies: list[WorldReply] = dataclasses.field(default_factory=list)  # to each answer
    ended: Conversation | None = None

    def begin(self, prompt: str | Dialogue, opened: tuple[int, ...] = ()) -> None:
        """Begin an episode."""
        text = prompt if isinstance(prompt, str) else dialogue_text(prompt)
        self.said, self.rewards, self.notes, self.judged, self.lost = [("prompt", text)], [], {}, False, False
        self.prompt, self.opened, self.replies = prompt, opened, []

    def add(self, answer: str, said: WorldReply) -> None:
        """Add an answer and the world's reply to it."""
        self.said += [("answer", answer), *([("reply", said.text)] if said.text else [])]
        self.rewards.append(float(said.reward))
        self.replies.append(said)

    def judge(self, said: WorldReply, notes: Mapping[str, str], lost: bool) -> None:
        """Set the reward of the last answer, and the values that reward functions logged of it.

        `lost`: the episode has no reward.
        """
        self.rewards[-1], self.notes, self.judged, self.lost = float(said.reward), dict(notes), True, lost

    def end(self, world: World, last: WorldReply, cut: bool) -> None:
        """End the episode. `last`: the last reply; `cut`: the context overflowed, and the last answer got no reward."""
        paid = self.rewards[:-1] if cut and not self.judged else self.rewards
        # With tools, what an expert would answer at last, rather than what it would call.
        reference = Question.reference(world) if isinstance(world, Question) else ""
        words = "no longer fits into the context" if cut else verdict_words(last)
        words = f"{last.words}; {words}" if cut and self.judged else words
        reward = None if self.lost else sum(paid)
        self.ended = Conversation(tuple(self.said), reward, words, reference, tuple(self.notes.items()))


def dialogue_text(dialogue: Dialogue) -> str:
    """Return a dialogue in words: the text of a single message, or else each with its role."""
    if len(dialogue.messages) == 1:
        return content_of(dialogue.messages[0])
    return "\n".join(f"{one['role']}: {content_of(one)}" for one in dialogue.messages)


def verdict_words(said: WorldReply) -> str:
    """Return the verdict on an answer in words; empty if its reward is the only verdict."""
    if said.words:
        return said.words
    if said.failure:
        return f"not judged, as {said.failure}"
    if said.truth != said.truth:  # a game, or a problem that was not answered
        return ""
    return "right" if said.truth == 1 else "wrong" if said.format else "no answer that can be read"
