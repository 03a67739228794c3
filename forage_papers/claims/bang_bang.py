"""Both ends of an action's range are enough: Seyde and others (2021)."""

from __future__ import annotations

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Rule, Scale, evaluated

CLAIM = Claim(
    title="Is Bang-Bang Control All You Need? Solving Continuous Control with Bernoulli Policies",
    authors="Seyde, Gilitschenski, Schwarting, Stellato, Riedmiller, Wulfmeier, Rus",
    year=2021,
    arxiv="2111.02552",
    statement="PPO that chooses between the ends of the action's range has returns no more than 100 below those of PPO "
    "with a Gaussian.",
    environment="Pendulum-v1",
    arms={"Gaussian": Arm("ppo"), "bang-bang": Arm("ppo", {"bang_bang": True})},
    treatment="bang-bang",
    baselines=("Gaussian",),
    measure=evaluated,
    measured="return",
    laptop=Scale(200_000, SEEDS[:5]),
    smoke=Scale(8192, (1000, 1001)),
    paper=Paper("gymnasium:Walker2d-v5", 10_000_000, 10, "a GPU and days"),
    rule=Rule(margin=-100.0),
    note="Pendulum in place of DeepMind Control's tasks, and PPO in place of MPO; its torque costs a thousandth of its "
    "square. Random actions have about -1,250, and good policies -150.",
)
