"""What a tool is, and how its answers are kept short and plain."""

from __future__ import annotations

import dataclasses
import unicodedata
from typing import Any, Protocol, runtime_checkable


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a tool says to one call."""

    text: str  # what the policy reads
    error: bool  # whether the call was wrong, or could not be carried out; the text says why in one sentence
    seconds: float  # that answering took; never part of the text, as it differs from run to run


@runtime_checkable
class Tool(Protocol):
    """Something that answers texts. It never raises for what a policy wrote: a bad text gets an answer that says so."""

    name: str  # in small letters, as calls name it
    description: str  # what it does and how its text is written, in a sentence or two for the policy

    def call(self, text: str) -> Answer:
        """Return the answer to a text."""
        ...


@runtime_checkable
class Remembers(Tool, Protocol):
    """A tool that keeps something from call to call within an episode."""

    def begin(self, seed: int) -> None:
        """Begin an episode: forget the last one."""
        ...

    def save(self) -> bytes:
        """Return what the tool keeps, so that another of its kind can go on from it."""
        ...

    def restore(self, saved: bytes) -> None:
        """Go on from what was saved."""
        ...


@runtime_checkable
class Recorded(Tool, Protocol):
    """A tool about which a run keeps more than its options, such as what it could promise on this machine."""

    def record(self) -> dict[str, Any]:
        """Return plain values for the files of a run."""
        ...


def plain(text: str, longest: int) -> str:
    """Return a text without control characters, cut to a length with a marker that says how much is missing.

    Control characters other than line ends and tabs become `?`, so that no output of a program can play with the
    terminal of whoever looks at the run.
    """
    text = text.replace("\r\n", "\n")
    text = "".join(
        sign if sign in "\n\t" or unicodedata.category(sign) not in ("Cc", "Cf", "Cs") else "?" for sign in text
    )
    if len(text) <= longest:
        return text
    return f"{text[:longest]}\n[cut: {len(text) - longest:,} more characters]"
