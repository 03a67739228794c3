"""A person who takes over in danger, and gives back: Kelly and others (2019)."""

from __future__ import annotations

from forage.behaviours.takeover import Takeover
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated

OPTIONS = {
    "num_envs": 16,
    "rollout_length": 2,
    "updates_per_rollout": 16,
    "batch_size": 64,
    "hidden_sizes": (64, 64),
    "learning_rate": 4e-3,
    "final_learning_rate": 0.1,
    "discount": 0.99,
    "learning_starts": 500,
    "target_update_interval": 320,
    "double": True,
    "dueling": False,
    "n_step": 5,
}

CLAIM = Claim(
    title="HG-DAgger: Interactive Imitation Learning with Human Experts",
    authors="Kelly, Sidrane, Driggs-Campbell, Kochenderfer",
    year=2019,
    arxiv="1810.02890",
    statement="A person who takes over from the novice where it is in danger and gives back afterwards, in the first "
    "half of the run, leaves an agent that climbs the mountain alone, where DQN without the person does not.",
    environment="gymnasium:MountainCar-v0",
    arms={
        "alone": Arm("dqn", OPTIONS),
        "takeover": Arm("dqn", OPTIONS, lambda: {"behaviour": Takeover(takes=0.8, gives=0.3, fraction=0.5)}),
    },
    treatment="takeover",
    baselines=("alone",),
    measure=evaluated,
    measured="return",
    laptop=Scale(24_000, SEEDS[:5]),
    smoke=Scale(1024, (1000, 1001)),
    paper=Paper(
        "driving around stopped cars on a road with two lanes",
        10_000,
        3,
        "a test car and its drivers",
        lacks="the simulator, the drivers, and imitation of the person's steps alone; the steps and seeds said here "
        "are not the paper's, whose numbers were not at hand",
    ),
    note="The paper's expert is a driver, and its novice imitates the driver's steps; here the person is scripted, and "
    "DQN learns from the rewards of all steps, its own too. What is tested of the paper is that the person decides "
    "when to take over and when to give back. Steps, rates and the two dangers were chosen on seeds 0 and 1, with the "
    "person; alone, one other rate was tried on the same seeds.",
)
