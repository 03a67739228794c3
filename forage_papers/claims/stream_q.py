"""Q-learning without replay, step by step: Elsayed, Vasan and Mahmood (2024)."""

from __future__ import annotations

from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.memory.uniform import UniformReplay
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, area

SMALL = {"hidden_sizes": (32, 32)}
ONE = {"batch_size": 1, "rollout_length": 1, "learning_starts": 1, "n_step": 1, "target_update_interval": 1}


def exploring() -> dict:
    """Return the behaviour of the authors' program, for both arms."""
    return {"behaviour": EpsilonGreedy(end=0.01, fraction=0.05)}


def without_replay() -> dict:
    """Return a replay memory of one transition, which is DQN1 of the authors' README."""
    return exploring() | {"memory": UniformReplay(capacity=1)}


CLAIM = Claim(
    title="Streaming Deep Reinforcement Learning Finally Works",
    authors="Elsayed, Vasan, Mahmood",
    year=2024,
    arxiv="2410.14606",
    statement="From each transition once, stream Q(lambda) learns more in CartPole than DQN with replay and batch of "
    "a single one.",
    environment="CartPole-v1",
    arms={"stream Q": Arm("stream-q", SMALL, exploring), "DQN of one": Arm("dqn", SMALL | ONE, without_replay)},
    treatment="stream Q",
    baselines=("DQN of one",),
    measure=area,
    measured="mean return over training",
    laptop=Scale(50_000, SEEDS[:5]),
    smoke=Scale(600, (1000, 1001)),
    paper=Paper("CartPole-v1", 500_000, 10, "half an hour"),
    note="CartPole, which the authors' program has beside the paper's Atari games, with its network and a tenth of "
    "its steps. DQN has the double target, dueling streams and falling learning rate that are Forage's own. Steps were "
    "chosen after one run of stream Q on seeds 0 to 2. The paper's own pages could not be looked up, nor its seeds.",
)
