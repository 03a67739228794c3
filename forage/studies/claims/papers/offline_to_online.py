"""A warm-up keeps a policy that was learned offline from being lost online: Zhou and others (2024)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from forage.memory.mixed import Mixed
from forage.memory.uniform import UniformReplay
from forage.runs import training
from forage.runs.run import Run
from forage.studies.claims.claim import SEEDS, Also, Arm, Claim, Paper, Scale, evaluated
from forage.studies.record import record

SMALL: dict[str, Any] = {"hidden_sizes": (32, 32), "batch_size": 64, "learning_rate": 1e-3}
OPTIONS = SMALL | {"critics": 5, "critic_norm": "layer"}
ONLINE = OPTIONS | {"updates_per_rollout": 2, "policy_delay": 2, "target_entropy": -1.0, "backup_entropy": True}
BEFORE = Path("runs") / "claims" / "offline-to-online-before"
CURVE = {"evaluation_every": 250, "evaluation_episodes": 8}


def trained(agent: str, name: str, **words: Any) -> Run:
    """Return the run of this name that comes before the arms: as it lies there, gone on with, or begun."""
    directory = BEFORE / name
    if not Run.begun(directory):
        words |= {"evaluation_episodes": 8, "display": "quiet"}
        return training.train(agent, "Pendulum-v1", directory=directory, **words)
    run = Run(directory)
    return run if run.evaluation is not None else training.resume(directory, display="quiet")


def data() -> str:
    """Return the file of 50 episodes, half of an agent and half at random; record it where it is not there."""
    file = BEFORE / "data.npz"
    if not file.exists():
        actor = trained("sac", "actor", steps=8000, seeds=[0], agent_options=SMALL)
        record(actor.directory, 10_000, file, actions="sampled", random=0.5)
    return str(file)


def offline() -> str:
    """Return the run that learned from this data alone; train it where it is not there."""
    run = trained("sac", "offline", steps=5000, seeds=SEEDS[:5], agent_options=OPTIONS, data=data())
    return str(run.directory)


def going_on() -> dict[str, Any]:
    return CURVE | {"start_from": offline(), "memory": UniformReplay(10_000)}


def lowest(run: Run) -> list[float]:
    """Return each seed's lowest mean return in the evaluations after the first."""
    return np.array([row["return"] for row in run.evaluations[1:]]).min(0).tolist()


CLAIM = Claim(
    title="Efficient Online Reinforcement Learning Fine-Tuning Need Not Retain Offline Data",
    authors="Zhou, Peng, Li, Levine, Kumar",
    year=2024,
    arxiv="2412.07762",
    statement="Going on online from an offline policy, SAC falls less far where a warm-up of that policy's own steps "
    "comes before the first update.",
    environment="Pendulum-v1",
    arms={
        "naive": Arm("sac", ONLINE | {"climb": "mean", "target_subset": 2, "learning_starts": 64}, going_on),
        "WSRL": Arm("wsrl", ONLINE | {"learning_starts": 1000}, going_on),
        "RLPD": Arm(
            "rlpd", ONLINE | {"learning_starts": 1000}, lambda: CURVE | {"memory": Mixed(data(), capacity=10_000)}
        ),
    },
    treatment="WSRL",
    baselines=("naive",),
    measure=lowest,
    measured="lowest evaluation after the hand-over",
    also=(Also(evaluated, "return after the run"),),
    laptop=Scale(3000, SEEDS[:5]),
    smoke=Scale(1250, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 300_000, 10, "a GPU and a day", lacks="the data sets of D4RL"),
    note="SAC with five normalised critics and the least value of all as target learns offline, in place of CQL or "
    "Cal-QL, from 50 episodes of which half are random. All arms make two updates a step, and naive fine-tuning is "
    "WSRL without the warm-up. RLPD begins untrained, with the data for half of each batch; its lowest evaluation is "
    "that of a beginner.",
)
