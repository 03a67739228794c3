"""MAGIC: a blend of weighted doubly robust estimates that change from data to model after j steps.

    g_j = sum_i sum over t <= j of discount^t (w_t^i (r_t^i - Q) + w_{t-1}^i V)
          + discount^{j+1} sum_i w_j^i V(o_{j+1}^i)

g_{-1} is the model alone (fitted Q evaluation), g_inf weighted doubly robust. The blend x . g has the weights x >= 0
with sum 1 that minimise the estimated squared error x' (Omega + b b') x: Omega is the covariance of the g_j, estimated
from episodes, b_j the distance of g_j from the interval of g_inf.

Source: Thomas and Brunskill, 2016, "Data-Efficient Off-Policy Policy Evaluation for Reinforcement Learning",
arXiv 1604.00923, "MAGIC", algorithm 1.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls

from forage.core.types import ForageError
from forage.evaluation.off_policy.estimators.doubly_robust import Fit, model
from forage.evaluation.off_policy.estimators.fitted_q import ActionValues, linear_values
from forage.evaluation.off_policy.estimators.importance import PerEpisode, normalised_sum
from forage.evaluation.off_policy.target import Target
from forage.evaluation.statistics import bootstrap_interval


@dataclasses.dataclass(frozen=True, eq=False)
class Magic:
    """The blend: a function of a target that returns one number for each episode, with fixed weights; their mean is the
    estimate.

    `lengths` of the j are tried, -1 and infinity among them, evenly spread over the steps; the interval of g_inf holds
    `confidence`, 0.9 as in the paper. The other options are those of the doubly robust estimators. If the blend rests
    on the model alone its numbers do not vary, however wrong the model is: so there is no interval.
    """

    values: ActionValues | None = None
    fit: Fit = linear_values
    folds: int = 2
    lengths: int = 20
    confidence: float = 0.9
    resamples: int = 500

    interval: ClassVar[bool] = False

    def __call__(self, target: Target) -> PerEpisode:
        if self.lengths < 2:
            raise ForageError(f"MAGIC blends at least 2 lengths, not {self.lengths}.")
        found = partial_estimates(target, self.values, self.fit, self.folds)
        picked = np.linspace(0, found.shape[1] - 1, min(self.lengths, found.shape[1])).round().astype(int)
        return found[:, picked] @ blend(found[:, picked], self.confidence, self.resamples)


def partial_estimates(
    target: Target, values: ActionValues | None = None, fit: Fit = linear_values, folds: int = 2
) -> Float[np.ndarray, "episode length"]:
    """g_{-1}, g_0, ..., g_inf, each as one number for each episode; their mean is the estimate."""
    told = model(target, values, fit, folds)
    weights = target.weights("magic")
    steps = weights.shape[1]
    before = np.concatenate([np.ones((len(weights), 1)), weights[:, :-1]], axis=1)
    decay = target.discount ** np.arange(steps)
    whole, found = np.zeros(len(weights)), []
    for t in range(steps):
        word = normalised_sum(before[:, [t]], decay[t] * told.v[:, [t]])  # the model's, for step t and all after it
        found.append(whole + word)
        whole = found[-1] + normalised_sum(weights[:, [t]], decay[t] * (told.reward - told.q)[:, [t]])
    return np.stack([*found, whole], axis=1)


def blend(
    blends: Float[np.ndarray, "episode length"], confidence: float, resamples: int
) -> Float[np.ndarray, " length"]:
    """Return the weights x of least estimated squared error; columns are the per-episode numbers of each length."""
    means, (count, size) = blends.mean(0), blends.shape
    if count < 2:
        return np.eye(size)[-1]
    low, high = bootstrap_interval(blends[:, -1], np.mean, confidence, resamples)
    bias = np.maximum(0.0, np.maximum(low - means, means - high))
    errors = np.atleast_2d(np.cov(blends, rowvar=False)) / count + np.outer(bias, bias)
    values, vectors = np.linalg.eigh(errors)
    if values[-1] <= 0:
        return np.full(size, 1 / size)
    root = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T / np.sqrt(np.diag(errors).max())
    # Along each direction |root x|^2 + (1 - sum x)^2 is least at q / (1 + q), q the error of its x with sum 1: so the
    # best direction is the same, and non-negative least squares finds it exactly.
    x, _ = nnls(np.vstack([root, np.ones(size)]), np.append(np.zeros(size), 1.0))
    return x / x.sum()
