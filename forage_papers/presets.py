"""Settings known to work well for one agent of a paper in a family of environments, each with its source."""

from __future__ import annotations

from typing import Any

from forage.config.presets import FEWER, LOCOMOTION, ONE_SETTING, WALKERS, Preset, greedy, replay

ELSAYED = "Elsayed et al. (2024), the authors' stream_q.py"


def loss_adjusted_replay(capacity: int) -> dict[str, dict[str, Any]]:
    """Return loss-adjusted prioritised replay of `capacity` transitions."""
    return {"memory": {"part": "lap", "capacity": capacity}}


LEE = "Lee et al. (2024), as in the code of SimBaV2"

ONE_EACH = {"discount": 0.995, "updates_per_rollout": 1}  # its rule for 1000 steps to an episode, an update for each

SIMBA: tuple[Preset, ...] = (
    Preset("simba", WALKERS, 1_000_000, ONE_EACH, LEE, replay(1_000_000)),
    Preset("simba", "gymnasium:Humanoid-v?", 1_000_000, ONE_EACH, f"{LEE}{FEWER}", replay(300_000)),
    # The suite's episodes end by the clock alone, so one critic learns.
    Preset(
        "simba",
        "envpool:Cartpole*-v1 envpool:Cheetah*-v1 envpool:Finger*-v1 envpool:Reacher*-v1 envpool:Walker*-v1",
        1_000_000,
        ONE_EACH | {"critics": 1},
        f"{LEE}, without its repeated actions",
        replay(1_000_000),
    ),
)

NAUMAN = "Nauman et al. (2024), the authors' code"

BRO: tuple[Preset, ...] = (
    Preset("bro", WALKERS, 1_000_000, {}, NAUMAN, replay(1_000_000)),
    Preset("bro", "gymnasium:Humanoid-v?", 1_000_000, {}, f"{NAUMAN}{FEWER}", replay(300_000)),
)

MRQ: tuple[Preset, ...] = (
    Preset(
        "mr-q",
        "gymnasium:Ant-v? gymnasium:HalfCheetah-v? gymnasium:Hopper-v? gymnasium:Walker2d-v?",
        1_000_000,
        {},
        ONE_SETTING,
        loss_adjusted_replay(1_000_000),
    ),
    Preset("mr-q", "gymnasium:Humanoid-v?", 1_000_000, {}, f"{ONE_SETTING}{FEWER}", loss_adjusted_replay(300_000)),
)

KIT = "OfflineRL-Kit for the medium data, with the updates of the authors' program (An et al., 2021)"

PRESETS: tuple[Preset, ...] = (
    *SIMBA,
    *BRO,
    *MRQ,
    Preset("edac", "gymnasium:Hopper-v?", 3_000_000, {"critics": 50, "diversity": 1.0}, KIT),
    Preset("edac", "gymnasium:HalfCheetah-v? gymnasium:Walker2d-v?", 3_000_000, {"critics": 10, "diversity": 1.0}, KIT),
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
