"""Planning with a learned table reaches a goal in fewer steps: Sutton (1990)."""

from __future__ import annotations

from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.environments.tabular.makers import frozen_lake
from forage.memory.dyna import Dyna
from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, area

OPTIONS = {
    "n_step": 1,
    "dueling": False,
    "hidden_sizes": (64,),
    "rollout_length": 1,
    "batch_size": 32,
    "learning_starts": 500,
    "target_update_interval": 20,
    "discount": 0.95,
    "learning_rate": 1e-3,
}


def lake():
    """A maze of 4 x 4 cells with four holes, in which every step is sure."""
    return frozen_lake(4, slip=0.0)


def explores():
    """Return a behaviour whose random actions become rare over half of the run."""
    return {"behaviour": EpsilonGreedy(fraction=0.5)}


CLAIM = Claim(
    title="Integrated Architectures for Learning, Planning, and Reacting Based on Approximating Dynamic Programming",
    authors="Sutton",
    year=1990,
    arxiv="ICML 1990, pages 216-224",
    statement="With five planning updates beside each update, and so six times as many, DQN with Dyna's table "
    "learns a maze in fewer environment steps than without.",
    environment=lake,
    arms={
        "replay": Arm("dqn", OPTIONS, explores),
        "replay, as many updates": Arm("dqn", OPTIONS | {"updates_per_rollout": 6}, explores),
        "Dyna": Arm("dqn", OPTIONS | {"updates_per_rollout": 6}, lambda: explores() | {"memory": Dyna(planning=5.0)}),
    },
    treatment="Dyna",
    baselines=("replay",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(4000, FRESH[:5]),
    smoke=Scale(1000, (1000, 1001)),
    paper=Paper("mazes of 6 x 9 cells", 6000, 10, "a CPU and minutes", lacks="Q-learning with a table of values"),
    note="FrozenLake without slips in place of the maze of 6 x 9 cells of Sutton and Barto (2018), figure 8.2, and a "
    "network in place of a table of values. What the third arm reaches is due to the number of updates alone. Steps "
    "were chosen on seeds 0 to 2, with Dyna. With targets that follow every 500 steps, as DQN's do, no more than eight "
    "times in a run, the first result was undecided.",
)
