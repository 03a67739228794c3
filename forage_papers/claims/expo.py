"""The best of a flow's actions and of edits of them: Dong and others (2025)."""

from __future__ import annotations

from typing import Any

from forage.memory.mixed import Mixed
from forage.studies.claims.claim import SEEDS, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 64, "learning_rate": 1e-3, "learning_starts": 200}
SMALL |= {"updates_per_rollout": 2, "policy_delay": 2, "critics": 4, "backup_entropy": False}
FLOW = {"candidates": 4, "edited": 4, "flow_steps": 5, "base_polyak": 0.01, "edit_scale": 0.2}


def demonstrated() -> dict[str, Any]:
    return {"memory": Mixed(played("Pendulum-sparse", swing_up, (0.5,) * 10), capacity=10_000)}


CLAIM = Claim(
    title="EXPO: Stable Reinforcement Learning with Expressive Policies",
    authors="Dong, Li, Sadigh, Finn",
    year=2025,
    arxiv="2507.07986",
    statement="Where reward is sparse, the best of a flow's actions and of edits of them has higher returns over the "
    "first steps than RLPD has from the same data, at as many updates.",
    environment="Pendulum-sparse",
    arms={"RLPD": Arm("rlpd", SMALL, demonstrated), "EXPO": Arm("expo", SMALL | FLOW, demonstrated)},
    treatment="EXPO",
    baselines=("RLPD",),
    measure=area,
    measured="mean return in training",
    also=(Also(evaluated, "return"),),
    laptop=Scale(3000, SEEDS[:5]),
    smoke=Scale(600, (1000, 1001)),
    paper=Paper("robomimic:Can", 300_000, 3, "a GPU and days", lacks="the simulator and its demonstrations"),
    note="Ten episodes of a rule that swings the pendulum up, half of whose actions are random, are half of each batch "
    "in place of demonstrations; four candidates, edits of up to a fifth, and four critics. The base that acts follows "
    "ten times as fast as the authors', as there are a hundredth of the updates. The paper's steps and seeds could not "
    "be looked up.",
)
