"""The interface of a tool, and the limits of its answers."""

from __future__ import annotations

import dataclasses
import unicodedata
from typing import Any, Protocol, runtime_checkable


@dataclasses.dataclass(frozen=True)
class Answer:
    """A tool's answer to one call."""

    text: str  # what the policy reads
    error: bool  # whether the call was wrong, or could not be carried out; the text says why in one sentence
    seconds: float  # that answering took; never part of the text, as it differs from run to run


@runtime_checkable
class Tool(Protocol):
    """An object that answers texts. It never raises for a bad text: its answer explains the error."""

    name: str  # in small letters, as calls name it
    description: str  # what it does and how its text is written, in a sentence or two for the policy

    def call(self, text: str) -> Answer:
        """Return the answer to a text."""
        ...


@runtime_checkable
class Remembers(Tool, Protocol):
    """A tool with a state across the calls of an episode."""

    def begin(self, seed: int) -> None:
        """Begin an episode: forget the last one."""
        ...

    def save(self) -> bytes:
        """Return the tool's state, so that another tool of its kind can continue from it."""
        ...

    def restore(self, saved: bytes) -> None:
        """Restore a saved state."""
        ...


@runtime_checkable
class RecordedTool(Tool, Protocol):
    """A tool with more than its options to record in a run's files, such as its promises on this machine."""

    def record(self) -> dict[str, Any]:
        """Return plain values for the files of a run."""
        ...


def printable_text(text: str, longest: int) -> str:
    """Return a text without control characters, cut to a length with a marker for the number of missing characters.

    Control characters other than line ends and tabs become `?`, so that no output of a program can manipulate the
    terminal of a person who looks at the run.
    """
    text = text.replace("\r\n", "\n")
    text = "".join(
        sign if sign in "\n\t" or unicodedata.category(sign) not in ("Cc", "Cf", "Cs") else "?" for sign in text
    )
    if len(text) <= longest:
        return text
    return f"{text[:longest]}\n[cut: {len(text) - longest:,} more characters]"
