"""Values of steps by answers that go on from them: Kazemnejad and others (2024)."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

ANSWERS = {"num_envs": 160, "group_size": 8, "aggregation": "token-mean", "epochs": 2}
TREE = {"num_envs": 32, "group_size": 4, "rollout_length": 5}


def branched() -> dict[str, Any]:
    return {"environment_options": {"branches": True}}


CLAIM = Claim(
    title="VinePPO: Unlocking RL Potential For LLM Reasoning Through Refined Credit Assignment",
    authors="Kazemnejad, Aghajohari, Portelance, Sordoni, Reddy, Courville, Le Roux",
    year=2024,
    arxiv="2410.01679",
    statement="Advantages of each step, from answers that go on from it, teach more than one advantage for all tokens.",
    environment="text:countdown",
    arms={
        "leave-one-out": Arm("grpo", ANSWERS | {"advantage": "rloo"}, branched),
        "VinePPO": Arm("vine-ppo", TREE, branched),
    },
    treatment="VinePPO",
    baselines=("leave-one-out",),
    measure=evaluated,
    measured="share of held-out problems solved after training",
    laptop=Scale(12_800, tuple(range(1000, 1005))),
    smoke=Scale(320, (1000, 1001)),
    paper=Paper("MATH and GSM8K", 1_000_000, 1, "GPUs for a language model of 1 billion parameters", lacks="both"),
    note="Both arms write as many answers, 160, to an update, and those that tell values count. The paper cuts at "
    "every step of reasoning and draws nine answers from each; here there are four cuts, in equal parts, and four "
    "answers. Its own baseline has a critic.",
)
