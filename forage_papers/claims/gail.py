"""Matching what an expert visits takes fewer demonstrations than cloning: Ho and Ermon (2016)."""

from __future__ import annotations

from typing import Any

from forage.rewards.adversarial.gail import GAIL
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

QUICK: dict[str, Any] = {"num_envs": 8, "rollout_length": 256, "minibatches": 16, "epochs": 10, "learning_rate": 1e-3}
QUICK |= {"discount": 0.95}


def demonstration() -> str:
    return played("Pendulum-v1", swing_up, (0.0,))


CLAIM = Claim(
    title="Generative Adversarial Imitation Learning",
    authors="Ho, Ermon",
    year=2016,
    arxiv="1606.03476",
    statement="From one demonstration, a policy that is paid for looking like the expert to a discriminator has higher "
    "returns than behaviour cloning.",
    environment="Pendulum-v1",
    arms={
        "behaviour cloning": Arm(
            "bc", {"hidden_sizes": (64, 64), "learning_rate": 1e-3}, lambda: {"data": demonstration()}, steps=5000
        ),
        "GAIL": Arm("ppo", QUICK, lambda: {"rewards": GAIL(demonstration())}),
    },
    treatment="GAIL",
    baselines=("behaviour cloning",),
    measure=evaluated,
    measured="return",
    laptop=Scale(150_000, SEEDS[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 25_000_000, 7, "a GPU and days", lacks="the experts of the paper"),
    note="One episode of a rule that swings the pendulum up, in place of experts in MuJoCo; PPO in place of TRPO.",
)
