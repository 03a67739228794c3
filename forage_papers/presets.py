"""Settings known to work well for one agent of a paper in a family of environments, each with its source."""

from __future__ import annotations

from forage.config.presets import LOCOMOTION, Preset, greedy

ELSAYED = "Elsayed et al. (2024), the authors' stream_q.py"

PRESETS: tuple[Preset, ...] = (
    Preset("stream-q", "CartPole-v1", 500_000, {"hidden_sizes": (32, 32)}, ELSAYED, greedy(0.01, 0.05)),
    Preset(
        "o-dice",
        LOCOMOTION,
        1_000_000,
        {},
        "Mao et al. (2024), the authors' offline_RL.yaml, which scales rewards so that returns span 1,000",
    ),
    Preset(
        "sac-rnd",
        "gymnasium:HalfCheetah-v?",
        3_000_000,
        {},
        "Nikulin et al. (2023), the authors' halfcheetah_medium.yaml, without the penalty, which it leaves out",
    ),
)
"""Of an agent's, the first that fits counts."""
