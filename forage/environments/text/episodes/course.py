"""The course of an episode of text: its start, the effect of a turn's tokens, and its observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from forage.core.errors import ForageError
from forage.core.spaces import Tokens
from forage.core.text.dialogue import Dialogue
from forage.core.text.tokenizer import Tokenizer
from forage.environments.text.episodes.chunks import Chunks
from forage.environments.text.form import Context, Form
from forage.environments.text.worlds import Start, World, WorldReply

UNKNOWN, ROOM = 256, 64  # tokens of an answer and of a reply, where no expert shows how long they are
PROBED_UNKNOWN = 8  # episodes whose first texts are looked at there
PROBED = 200  # episodes whose texts are looked at to find how many tokens they take
WAITED = WorldReply("", 0.0, False)
OVERFLOWN = WorldReply("", 0.0, True, 0.0, 0.0)


class Limits(NamedTuple):
    """The limits that tasks set for an episode; 0 is the environment's own."""

    turns: int = 0
    context: int = 0  # of tokens that turns after the first read
    response: int = 0  # of tokens of a turn


UNLIMITED = Limits()


class EpisodeSlot(NamedTuple):
    """A running episode: its start and the texts since, from which its other parts follow."""

    start: Start
    written: tuple[tuple[int, ...], ...] = ()  # the tokens of each turn
    context: tuple[int, ...] = ()  # what the policy reads; empty where it has nothing left to do
    turn: int = 0  # steps since the start
    over: bool = False  # the rest of the steps is waiting
    said: WorldReply = WAITED  # what came of the last text
    hint: float = 0.0  # the share of the reference that was given away
    given: tuple[int, ...] = ()  # its tokens, with which the first text begins
    prefix: tuple[int, ...] = ()  # what the next text begins with; the context ends with it
    read: Context = Context(())  # the context without tokens that were given for the answer
    cut: bool = False  # over because what was said no longer fitted into the context
    limits: Limits = UNLIMITED


class Words(NamedTuple):
    """Texts as tokens."""

    form: Form
    stop: tuple[int, ...]  # tokens that end a text; the first is put behind a text that none ends

    @property
    def end(self) -> int:
        return self.stop[0]

    @property
    def tokenizer(self) -> Tokenizer:
        return self.form.tokenizer

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text))

    def decode(self, tokens: Sequence[int], hides: bool = False) -> str:
        """Return the text of an answer without its end. `hides`: and without the names of special tokens."""
        return self.tokenizer.decode([token for token in tokens if token not in self.stop], special=not hides)

    def trim_action(self, tokens: np.ndarray) -> tuple[int, ...]:
        """Return the tokens of an action, up to and including the stop token."""
        found: list[int] = []
        for token in tokens.tolist():
            if token == Tokens.PAD:
                break
            found.append(token - 1)
            if token - 1 in self.stop:
                break
        return tuple(found)

    def hint_tokens(self, world: World, hint: float) -> tuple[int, ...]:
        """Return the tokens of the reference that a hint gives away, a share of all, rounded."""
        if not hint:
            return ()
        known = self.encode(world.reference())
        return known[: round(hint * len(known))]

    def next_context(self, read: Context, answer: Sequence[int], said: WorldReply) -> Context:
        """Return the context after an answer and the world's reply to it."""
        return self.form.begin(said.text) if said.anew else self.form.extend(read, answer, said.next_messages)

    def sizes(self, world: World, levels: Sequence[int], hint: float, rounds: int) -> tuple[int, int]:
        """Return the number of tokens of an episode's context and of an answer, by references with a margin.

        `rounds`: the largest number of times that an expert's episode is extended.
        """
        longest, written = 1, 1
        for number in range(PROBED):
            read = world.open(self.form, world.begin(Start(levels[number % len(levels)], number)))
            if not world.known:
                longest = max(longest, len(read.tokens))
                if number < PROBED_UNKNOWN:
                    continue
                return round(1.2 * longest) + (world.turns - 1) * (UNKNOWN + ROOM), UNKNOWN
            longest = max(longest, len(read.tokens) + len(self.hint_tokens(world, hint)))
            for _ in range(world.turns):
                reference = self.encode(world.reference())
                written = max(written, len(reference) + 1)
                longest = max(longest, len(read.tokens))
                said = world.reply(world.reference())
                if said.over:
                    break
                read = self.next_context(read, (*reference, self.end), said)
        return round(longest * rounds * (1.2 if world.turns > 1 else 1.1)) + 1, round(written * 1.2) + 1


