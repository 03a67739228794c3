"""The best of skills that diffusion draws, and not any of them: Venkatraman and others (2023)."""

from __future__ import annotations

from typing import Any

from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

SMALL: dict[str, Any] = {"horizon": 10, "followed": 5, "skill_size": 4, "hidden_size": 64, "denoiser_sizes": (32, 16)}
SMALL |= {"diffusion_steps": 20, "skill_learning_rate": 1e-3, "prior_learning_rate": 1e-3, "discount": 0.99}


def offline() -> dict[str, Any]:
    return {"data": played("Pendulum-v1", swing_up, (0.0, 1.0) * 10), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Reasoning with Latent Diffusion in Offline Reinforcement Learning",
    authors="Venkatraman, Khaitan, Akella, Dolan, Schneider, Berseth",
    year=2023,
    arxiv="2309.06599",
    statement="To follow the best of several skills that diffusion draws, by values learned over such skills, returns "
    "more than to follow any one of them.",
    environment="Pendulum-v1",
    arms={
        "any skill": Arm("ldcq", SMALL | {"candidates": 1}, offline),
        "LDCQ": Arm("ldcq", SMALL | {"candidates": 8}, offline),
    },
    treatment="LDCQ",
    baselines=("any skill",),
    measure=evaluated,
    measured="return after the run",
    laptop=Scale(3000, SEEDS[:5]),
    smoke=Scale(60, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 5, "a GPU and days", lacks="the data sets of D4RL"),
    note="Ten episodes of a rule that swings the pendulum up and ten of random actions in place of mazes and kitchens; "
    "small networks, 20 steps of diffusion, skills of 10 steps, and 8 candidates in place of 100.",
)
