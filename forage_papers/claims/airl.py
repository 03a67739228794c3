"""A reward that is learned for states alone teaches an agent as well as a discriminator: Fu, Luo and Levine (2018)."""

from __future__ import annotations

from typing import Any

from forage.rewards.adversarial.airl import AIRL
from forage.rewards.adversarial.gail import GAIL
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Rule, Scale, evaluated
from forage.studies.claims.played import balance, played

QUICK: dict[str, Any] = {"num_envs": 8, "rollout_length": 128, "minibatches": 8, "epochs": 10, "learning_rate": 1e-3}


def demonstrations() -> str:
    return played("CartPole-v1", balance, (0.0,) * 5)


CLAIM = Claim(
    title="Learning Robust Rewards with Adversarial Inverse Reinforcement Learning",
    authors="Fu, Luo, Levine",
    year=2018,
    arxiv="1710.11248",
    statement="Adversarial inverse reinforcement learning imitates as well as GAIL does: its return is lower by less "
    "than 50.",
    environment="CartPole-v1",
    arms={
        "GAIL": Arm("ppo", QUICK, lambda: {"rewards": GAIL(demonstrations())}),
        "AIRL": Arm("ppo", QUICK, lambda: {"rewards": AIRL(demonstrations())}),
    },
    treatment="AIRL",
    baselines=("GAIL",),
    measure=evaluated,
    measured="return",
    laptop=Scale(100_000, SEEDS[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:Ant-v5", 30_000_000, 5, "a GPU and days", lacks="the experts of the paper"),
    rule=Rule(margin=-50.0),
    note="Five episodes of a rule that balances the pole, in place of experts in MuJoCo (the paper's table 2); PPO in "
    "place of TRPO. What the paper adds, that its rewards serve under other dynamics, is not tried.",
)
