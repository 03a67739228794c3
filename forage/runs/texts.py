"""Conversations that a run keeps in words, so that people can read what its policy says as it learns.

Each evaluation leaves a line in texts.jsonl: its `steps`, and of each member the first few of its episodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from forage.core.host import Conversation
from forage.core.records import wrong_texts
from forage.runs.curve import read_rows

KEPT = 5  # episodes of each member that an evaluation leaves
FILE = "texts.jsonl"


class Texts(NamedTuple):
    """What a run said in one evaluation."""

    steps: int  # that each member had taken
    members: list[list[Conversation]]  # each member's episodes


def row_of(steps: int, conversations: list[list[Conversation]]) -> dict[str, Any]:
    """Return the line that an evaluation leaves."""
    return {"steps": steps, "members": [[one._asdict() for one in each[:KEPT]] for each in conversations]}


def read_texts(directory: Path) -> list[Texts]:
    """Return what a run has kept, oldest first; of several evaluations at one step the newest."""

    def told(one: dict[str, Any]) -> Conversation:
        said = tuple((who, what) for who, what in one["said"])
        return Conversation(said, one["reward"], one["verdict"], one["reference"])

    rows = {row["steps"]: row for row in read_rows(directory / FILE, wrong_texts)}
    return [Texts(steps, [[told(one) for one in each] for each in row["members"]]) for steps, row in rows.items()]


def first_middle_last(texts: list[Texts]) -> list[Texts]:
    """Return the first, the middle and the last of them; all where there are no more than three."""
    return texts if len(texts) < 4 else [texts[0], texts[(len(texts) - 1) // 2], texts[-1]]