class Course(NamedTuple):
    """The properties shared by all episodes of an environment."""

    name: str
    words: Words
    turns: int  # steps of an episode
    context: int  # tokens that are read at most
    response: int  # tokens that are written in a turn at most
    longest: int  # tokens of an answer at most, of all its chunks
    chunks: Chunks | None = None
    verified: bool = False  # a verifier says what an answer is worth

    def begin_episode(
        self, world: World, start: Start, prompt: str | Dialogue, hint: float, limits: Limits = UNLIMITED
    ) -> EpisodeSlot:
        """Return the first state of an episode, after its world has given its prompt."""
        given, read = self.words.hint_tokens(world, hint), world.open(self.words.form, prompt)
        context = (*read.tokens, *given)
        if len(context) > self.context:
            raise ForageError(
                f"A prompt of {self.name} takes {len(context)} tokens, and the context has room for {self.context}; "
                f"give a context of {len(context)} or more, or an easier level."
            )
        return EpisodeSlot(start, (), context, hint=hint, given=given, read=read, limits=limits)

    def room(self, slot: EpisodeSlot) -> int:
        """Return the largest number of tokens of the episode's next text."""
        return min(slot.limits.response or self.response, self.response)

    def apply_turn(self, slot: EpisodeSlot, tokens: np.ndarray, reply: Callable[[str], WorldReply]) -> EpisodeSlot:
        """Return an episode after a turn's tokens. `reply` returns the world's reply to a text."""
        slot = slot._replace(turn=slot.turn + 1)
        if slot.over:
            return slot
        own = self.words.trim_action(tokens)[: self.room(slot)]
        if self.chunks:
            return self.apply_chunk(slot, own, reply)
        if slot.prefix:
            own = (*slot.prefix, *own)[: self.longest]
        answer = own if slot.written else (*slot.given, *own)
        said = reply(self.words.decode(answer))
        after = slot._replace(written=(*slot.written, own), said=said, over=said.over, context=(), prefix=())
        if said.over or slot.turn == self.turns:
            return after
        if slot.turn == slot.limits.turns:
            said = said._replace(over=True)
            said = said._replace(format=0.0, truth=0.0) if self.verified else said
            return after._replace(said=said, over=True)
        read = self.words.next_context(slot.read, answer, said)
        if len(read.tokens) > min(slot.limits.context or self.context, self.context):
            return after._replace(said=OVERFLOWN, over=True, cut=True)
        return after._replace(context=read.tokens, read=read)

    def ended(self, tokens: Sequence[int]) -> bool:
        """Return whether the last of some tokens ends a text."""
        return bool(tokens) and tokens[-1] in self.words.stop

    def is_unfinished(self, slot: EpisodeSlot) -> bool:
        """Return whether an answer of an episode used up its tokens without an end."""
        parts = [tuple(token for part in slot.written for token in part)] if self.chunks else slot.written
        most = min(slot.limits.response or self.longest, self.longest)
        return any(len(part) >= most and not self.ended(part[:most]) for part in parts)

    def apply_chunk(self, slot: EpisodeSlot, own: tuple[int, ...], reply: Callable[[str], WorldReply]) -> EpisodeSlot:
        """Return the episode after a chunk of its answer; a complete answer is judged."""
        assert self.chunks is not None
        slot = slot._replace(written=(*slot.written, own))
        answer = tuple(token for chunk in slot.written for token in chunk)[: self.longest]
        if self.ended(own) or len(own) < self.chunks.size or slot.turn == self.turns:
            said = reply(self.words.decode(answer))
            return slot._replace(said=said, over=True, context=())
        context = (*slot.read.tokens, *self.chunks.excerpt(answer))
        if len(context) > self.context:
            return slot._replace(said=OVERFLOWN, over=True, cut=True, context=())
        return slot._replace(context=context)

    def set_prefix(self, slot: EpisodeSlot, prefix: tuple[int, ...]) -> EpisodeSlot:
        """Return an episode with a prefix for its next text, in place of the earlier prefix."""
        context = (*slot.context[: len(slot.context) - len(slot.prefix)], *prefix)
        if not slot.context or self.ended(prefix):
            raise ForageError(f"A text of {self.name} that has ended does not go on; keep fewer of its tokens.")
        if len(context) > self.context:
            raise ForageError(
                f"A text of {self.name} that goes on needs a context of {len(context)} tokens, and it has room for "
                f"{self.context}; give a context of {len(context)} or more."
            )
        return slot._replace(context=context, prefix=prefix)

    def episode_context(self, slot: EpisodeSlot, world: World) -> dict[str, np.ndarray]:
        """Return the context of an episode, padded in front, and an expert's next text, padded behind."""
        context = np.full(self.context, Tokens.PAD, np.int32)
        reference = np.full(self.response, Tokens.PAD, np.int32)
        if slot.context:
            context[-len(slot.context) :] = np.array(slot.context) + 1
            known = () if slot.prefix else self.words.encode(world.reference())
            known = known if slot.written else known[len(slot.given) :]
            whole = (*known, self.words.end) if known else ()
            if self.chunks:
                whole = self.chunks.following([token for chunk in slot.written for token in chunk], whole)
            if len(whole) <= self.room(slot):
                reference[: len(whole)] = np.array(whole, np.int32) + 1
        return {"context": context, "reference": reference}


def save_slot(slot: EpisodeSlot) -> dict[str, Any]:
    """Return an episode as JSON: its start, the texts written, and the prefix of the next text."""
    written = [list(tokens) for tokens in slot.written]
    saved = {"start": list(slot.start), "written": written, "turn": slot.turn, "hint": slot.hint}
    saved |= {"limits": list(slot.limits)} if any(slot.limits) else {}
    return saved | ({"prefix": list(slot.prefix)} if slot.prefix else {})
