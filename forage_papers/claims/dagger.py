"""Labels where the learner itself goes keep its errors from adding up: Ross, Gordon and Bagnell (2011)."""

from __future__ import annotations

from forage.behaviours.dagger import DAgger
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL = {"hidden_sizes": (64, 64), "learning_rate": 1e-3}

CLAIM = Claim(
    title="A Reduction of Imitation Learning and Structured Prediction to No-Regret Online Learning",
    authors="Ross, Gordon, Bagnell",
    year=2011,
    arxiv="1011.0686",
    statement="With as many labels of an expert, labelling the states that the learner visits leads to higher returns "
    "than labelling those that the expert visits.",
    environment="Pendulum-v1",
    arms={
        "behaviour cloning": Arm("bc", SMALL, lambda: {"data": played("Pendulum-v1", swing_up, (0.0,) * 5)}),
        "DAgger": Arm("bc", SMALL, lambda: {"behaviour": DAgger(lambda seen, key: swing_up(seen))}, steps=1000),
    },
    treatment="DAgger",
    baselines=("behaviour cloning",),
    measure=evaluated,
    measured="return",
    laptop=Scale(5000, SEEDS[:5]),
    smoke=Scale(400, (1000, 1001)),
    paper=Paper("gymnasium:CarRacing-v3", 100_000, 5, "hours", lacks="the games of the paper"),
    note="Swinging up Pendulum in place of a kart race and a platform game; both learners have 1,000 labels of a rule.",
)
