"""Real data beside a simulator with other gravity: Niu and others (2022)."""

from __future__ import annotations

from typing import Any

from forage.memory.mixed import Mixed
from forage.memory.uniform import UniformReplay
from forage.rewards.scaling import Scale as Scaled
from forage.runs.run import Run
from forage.studies import robustness
from forage.studies.claims.claim import SEEDS, Also, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import played, swing_up

REAL, SIMULATED = 10.0, 20.0
SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "learning_starts": 500}
SMALL |= {"backup_entropy": False, "target_entropy": -1.0}
SIMULATOR: dict[str, Any] = {"environment_options": {"gravity": SIMULATED}, "rewards": Scaled(0.1)}


def simulated() -> dict[str, Any]:
    return SIMULATOR | {"memory": UniformReplay(10_000)}


def both() -> dict[str, Any]:
    return SIMULATOR | {"memory": Mixed(played("Pendulum-v1", swing_up, (0.7,) * 10), capacity=10_000)}


def in_the_real_thing(run: Run) -> list[float]:
    """Return each seed's mean return under the gravity that the data are from."""
    return robustness.evaluate_under(run.directory, {"gravity": [REAL]}, episodes=20).points[0].returns


CLAIM = Claim(
    title="When to Trust Your Simulator: Dynamics-Aware Hybrid Offline-and-Online Reinforcement Learning",
    authors="Niu, Sharma, Qiu, Li, Zhou, Hu, Zhan",
    year=2022,
    arxiv="2206.13464",
    statement="From few real data and a simulator with twice the gravity, H2O's policy returns more in the real thing "
    "than that of SAC from the simulator alone, and of SAC from both without regard to how they differ.",
    environment="Pendulum-v1",
    arms={
        "the simulator alone": Arm("sac", SMALL, simulated),
        "both, alike": Arm("sac", SMALL, both),
        "H2O": Arm("h2o", SMALL | {"classifier_sizes": (64, 64)}, both),
    },
    treatment="H2O",
    baselines=("the simulator alone", "both, alike"),
    measure=in_the_real_thing,
    measured="return in the real thing",
    also=(Also(evaluated, "return in the simulator"),),
    laptop=Scale(6000, SEEDS[:5]),
    smoke=Scale(800, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 5, "a GPU and a day", lacks="the data sets of D4RL"),
    note="Pendulum-v1 is the real thing, of which there are ten episodes of a rule that swings it up, seven tenths of "
    "whose actions are random, in place of HalfCheetah and D4RL; the simulator has twice its gravity.",
)
