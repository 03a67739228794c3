"""Data and measures of claims about online training after data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from forage.runs.run import Run
from forage.studies import robustness
from forage.studies.claims.played import push
from forage.studies.claims.prepared import replay

REAL = 10.0  # gravity


def lowest_return(run: Run) -> list[float]:
    """Return each seed's lowest mean return in the evaluations after the first."""
    return np.array([row["return"] for row in run.evaluations[1:]]).min(0).tolist()


def mean_return(run: Run) -> list[float]:
    """Return each seed's mean return over the evaluations after the first."""
    return np.array([row["return"] for row in run.evaluations[1:]]).mean(0).tolist()


def real_return(run: Run) -> list[float]:
    """Return each seed's mean return under the gravity that the data are from."""
    return robustness.evaluate_under(run.directory, {"gravity": [REAL]}, episodes=20).points[0].returns


def advise(observation: Float[Array, " observation"], action: Float[Array, " action"]) -> Float[Array, " action"]:
    """Suggest to push the car in the direction of its movement, for any action."""
    return push(observation)


def push_right(observation: Float[Array, "observation=2"]) -> Float[Array, "action=1"]:
    """Push the car of MountainCarContinuous-v0 to the right, where the hill is too steep."""
    return jnp.ones(1)


def past_replays(environment: str, steps: int, seeds: Sequence[int], options: Mapping[str, Any]) -> list[str]:
    """Return the files of the replays of earlier runs of SAC, one for each seed."""
    return [replay("sac", environment, steps, seed, tuple(options.items())) for seed in seeds]
