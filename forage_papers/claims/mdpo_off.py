"""Soft actor-critic near its old policy: Tomar, Shani, Efroni and Ghavamzadeh (2020)."""

from __future__ import annotations

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Rule, Scale, area

OPTIONS = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "initial_temperature": 0.2}

CLAIM = Claim(
    title="Mirror Descent Policy Optimization",
    authors="Tomar, Shani, Efroni, Ghavamzadeh",
    year=2020,
    arxiv="2005.09814",
    statement="Off-policy MDPO learns Pendulum on a par with SAC at the same fixed temperature: its mean return over "
    "training is at most 100 lower.",
    environment="Pendulum-v1",
    arms={
        "SAC": Arm("sac", OPTIONS | {"learn_temperature": False}),
        "MDPO": Arm("mdpo-off", OPTIONS | {"sgd_steps": 250}),
    },
    treatment="MDPO",
    baselines=("SAC",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(8000, SEEDS[:5]),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:Walker2d-v5", 1_000_000, 5, "a GPU and a day", {"hidden_sizes": (256, 256)}),
    rule=Rule(margin=-100.0),
    note="Pendulum in place of MuJoCo tasks, small networks, and an old policy that is renewed four times as often "
    "as in the authors' example, as the run is short. Nothing was tried before. The paper's own pages could not"
    " be looked up, nor its seeds.",
)
