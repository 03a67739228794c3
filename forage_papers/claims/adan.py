"""An optimiser that looks at the change of gradients: Xie, Zhou, Li, Lin and Yan (2022)."""

from __future__ import annotations

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

CLAIM = Claim(
    title="Adan: Adaptive Nesterov Momentum Algorithm for Faster Optimizing Deep Models",
    authors="Xie, Zhou, Li, Lin, Yan",
    year=2022,
    arxiv="2208.06677",
    statement="With Adan PPO learns more in CartPole from the same steps than with Adam at the same learning rate.",
    environment="CartPole-v1",
    arms={"Adam": Arm("ppo", {"optimiser": "adam"}), "Adan": Arm("ppo", {"optimiser": "adan"})},
    treatment="Adan",
    baselines=("Adam",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(60_000, SEEDS[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("classification of ImageNet and language models", 1, 1, "GPUs and days", lacks="supervised learning"),
    note="The paper trains image and language models and no agents. Adam has here the epsilon of 1e-5 that PPO has. "
    "Nothing was tried before.",
)
