"""Answers in chunks with a short context for each: the rule of Delethink.

Aghajohari, Chitsaz, Kazemnejad, Chandar, Sordoni, Courville, Reddy (2025), "The Markovian Thinker", arXiv 2510.06557.
An answer longer than a chunk continues from the prompt, the first tokens of the answer (`head`, 100 in their program)
and its last ones (`carry`, half a chunk there); the tokens in between are dropped, so that the context never grows and
the policy learns to write down information it will need. Rewards are of the whole answer, and every chunk is learned
from.

As in the authors' program (McGill-NLP/the-markovian-thinker: delethink_tracing_demo.py), with one exception: there the
first chunk is longer than the others by the tokens that these carry over, and here all chunks are equally long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from forage.core.errors import ForageError


class Chunks(NamedTuple):
    """The chunks of an answer: `size` tokens each, with `head` and `carry` tokens shown to the next chunk."""

    size: int
    carry: int
    head: int = 0

    def check(self, name: str, alone: bool) -> None:
        """Raise `ForageError` for impossible chunks, or if an episode has several turns. `alone`: it has one turn."""
        if not alone:
            raise ForageError(f"{name} has several turns, and chunks are of one answer; leave out chunk, or the tools.")
        if self.size < 1 or not 0 <= self.carry <= self.size or not 0 <= self.head <= self.size:
            raise ForageError(
                f"A chunk of {name} has {self.size} tokens, carries {self.carry} over and keeps {self.head} of the "
                f"first; give a chunk of 1 or more, and for the others numbers from 0 to it."
            )

    def turns(self, response: int) -> int:
        """Return the number of chunks in an answer of `response` tokens."""
        return -(-response // self.size)

    def excerpt(self, answer: Sequence[int]) -> tuple[int, ...]:
        """Return the part of the answer so far shown to the next chunk: its head and its tail, without overlap."""
        tail = max(self.head, len(answer) - self.carry)
        return (*answer[: self.head], *answer[tail:])

    def following(self, answer: Sequence[int], reference: Sequence[int]) -> tuple[int, ...]:
        """Return an expert's next chunk; empty if the answer differs from the expert's."""
        begun = len(answer)
        if tuple(answer) != tuple(reference[:begun]):
            return ()
        return tuple(reference[begun : begun + self.size])
