"""How far two groups of seeds are apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from forage.errors import ForageError


def bootstrap_difference(
    a: Float[np.ndarray, " seeds"],
    b: Float[np.ndarray, " seeds_b"],
    statistic: Callable[..., np.ndarray] = np.mean,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """`statistic(a) - statistic(b)`, and the ends of its percentile bootstrap interval over the seeds of each.

    The seeds of `a` and `b` are drawn anew independently of one another, so they need not be the same seeds.
    Source: Efron, 1979, "Bootstrap Methods: Another Look at the Jackknife".
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    for values in (a, b):
        if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
            raise ForageError(f"A difference needs 2 or more finite scores on either side, and got {values.tolist()}.")
    random = np.random.default_rng(seed)
    drawn = [statistic(v[random.integers(len(v), size=(resamples, len(v)))], axis=-1) for v in (a, b)]
    low, high = np.quantile(drawn[0] - drawn[1], [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(statistic(a, axis=-1) - statistic(b, axis=-1)), float(low), float(high)
