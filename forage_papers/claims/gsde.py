"""Noise that is a function of the state makes exploration smooth: Raffin, Kober and Stulp (2020)."""

from __future__ import annotations

import numpy as np

from forage.behaviours.held_noise import HeldNoise
from forage.config.setup import from_config
from forage.core.spaces import from_json
from forage.core.types import ForageError
from forage.runs.run import Run
from forage.studies.claims.claim import FRESH, Arm, Claim, Paper, Rule, Scale


def continuity_cost(run: Run) -> list[float]:
    """100 E[((a_{t+1} - a_t) / (high - low))^2] of each seed, over the rollout that would come after its last one."""
    if not run.checkpoints:
        raise ForageError(f"{run.directory} has no checkpoint to go on from.")
    runner = from_config(run.config).runner(run.config["devices"])
    runner.load(run.checkpoints[-1])
    rollout = runner.next_rollout()
    space = from_json(run.config["spec"]["action_space"])
    low, high = space.low, space.high  # pyrefly: ignore[missing-attribute]
    action = np.clip(rollout.action, low, high) / (high - low)  # [seed, time, env, dimension]
    change, ended = np.sum(np.diff(action, axis=1) ** 2, axis=-1), np.asarray(rollout.ended)
    return [100 * float(np.mean(c[~e])) for c, e in zip(change, ended[:, :-1], strict=True)]


CLAIM = Claim(
    title="Smooth Exploration for Robotic Reinforcement Learning",
    authors="Raffin, Kober, Stulp",
    year=2020,
    arxiv="2005.05719",
    statement="Noise that depends on the state and is held for some steps makes smoother actions than white noise.",
    environment="Pendulum-v1",
    arms={
        "white": Arm("ppo"),
        "gSDE": Arm("ppo", {"state_dependent_noise": True}, lambda: {"behaviour": HeldNoise(interval=4)}),
    },
    treatment="gSDE",
    baselines=("white",),
    measure=continuity_cost,
    measured="continuity cost of the rollout after training",
    laptop=Scale(100_000, FRESH),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 10, "hours on many cores"),
    rule=Rule(higher=False),
    note="PPO on the pendulum in place of SAC on PyBullet's robots; whether smoothness costs return, the curves show.",
)
