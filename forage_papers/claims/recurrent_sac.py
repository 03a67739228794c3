"""Memory in SAC where velocities are hidden: Yang and Nguyen (2021)."""

from __future__ import annotations

from typing import Any

from forage.memory.episodes import Episodes
from forage.memory.uniform import UniformReplay
from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "learning_rate": 1e-3, "learning_starts": 800, "num_envs": 4}
HISTORIES = SMALL | {"unroll": 50, "memory_size": 32, "memory_layers": 1, "batch_size": 16}
HIDDEN: dict[str, Any] = {"wrap": ["masked:0,1"], "rewards": Scaled(0.1)}


def single() -> dict[str, Any]:
    return HIDDEN | {"memory": UniformReplay(20_000)}


def episodes() -> dict[str, Any]:
    return HIDDEN | {"memory": Episodes(20_000)}


def with_memory(name: str) -> Claim:
    """Return the claim that an agent with memory learns what the agent of this name, such as SAC, does not."""
    agent = name.lower()
    return Claim(
        title="Recurrent Off-policy Baselines for Memory-based Continuous Control",
        authors="Yang, Nguyen",
        year=2021,
        arxiv="2110.12628",
        statement=f"Where velocities are hidden, {name} with memory learns from whole histories what {name} without "
        "does not.",
        environment="Pendulum-v1",
        arms={
            name: Arm(agent, SMALL | {"batch_size": 128}, single),
            f"recurrent {name}": Arm(f"recurrent-{agent}", HISTORIES, episodes),
        },
        treatment=f"recurrent {name}",
        baselines=(name,),
        measure=evaluated,
        measured="return",
        laptop=Scale(12_000, SEEDS[:5]),
        smoke=Scale(1200, (1000, 1001)),
        paper=Paper(
            "gymnasium:HalfCheetah-v5", 1_000_000, 5, "a GPU and days", lacks="the authors' robots without velocities"
        ),
        note="Pendulum without its velocity, which the authors have as well, in pieces of 50 steps that begin with "
        "nothing remembered, in place of whole episodes; one layer of 32 units, and an update every four steps. The "
        "paper's steps and seeds could not be looked up.",
    )


CLAIM = with_memory("SAC")
