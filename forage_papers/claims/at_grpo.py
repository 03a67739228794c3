"""Groups of one role and turn in a workflow of language agents: Zhao and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.runs.run import Run
from forage.studies.claims.claim import Also, Arm, Claim, Paper, Scale, evaluated

OPTIONS = {"num_envs": 64, "group_size": 8, "aggregation": "token-mean"}


def workflow() -> dict[str, Any]:
    return {"environment_options": {"level": 5, "tools": "calculator", "roles": True}}


def solved(run: Run) -> list[float]:
    """Return the share of right answers in the evaluation after training."""
    assert run.evaluation is not None
    return [float(value) for value in run.evaluation["truth"]]


CLAIM = Claim(
    title="Stronger Together: On-Policy Reinforcement Learning for Collaborative LLMs",
    authors="Zhao, Hu, Wang, Hou, Zhang, Ding, Zhao",
    year=2025,
    arxiv="2510.11062",
    statement="A caller and a solver learn more where each turn of a role is compared with others in the same state "
    "than where whole episodes are compared.",
    environment="text:addition",
    arms={
        "episodes compared": Arm("grpo", OPTIONS, workflow),
        "AT-GRPO": Arm("at-grpo", OPTIONS, workflow),
        "AT-GRPO, a policy of each role": Arm("at-grpo", OPTIONS | {"policies": "own"}, workflow),
    },
    treatment="AT-GRPO",
    baselines=("episodes compared",),
    measure=solved,
    measured="share of held-out problems solved after training",
    also=(Also(evaluated, "what an episode is paid, at most 4"),),
    laptop=Scale(12_800, tuple(range(1000, 1005))),
    smoke=Scale(256, (1000, 1001)),
    paper=Paper("games, plans, programs and mathematics", 1_000_000, 1, "8 GPUs for language models", lacks="both"),
    note="Sums of six digits, which the base model gets wrong without a calculator: one role calls it, the other "
    "answers. A turn of one role of two takes a step, so 12,800 steps are 100 updates. The arm with two policies is "
    "shown and decides nothing.",
)
