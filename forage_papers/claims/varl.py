"""An advisor's actions at first, and the task's own rewards throughout: Wu and others (2025)."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Float

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import push

KIT: dict[str, Any] = {"hidden_sizes": (64, 64), "num_envs": 4, "updates_per_rollout": 4, "batch_size": 128}
KIT |= {"learning_rate": 1e-3, "learning_starts": 1000}


def advise(observation: Float[Array, " observation"], action: Float[Array, " action"]) -> Float[Array, " action"]:
    """Suggest to push the car where it moves, whatever was done."""
    return push(observation)


CLAIM = Claim(
    title="Teaching RL Agents to Act Better: VLM as Action Advisor for Online Reinforcement Learning",
    authors="Wu, Zhao, Zhang, Hu",
    year=2025,
    arxiv="2509.21126",
    statement="Where rewards are sparse, SAC returns more after as many steps where an advisor, asked about 16 of each "
    "500 transitions in the first half, suggests actions.",
    environment="MountainCarContinuous-v0",
    arms={
        "SAC": Arm("sac", KIT),
        "VARL": Arm("varl", KIT | {"advisor": advise, "advice_interval": 500, "cutoff": 8000, "shaping_weight": 10.0}),
    },
    treatment="VARL",
    baselines=("SAC",),
    measure=evaluated,
    measured="return",
    laptop=Scale(16_000, SEEDS[:5]),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:MountainCarContinuous-v0", 300_000, 5, "a GPU and a day", lacks="a vision-language model"),
    note="A rule that pumps energy, scripted, in place of a vision-language model that looks at pictures, and one car "
    "in place of robots. The advisor is asked about 240 single transitions in all.",
)
