"""A value function drawn for a whole episode explores deeply: Osband and others (2016, 2018)."""

from __future__ import annotations

from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area

LIKE_BOOTSTRAPPED = {
    "learning_rate": 1e-3,
    "final_learning_rate": 1.0,
    "num_envs": 8,
    "rollout_length": 1,
    "learning_starts": 128,
    "target_update_interval": 32,
    "dueling": False,
    "n_step": 1,
}
"""What Bootstrapped DQN does by default and DQN does not, but for how it explores."""

CLAIM = Claim(
    title="Deep Exploration via Bootstrapped DQN",
    authors="Osband, Blundell, Pritzel, Van Roy",
    year=2016,
    arxiv="1602.04621",
    statement="Following one of many value functions through an episode finds a reward that epsilon-greedy does not.",
    environment="DeepSea-20",
    arms={
        "epsilon-greedy": Arm("dqn", LIKE_BOOTSTRAPPED),
        "bootstrapped": Arm("bootstrapped-dqn"),
    },
    treatment="bootstrapped",
    baselines=("epsilon-greedy",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(40_000, tuple(range(1000, 1005))),
    smoke=Scale(1600, (1000, 1001)),
    paper=Paper("gymnasium:ALE/MontezumaRevenge-v5", 50_000_000, 3, "many GPUs and days"),
    note="DeepSea in place of Atari's 49 games, and with randomised priors (Osband, Aslanides, Cassirer, 2018, arXiv "
    "1806.03335), which it takes. Both arms learn from as many steps, as often, at one learning rate, from targets of "
    "one age, in networks of the same layers, of which the bootstrapped one has 20 last ones that share the first.",
)
