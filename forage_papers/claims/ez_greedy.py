"""Random actions that are repeated get further: Dabney, Ostrovski and Barreto (2020)."""

from __future__ import annotations

from forage.environments.tabular.makers import grid_world
from forage.environments.tabular.mdp import Tabular
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

OPTIONS = {"num_envs": 4, "hidden_sizes": (32, 32)}


def room() -> Tabular:
    """Return an empty room of 12 x 12 cells, to be crossed from corner to corner within 60 steps."""
    return grid_world(("S" + "." * 11, *["." * 12] * 10, "." * 11 + "G"), max_steps=60)


CLAIM = Claim(
    title="Temporally-Extended epsilon-Greedy Exploration",
    authors="Dabney, Ostrovski, Barreto",
    year=2020,
    arxiv="2006.01782",
    statement="Repeating random actions for random durations finds what epsilon-greedy exploration dithers about.",
    environment=room,
    arms={
        "epsilon-greedy": Arm("dqn", OPTIONS),
        "EZ-greedy": Arm("dqn", OPTIONS, lambda: {"behaviour": "ez-greedy"}),
    },
    treatment="EZ-greedy",
    baselines=("epsilon-greedy",),
    measure=area,
    measured="mean return during training",
    laptop=Scale(30_000),
    smoke=Scale(1500, (1000, 1001)),
    paper=Paper("gymnasium:ALE/MontezumaRevenge-v5", 50_000_000, 5, "a GPU and days"),
    note="An empty room, as the paper's gridworld, and plain DQN in place of 57 Atari games, Rainbow and R2D2.",
)
