"""A team learns more from one sum of its members' values than each by itself: Sunehag and others (2017)."""

from __future__ import annotations

from typing import Any

from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

ALIKE: dict[str, Any] = {
    "num_envs": 8,
    "updates_per_rollout": 2,
    "n_step": 1,
    "dueling": False,
    "discount": 0.95,
    "learning_rate": 1e-3,
    "target_update_interval": 400,
    "learning_starts": 2000,
}
ROWS = 96  # of single agents that an update learns from: 32 of a team of 3


def explore() -> dict[str, Any]:
    return {"behaviour": EpsilonGreedy(fraction=0.3)}


def at_random() -> dict[str, Any]:
    return {"behaviour": EpsilonGreedy(start=1.0, end=1.0)}


def dqn(environment: str | None = None) -> Arm:
    """Return each member learns from its own reward."""
    parts = explore if environment is None else at_random
    return Arm("dqn", ALIKE | {"batch_size": ROWS}, parts, environment)


def vdn(environment: str | None = None) -> Arm:
    """Return the team learns from its mean reward."""
    options = ALIKE | {"batch_size": ROWS // 3, "identity": environment is not None}
    return Arm("vdn", options, explore if environment is None else at_random, environment)


CLAIM = Claim(
    title="Value-Decomposition Networks For Cooperative Multi-Agent Learning",
    authors="Sunehag, Lever, Gruslys, Czarnecki, Zambaldi, Jaderberg, Lanctot, Sonnerat, Leibo, Tuyls, Graepel",
    year=2017,
    arxiv="1706.05296",
    statement="A team that learns one sum of its members' values from the team's reward does better than one whose "
    "members each learn by themselves.",
    environment="jaxmarl:MPE_simple_spread_v3",
    arms={
        "DQN": dqn(),
        "VDN": vdn(),
        "DQN, two-step game": dqn("teams:TwoStep"),
        "VDN, two-step game": vdn("teams:TwoStep"),
    },
    treatment="VDN",
    baselines=("DQN",),
    measure=evaluated,
    measured="return",
    laptop=Scale(100_000, tuple(range(1000, 1005))),
    smoke=Scale(4096, (1000, 1001)),
    paper=Paper(
        "jaxmarl:MPE_simple_spread_v3",
        10_000_000,
        10,
        "a GPU and hours",
        lacks="Switch, Fetch and Checkers, the grid worlds that the authors made",
    ),
    note="Simple spread in place of the authors' grid worlds, without memory. In the two-step game, which decides "
    "nothing here, all actions are random in training; 8 is best, and 7 is what VDN is known to earn.",
)
