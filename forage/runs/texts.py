"""Conversations that a run keeps, so that people can read the policy's texts as it learns.

Each evaluation leaves a line in texts.jsonl: its `steps`, and the first few episodes of each member.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from forage.core.host import Conversation
from forage.core.records import wrong_texts
from forage.runs.curve import read_rows

KEPT = 5  # episodes of each member that are kept of an evaluation
FILE = "texts.jsonl"


class Texts(NamedTuple):
    """The conversations of one evaluation."""

    steps: int  # of each member at that time
    members: list[list[Conversation]]  # each member's episodes


def row_of(steps: int, conversations: list[list[Conversation]]) -> dict[str, Any]:
    """Return the line of an evaluation."""
    return {"steps": steps, "members": [[one._asdict() for one in each[:KEPT]] for each in conversations]}


def read_texts(directory: Path) -> list[Texts]:
    """Return the stored texts, oldest first; only the newest of several evaluations at one step."""

    def told(one: dict[str, Any]) -> Conversation:
        said = tuple((who, what) for who, what in one["said"])
        return Conversation(said, one["reward"], one["verdict"], one["reference"])

    rows = {row["steps"]: row for row in read_rows(directory / FILE, wrong_texts)}
    return [Texts(steps, [[told(one) for one in each] for each in row["members"]]) for steps, row in rows.items()]


def first_middle_last(texts: list[Texts]) -> list[Texts]:
    """Return the first, the middle and the last of them; all if there are no more than three."""
    return texts if len(texts) < 4 else [texts[0], texts[(len(texts) - 1) // 2], texts[-1]]
