"""Two stages of rewards within one run: Song and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, evaluated, late
from forage_papers.rewards.verifiers.search_stages import SearchStages

OPTIONS = {"num_envs": 64, "group_size": 8, "aggregation": "token-mean"}
AGENT = "reinforce-plus-plus-baseline"


def paid(begins: int) -> dict[str, Any]:
    """Return questions that one document answers, whose answers are rewarded from a step on."""
    return {"environment_options": {"hops": 1, "people": 4}, "rewards": SearchStages(begins=begins)}


CLAIM = Claim(
    title="R1-Searcher: Incentivizing the Search Capability in LLMs via Reinforcement Learning",
    authors="Song, Jiang, Min, Chen, Chen, Zhao, Fang, Wen",
    year=2025,
    arxiv="2503.05592",
    statement="Rewards for searching, and later in the same run for answers, lead further than those for answers.",
    environment="text:search-qa",
    arms={
        "answers alone": Arm(AGENT, OPTIONS, lambda: paid(0)),
        "two stages": Arm(AGENT, OPTIONS, lambda: paid(3200)),
    },
    treatment="two stages",
    baselines=("answers alone",),
    measure=evaluated,
    measured="reward of held-out questions in the second stage, after training",
    also=(Also(late("searched"), "share of games with a search, in the last tenth of training"),),
    laptop=Scale(12_800, FRESH[:5]),
    smoke=Scale(256, (1000, 1001)),
    paper=Paper("HotpotQA and others", 100_000, 1, "GPUs for a language model of 7 billion parameters", lacks="both"),
    note="A small corpus that is made up anew for every question, which one document answers. Both arms have the same "
    "rewards part, which pays for answers from the first step on in one of them; a quarter of the other run is the "
    "first stage.",
)
