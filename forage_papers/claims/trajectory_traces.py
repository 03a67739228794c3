"""Traces that know the whole trajectory: Daley, White, Amato and Machado (2023)."""

from __future__ import annotations

from forage.environments.tabular.makers import grid_world
from forage.environments.tabular.mdp import Tabular
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

OPTIONS = {"trace_lambda": 1.0, "discount": 0.9, "learning_rate": 0.3, "acting_epsilon": 0.2, "target_epsilon": 0.1}


def bifurcated() -> Tabular:
    """Make the authors' Bifurcated Gridworld: two ways lead round a wall to the goal."""
    return grid_world(("##...", "##.#.", "##.#G", "##.#.", "S...."), step_reward=-0.02, max_steps=50)


CLAIM = Claim(
    title="Trajectory-Aware Eligibility Traces for Off-Policy Reinforcement Learning",
    authors="Daley, White, Amato, Machado",
    year=2023,
    arxiv="2301.11321",
    statement="With lambda 1, RBIS learns the Bifurcated Gridworld faster than Retrace.",
    environment=bifurcated,
    arms={
        "Retrace": Arm("trace-control", OPTIONS | {"trace": "retrace"}),
        "truncated IS": Arm("trace-control", OPTIONS | {"trace": "truncated-is"}),
        "recursive Retrace": Arm("trace-control", OPTIONS | {"trace": "recursive-retrace"}),
        "RBIS": Arm("trace-control", OPTIONS | {"trace": "rbis"}),
    },
    treatment="RBIS",
    baselines=("Retrace",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(10_000, SEEDS),
    smoke=Scale(500, (1000, 1001)),
    paper=Paper("the same gridworld", 10_000, 10, "a laptop"),
    note="A price of 0.02 a step stands for the discounted return of the authors' program; all learn at one rate, "
    "where it takes each one's best, and after rollouts of 50 steps. Ten seeds, as a run takes a second. "
    "Nothing was tried before. The paper's own pages could not be looked up, nor its steps and seeds.",
)
