"""A bonus for what was done seldom: Strehl and Littman (2008)."""

from __future__ import annotations

from forage.rewards.bonuses.counts import Counts
from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated

CLAIM = Claim(
    title="An analysis of model-based interval estimation for Markov decision processes",
    authors="Strehl, Littman",
    year=2008,
    arxiv="Journal of Computer and System Sciences 74",
    statement="A bonus of beta / sqrt(n(s, a)) finds the far reward of RiverSwim, where greed stays at the near one.",
    environment="tabular:RiverSwim-20",
    arms={
        "greed": Arm("dqn"),
        "with counts": Arm("dqn", parts=lambda: {"rewards": Counts(weight=0.3, of="state-action")}),
    },
    treatment="with counts",
    baselines=("greed",),
    measure=evaluated,
    measured="return",
    laptop=Scale(40_000, FRESH[:5]),
    smoke=Scale(1500, (1000, 1001)),
    paper=Paper("tabular:RiverSwim-6", 5000, 1000, "two cores and an hour"),
    note="DQN learns values from replay where the paper plans in the model that was counted. The river is longer, as "
    "of 6 states greed found the far reward by chance, and weight and length were chosen on seeds 1010 to 1014.",
)
