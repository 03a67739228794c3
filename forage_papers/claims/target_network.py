"""A target that stands still for a while steadies Q-learning: Mnih and others (2015)."""

from __future__ import annotations

from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Scale, evaluated

OPTIONS = {"n_step": 1, "dueling": False, "double": False}
WITHOUT = OPTIONS | {"target_update_interval": 1}

CLAIM = Claim(
    title="Human-level control through deep reinforcement learning",
    authors="Mnih, Kavukcuoglu, Silver, Rusu, Veness, Bellemare, Graves, Riedmiller, Fidjeland, Ostrovski and others",
    year=2015,
    arxiv="Nature 518",
    statement="Without a separate target network deep Q-learning ends with lower returns.",
    environment="CartPole-v1",
    arms={
        "no target network": Arm("dqn", WITHOUT),
        "no target network, half the rate": Arm("dqn", WITHOUT | {"learning_rate": 2.5e-4}),
        "no target network, a fifth of the rate": Arm("dqn", WITHOUT | {"learning_rate": 1e-4}),
        "target network": Arm("dqn", OPTIONS),
    },
    treatment="target network",
    baselines=(
        "no target network",
        "no target network, half the rate",
        "no target network, a fifth of the rate",
    ),
    measure=evaluated,
    measured="return",
    laptop=Scale(100_000, FRESH),
    smoke=Scale(2000, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Breakout-v5", 10_000_000, 3, "a GPU and days"),
    note="CartPole in place of five Atari games. DQN's defaults were tuned with a target network and not without, so "
    "that the agent without gets two lower learning rates, too.",
)
