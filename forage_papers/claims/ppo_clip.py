"""The clipped objective bears many epochs: Schulman and others (2017)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="Proximal Policy Optimization Algorithms",
    authors="Schulman, Wolski, Dhariwal, Radford, Klimov",
    year=2017,
    arxiv="1707.06347",
    statement="With the ratio clipped, several epochs on each rollout end with higher returns than without clipping.",
    environment="Pendulum-v1",
    arms={
        "no clipping": Arm("ppo", {"clip": 1e6}),
        "clip 0.2": Arm("ppo", {"clip": 0.2}),
    },
    treatment="clip 0.2",
    baselines=("no clipping",),
    measure=evaluated,
    measured="return",
    laptop=Scale(300_000),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 3, "hours on 2 cores"),
    note="Pendulum in place of seven MuJoCo tasks (table 1 of the paper, normalised: -0.39 without, 0.82 with).",
)
