"""What matters in on-policy learning: Andrychowicz and others (2020)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

CLAIM = Claim(
    title="What Matters In On-Policy Reinforcement Learning? A Large-Scale Empirical Study",
    authors="Andrychowicz, Raichuk, Stańczyk, Orsini, Girgin, Marinier, Hussenot, Geist, Pietquin, Michalski, Gelly, "
    "Bachem",
    year=2020,
    arxiv="2006.05990",
    statement="Normalising observations raises the returns of PPO in continuous control.",
    environment="Pendulum-v1",
    arms={
        "as they are": Arm("ppo", {"normalise_observation": False}),
        "normalised": Arm("ppo", {"normalise_observation": True}),
    },
    treatment="normalised",
    baselines=("as they are",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(200_000),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 3, "hours on many cores"),
    note="Pendulum, whose observations are of the order of one already, in place of five MuJoCo tasks.",
)
