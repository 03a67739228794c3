"""Answers that are written in chunks, each of which is read anew: the rule of Delethink.

Aghajohari, Chitsaz, Kazemnejad, Chandar, Sordoni, Courville, Reddy (2025), "The Markovian Thinker", arXiv 2510.06557.
An answer longer than a chunk goes on from the prompt, the first tokens of the answer (`head`, 100 in their program) and
its last ones (`carry`, half a chunk there); all between is forgotten, so that the context never grows and the policy
learns to write down what it will need. Rewards are of the whole answer, and every chunk is learned from.

As in the authors' program (McGill-NLP/the-markovian-thinker: delethink_tracing_demo.py), but for one thing: there the
first chunk is longer than the others by the tokens that these carry over, and here all chunks are equally long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from forage.core.errors import ForageError


class Chunks(NamedTuple):
    """How an answer is cut: `size` tokens at a time, of which the next chunk sees the `head` and the `carry`."""

    size: int
    carry: int
    head: int = 0

    def check(self, name: str, alone: bool) -> None:
        """Raise `ForageError` for chunks that cannot be, or where a turn is not an answer. `alone`: it is one."""
        if not alone:
            raise ForageError(f"{name} has several turns, and chunks are of one answer; leave out chunk, or the tools.")
        if self.size < 1 or not 0 <= self.carry <= self.size or not 0 <= self.head <= self.size:
            raise ForageError(
                f"A chunk of {name} has {self.size} tokens, carries {self.carry} over and keeps {self.head} of the "
                f"first; give a chunk of 1 or more, and for the others numbers from 0 to it."
            )

    def turns(self, response: int) -> int:
        """Return how many chunks an answer of so many tokens takes."""
        return -(-response // self.size)

    def seen(self, answer: Sequence[int]) -> tuple[int, ...]:
        """Return what the next chunk sees of the answer so far: its head and its tail, neither of them twice."""
        tail = max(self.head, len(answer) - self.carry)
        return (*answer[: self.head], *answer[tail:])

    def following(self, answer: Sequence[int], reference: Sequence[int]) -> tuple[int, ...]:
        """Return an expert's next chunk; nothing where the answer has left the expert's way."""
        begun = len(answer)
        if tuple(answer) != tuple(reference[:begun]):
            return ()
        return tuple(reference[begun : begun + self.size])
