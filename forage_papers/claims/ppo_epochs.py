"""Each rollout is worth several epochs: Schulman and others (2017)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

CLAIM = Claim(
    title="Proximal Policy Optimization Algorithms",
    authors="Schulman, Wolski, Dhariwal, Radford, Klimov",
    year=2017,
    arxiv="1707.06347",
    statement="Several epochs of minibatches on each rollout learn in fewer steps than one epoch does.",
    environment="CartPole-v1",
    arms={
        "1 epoch": Arm("ppo", {"epochs": 1}),
        "10 epochs": Arm("ppo", {"epochs": 10}),
    },
    treatment="10 epochs",
    baselines=("1 epoch",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(50_000),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 3, "hours on 2 cores"),
    note="CartPole in place of MuJoCo tasks. The arms are not tuned alike: 10 epochs are of the preset that was tuned "
    "in CartPole, on other seeds, and all else is as it was tuned with them; 1 epoch only takes their place.",
)
