"""Thinking in chunks with a short memory: Aghajohari and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

OPTIONS = {"num_envs": 64, "group_size": 8, "advantage": "dr-grpo", "aggregation": "token-mean"}
LEVEL = 2


def plain() -> dict[str, Any]:
    return {"environment_options": {"level": LEVEL}}


def chunked(carry: int) -> dict[str, Any]:
    """Return chunks of 12 tokens."""
    return {"environment_options": {"level": LEVEL, "chunk": 12, "carry": carry}}


CLAIM = Claim(
    title="The Markovian Thinker",
    authors="Aghajohari, Chitsaz, Kazemnejad, Chandar, Sordoni, Courville, Reddy",
    year=2025,
    arxiv="2510.06557",
    statement="A policy that sees only the end of the last chunk learns to solve what it cannot without that memory.",
    environment="text:addition",
    arms={
        "whole answers": Arm("grpo", OPTIONS, plain),
        "chunks without memory": Arm("grpo", OPTIONS, lambda: chunked(0)),
        "Delethink": Arm("grpo", OPTIONS, lambda: chunked(6)),
    },
    treatment="Delethink",
    baselines=("chunks without memory",),
    measure=evaluated,
    measured="share of held-out problems solved after training",
    laptop=Scale(25_600, tuple(range(1000, 1005))),
    smoke=Scale(512, (1000, 1001)),
    paper=Paper("AIME and others", 1_000_000, 1, "GPUs for a language model of 1.5 billion parameters", lacks="both"),
    note="The paper compares with whole answers of the same length, which are shown beside it and decide nothing: an "
    "equal result is what it claims of them. A step is a chunk here, so whole answers have several times as many.",
)
