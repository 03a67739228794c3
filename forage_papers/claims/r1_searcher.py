"""Learning to search in two stages: Song and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import Arm, Before, Claim, Paper, Scale, evaluated

OPTIONS = {"num_envs": 64, "group_size": 8, "advantage": "reinforce++-baseline", "aggregation": "token-mean"}


def stage(number: int) -> dict[str, Any]:
    """Return questions that one document answers, with the rewards of a stage."""
    return {"environment_options": {"hops": 1, "people": 4, "stage": number}}


CLAIM = Claim(
    title="R1-Searcher: Incentivizing the Search Capability in LLMs via Reinforcement Learning",
    authors="Song, Jiang, Min, Chen, Chen, Zhao, Fang, Wen",
    year=2025,
    arxiv="2503.05592",
    statement="A first stage that rewards searching makes a second, which rewards answers, come further.",
    environment="text:search-qa",
    arms={
        "answers alone": Arm("grpo", OPTIONS, lambda: stage(2)),
        "searching first": Arm(
            "grpo", OPTIONS, lambda: stage(2), before=Before("grpo", 6400, OPTIONS, lambda: stage(1)), steps=6400
        ),
    },
    treatment="searching first",
    baselines=("answers alone",),
    measure=evaluated,
    measured="reward of held-out questions in the second stage, after training",
    laptop=Scale(12_800, tuple(range(1000, 1005))),
    smoke=Scale(256, (1000, 1001)),
    paper=Paper("HotpotQA and others", 100_000, 1, "GPUs for a language model of 7 billion parameters", lacks="both"),
    note="A small corpus that is made up anew for every question, which one document answers. Both arms write as many "
    "texts in all.",
)
