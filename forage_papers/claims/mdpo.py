"""Several gradient steps on the mirror-descent objective: Tomar, Shani, Efroni and Ghavamzadeh (2020)."""

from __future__ import annotations

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

OPTIONS = {"minibatches": 1, "learning_rate": 1e-3}

CLAIM = Claim(
    title="Mirror Descent Policy Optimization",
    authors="Tomar, Shani, Efroni, Ghavamzadeh",
    year=2020,
    arxiv="2005.09814",
    statement="Ten gradient steps on each mirror-descent objective learn more in CartPole than one, which is the plain "
    "policy gradient.",
    environment="CartPole-v1",
    arms={
        "1 step": Arm("mdpo", OPTIONS | {"epochs": 1}),
        "10 steps": Arm("mdpo", OPTIONS | {"epochs": 10}),
        "PPO": Arm("ppo", OPTIONS | {"epochs": 10, "entropy_coefficient": 0.0}),
    },
    treatment="10 steps",
    baselines=("1 step",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(60_000, SEEDS[:5]),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:Walker2d-v5", 10_000_000, 5, "a day", {"num_envs": 1, "rollout_length": 2048}),
    note="CartPole in place of MuJoCo tasks; value and policy learn in the same steps. PPO with as many steps stands"
    " beside it and decides nothing. Nothing was tried before. Steps are those of the authors' program; the "
    "paper's own pages could not be looked up, nor its seeds.",
)
