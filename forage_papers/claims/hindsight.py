"""Taking what was reached for the goal learns from failures: Andrychowicz and others (2017)."""

from __future__ import annotations

from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated

OPTIONS = {
    "n_step": 1,
    "dueling": False,
    "hidden_sizes": (128,),
    "num_envs": 8,
    "updates_per_rollout": 8,
    "discount": 0.98,
    "learning_rate": 1e-3,
}

CLAIM = Claim(
    title="Hindsight Experience Replay",
    authors="Andrychowicz, Wolski, Ray, Schneider, Fong, Welinder, McGrew, Tobin, Abbeel, Zaremba",
    year=2017,
    arxiv="1707.01495",
    statement="Replaying transitions with goals that were reached later flips 20 bits as asked, where DQN alone never "
    "learns to.",
    environment="BitFlip-20",
    arms={
        "uniform": Arm("dqn", OPTIONS),
        "hindsight": Arm("dqn", OPTIONS, lambda: {"memory": "hindsight"}),
    },
    treatment="hindsight",
    baselines=("uniform",),
    measure=evaluated,
    measured="return",
    laptop=Scale(40_000, SEEDS[:5]),
    smoke=Scale(2000, (1000, 1001)),
    paper=Paper(
        "robotics:FetchPush-v4",
        8_000_000,
        5,
        "8 cores and days",
        lacks="a reward that is computed in JAX, as the arm and its reward are MuJoCo's on the host",
    ),
    note="The experiment of the paper's section 3.1, with its discount, smaller networks and an epsilon that falls. "
    "Steps, sizes and rates were chosen on seeds 0 and 1, with hindsight.",
)
