"""The policy waits for its critics: Fujimoto, van Hoof and Meger (2018)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Also, Arm, Claim, Paper, Scale, area, evaluated

OPTIONS = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}

CLAIM = Claim(
    title="Addressing Function Approximation Error in Actor-Critic Methods",
    authors="Fujimoto, van Hoof, Meger",
    year=2018,
    arxiv="1802.09477",
    statement="Updating the policy half as often as the critics ends with higher returns than updating both together.",
    environment="Pendulum-v1",
    arms={
        "no delay": Arm("td3", OPTIONS | {"policy_delay": 1}),
        "delay 2": Arm("td3", OPTIONS | {"policy_delay": 2}),
    },
    treatment="delay 2",
    baselines=("no delay",),
    measure=evaluated,
    measured="return",
    also=(Also(area, "mean return over training"),),
    laptop=Scale(10_000, FRESH),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "a GPU and days"),
    note="Pendulum in place of MuJoCo tasks; small networks, and the other settings are those for a delay of 2.",
)
