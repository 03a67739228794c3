"""Random exploration and a few steps of planning: Laidlaw and others (2023)."""

from __future__ import annotations

from forage.environments.tabular.makers import chain
from forage.environments.tabular.mdp import Tabular
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated

SHORT = {"num_envs": 64, "rollout_length": 40}


def short_chain() -> Tabular:
    """Strens' chain for 20 steps, where the best policy has 62.6, the random one 26 and greed on its values 39.1."""
    return chain(max_steps=20)


def many() -> dict[str, int]:
    """Episodes to evaluate with: returns of the chain differ by 10 and more from one to the next."""
    return {"evaluation_episodes": 512}


CLAIM = Claim(
    title="The Effective Horizon Explains Deep RL Performance in Stochastic Environments",
    authors="Laidlaw, Zhu, Russell, Dragan",
    year=2023,
    arxiv="2312.08369",
    statement="With exploration at random, planning a few steps on the random policy's values does better than greed.",
    environment=short_chain,
    arms={
        "greedy": Arm("sqirl", SHORT | {"planning_depth": 1}, many),
        "three steps": Arm("sqirl", SHORT | {"planning_depth": 3}, many),
    },
    treatment="three steps",
    baselines=("greedy",),
    measure=evaluated,
    measured="return",
    laptop=Scale(64 * 40 * 20, tuple(range(1100, 1108))),
    smoke=Scale(64 * 40 * 2, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Pong-v5", 5_000_000, 5, "a GPU and days", lacks="BRIDGE, a data set of games as tables"),
    note="A chain of 5 states whose values are known exactly, in place of the 155 tasks of BRIDGE with sticky actions.",
)
