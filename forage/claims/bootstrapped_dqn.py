"""A value function drawn for a whole episode explores deeply: Osband and others (2016, 2018)."""

from __future__ import annotations

from forage.claims.claim import Arm, Claim, Paper, Scale, area

CLAIM = Claim(
    title="Deep Exploration via Bootstrapped DQN",
    authors="Osband, Blundell, Pritzel, Van Roy",
    year=2016,
    arxiv="1602.04621",
    statement="Following one of many value functions through an episode finds a reward that epsilon-greedy does not.",
    environment="DeepSea-20",
    arms={
        "epsilon-greedy": Arm("dqn", {"n_step": 1}),
        "bootstrapped": Arm("bootstrapped-dqn"),
    },
    treatment="bootstrapped",
    baselines=("epsilon-greedy",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(40_000, tuple(range(1000, 1005))),
    smoke=Scale(1600, (1000, 1001)),
    paper=Paper("gymnasium:ALE/MontezumaRevenge-v5", 50_000_000, 3, "many GPUs and days"),
    note="DeepSea in place of Atari's 49 games, and with randomised priors (Osband, Aslanides, Cassirer, 2018, arXiv "
    "1806.03335), which it takes.",
)
