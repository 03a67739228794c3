"""Replays of earlier runs beside a fresh run's own: Tirumala and others (2023)."""

from __future__ import annotations

from typing import Any

from forage.memory.mixed import Mixed
from forage.memory.uniform import UniformReplay
from forage.rewards.scaling import Scale as Scaled
from forage.studies.claims.claim import SEEDS, Also, Arm, Claim, Paper, Scale, area, evaluated
from forage.studies.claims.prepared import replay

SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3, "learning_starts": 500}
EARLIER, STEPS = (11, 12), 3000


def fresh() -> dict[str, Any]:
    return {"memory": UniformReplay(10_000), "rewards": Scaled(0.1)}


def across() -> dict[str, Any]:
    told = tuple(SMALL.items())
    earlier = [replay("sac", "Pendulum-v1", STEPS, seed, told, rewards=Scaled(0.1)) for seed in EARLIER]
    return {"memory": Mixed(earlier, capacity=10_000), "rewards": Scaled(0.1)}


CLAIM = Claim(
    title="Replay across Experiments: A Natural Extension of Off-Policy RL",
    authors="Tirumala, Lampe, Chen, Haarnoja, Huang, Lever, Moran, Hertweck, Hasenclever, Riedmiller, Heess, Wulfmeier",
    year=2023,
    arxiv="2311.15951",
    statement="With half of each batch from all that earlier runs experienced, a fresh run has higher returns in "
    "training than one from scratch.",
    environment="Pendulum-v1",
    arms={"from scratch": Arm("sac", SMALL, fresh), "earlier replays": Arm("sac", SMALL, across)},
    treatment="earlier replays",
    baselines=("from scratch",),
    measure=area,
    measured="mean return in training",
    also=(Also(evaluated, "return"),),
    laptop=Scale(3000, SEEDS[:5]),
    smoke=Scale(800, (1000, 1001)),
    paper=Paper("dm_control:humanoid-run", 10_000_000, 5, "a GPU and days", lacks="its robots that play football"),
    note="Soft actor-critic, and the whole replays of two runs of other seeds with the same settings. The paper has "
    "other learners and several rounds of this; only its abstract could be looked up, so half is RLPD's share.",
)
