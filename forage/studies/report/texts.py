"""Texts of language policies at their first, middle and last evaluation, for a report's tables."""

from __future__ import annotations

from forage.core.host import Conversation
from forage.core.sweep import member_words, members_of
from forage.runs.curve import first_middle_last
from forage.runs.run import Run

HEAD = ["seed", "prompt", "answer", "reference", "reward"]
MOST = 5  # conversations of one evaluation


def tables(run: Run) -> list[tuple[str, list[list[str]]]]:
    """Return a title and the rows of each of these evaluations; empty for a run without texts."""
    members = members_of(run.config["sweep"], run.config["seeds"])
    share = max(1, MOST // len(members))
    return [
        (
            f"after {found.steps:,} steps",
            [
                conversation_row(member_words(member).removeprefix("seed "), one)
                for member, each in zip(members, found.members, strict=False)
                for one in each[:share]
            ],
        )
        for found in first_middle_last(run.texts)
    ]


def conversation_row(member: str, one: Conversation) -> list[str]:
    """Return one conversation as a row; the turns after its prompt are in one cell."""
    (_, prompt), *rest = one.said
    answer = rest[0][1] if len(rest) == 1 else "\n".join(f"{who}: {what}" for who, what in rest)
    return [member, prompt, answer, one.reference, one.reward_words()]
