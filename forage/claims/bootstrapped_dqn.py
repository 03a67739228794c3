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
    "1806.03335), which it takes. Each arm has its agent's defaults, and these differ in more than in how they explore "
    "(bootstrapped against epsilon-greedy): a learning rate of 1e-3 throughout against one of 5e-4 that falls to 0, a "
    "target renewed every 32 steps against 500, 8 environments against 1, an update every 8 steps against 4, from step "
    "128 on against 1,000, and a torso of one layer of 64 against two with dueling streams. So the effect is that of "
    "all of it.",
)
