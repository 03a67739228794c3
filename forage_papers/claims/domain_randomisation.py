"""Drawn physics carry over to other physics: Tobin and others (2017)."""

from __future__ import annotations

from forage.runs.run import Run
from forage.studies import robustness
from forage.studies.claims.claim import Arm, Claim, Paper, Scale
from forage.tasks.contexts import Contexts

LENGTHS = [0.1, 1.5, 2.0, 3.0]


def outside(run: Run) -> list[float]:
    """Return each seed's mean return on poles shorter and longer than any that was trained on."""
    result = robustness.evaluate_under(run.directory, {"length": LENGTHS}, episodes=20)
    return [sum(point.returns[i] for point in result.points) / len(LENGTHS) for i in range(len(run.config["seeds"]))]


CLAIM = Claim(
    title="Domain Randomization for Transferring Deep Neural Networks from Simulation to the Real World",
    authors="Tobin, Fong, Ray, Schneider, Zaremba, Abbeel",
    year=2017,
    arxiv="1703.06907",
    statement="Training in drawn physics does better in unseen physics than training in a single one.",
    environment="CartPole-v1",
    arms={
        "one length": Arm("ppo"),
        "drawn lengths": Arm("ppo", parts=lambda: {"tasks": Contexts(("length=0.25:1.0",))}),
    },
    treatment="drawn lengths",
    baselines=("one length",),
    measure=outside,
    measured="return on unseen lengths",
    laptop=Scale(200_000),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper("CartPole-v1", 1_000_000, 20, "minutes on 2 cores"),
    note="Lengths of a pole in place of textures and lights: the question, not the setting, is the paper's.",
)
