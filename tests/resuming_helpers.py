"""Helper for resumed runs of language agents: compares an interrupted run with an uninterrupted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

import forage
from forage.core.types import Experience
from forage.rewards.environment import EnvironmentReward


class EvenTokens(EnvironmentReward):
    """The share of an answer's tokens that are even, plus the environment's reward, which random weights never get.

    Where all answers were paid alike, nothing would be learned, and stopping would change nothing. It is also what a
    verifier would say, as DAPO leaves out groups whose answers are all wrong.
    """

    as_given: ClassVar[bool] = False

    def relabel(self, state: Any, experience: Experience) -> Experience:
        even = (experience.action > 0) & (experience.action % 2 == 0)
        reward, info = experience.reward + jnp.mean(even, -1), experience.info
        if "truth" in info:
            info = {**info, "truth": jnp.where(jnp.isnan(info["truth"]), jnp.nan, reward)}
        return experience._replace(reward=reward, info=info)


def check_resumed(folder: Path, agent: Any, environment: str, half: int, whole: int, **given: Any) -> None:
    """Check that a run stopped at `half` and resumed ends with the weights of an uninterrupted one, and learns after
    `half`.
    """
    given = {"rewards": EvenTokens(), "seeds": [1], "evaluation_episodes": 4, "display": "quiet"} | given
    forage.train(agent, environment, steps=whole, directory=folder / "whole", **given)
    forage.train(agent, environment, steps=half, directory=folder / "parts", **given)
    before = weights(folder / "parts")
    forage.resume(folder / "parts", steps=whole, agent=agent, rewards=given["rewards"], display="quiet")
    one, two = weights(folder / "whole"), weights(folder / "parts")
    assert sorted(one) == sorted(two)
    assert [name for name in one if not np.array_equal(one[name], two[name])] == []
    assert any(not np.array_equal(before[name], two[name]) for name in before)


def weights(run: Path) -> dict[str, np.ndarray]:
    """Return the numbers of a run's agent that are no counts."""
    with np.load(run / "agent.npz") as arrays:
        return {name: arrays[name] for name in arrays if arrays[name].dtype.kind == "f"}
