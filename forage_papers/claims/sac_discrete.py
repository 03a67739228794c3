"""Soft actor-critic for discrete actions keeps up with a value learner: Christodoulou (2019)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Rule, Scale, evaluated

CLAIM = Claim(
    title="Soft Actor-Critic for Discrete Action Settings",
    authors="Christodoulou",
    year=2019,
    arxiv="1910.07207",
    statement="Untuned, soft actor-critic for discrete actions learns from few steps about as well as a tuned DQN.",
    environment="minatar:SpaceInvaders",
    arms={
        "DQN, Rainbow's options": Arm("dqn", {"n_step": 3, "dueling": True}, lambda: {"memory": "prioritised"}),
        "SAC-discrete": Arm("sac-discrete"),
    },
    treatment="SAC-discrete",
    baselines=("DQN, Rainbow's options",),
    measure=evaluated,
    measured="return",
    laptop=Scale(100_000, tuple(range(1000, 1005))),
    smoke=Scale(6000, (1000, 1001)),
    paper=Paper(
        "gymnasium:ALE/SpaceInvaders-v5",
        100_000,
        5,
        "an hour or more of every seed on a core",
        {"num_envs": 1},
    ),
    rule=Rule(margin=-4.0),
    note="One game of the paper's twenty, at MinAtar's size, and Rainbow without distributions and noisy layers: "
    "double, dueling, three steps, prioritised. The rest is as by default here, where DQN updates every 16 steps and "
    "soft actor-critic every 4. About as well: a loss of less than 4, a fifth of the 21 that DQN reached without "
    "dueling on seeds 1 to 3 before any run. A first run, of seeds 1000 to 1009, was halted for the time it takes: "
    "DQN, without dueling, had finished, and soft actor-critic was at 5,000 steps; then dueling was added, and five "
    "seeds left out. The margin stayed.",
)
