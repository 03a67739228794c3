"""The number of seeds needed to tell two algorithms apart.

Source: Colas, Sigaud, Oudeyer, 2018, "How Many Random Seeds? Statistical Power Analysis in Deep Reinforcement Learning
Experiments", arXiv:1806.08295.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from forage.core.errors import ForageError
from forage.evaluation.statistics import FEW, check_scores


@dataclasses.dataclass(frozen=True)
class SeedsNeeded:
    """The number of seeds (of each, or pairs) that settles a difference. `seeds` is None if more than `most` are
    needed.

    `formula` is the normal approximation, infinity where there is no difference; `power` is what `seeds` reach.
    """

    seeds: int | None
    power: float
    formula: float
    seen: int
    most: int

    @property
    def missing_seeds(self) -> int | None:
        """Return the number of seeds still missing; None if it is unknown."""
        return None if self.seeds is None else max(0, self.seeds - self.seen)

    def __str__(self) -> str:
        formula = f"{self.formula:.0f}" if self.formula < 1e6 else "over a million"
        check = f"by the normal approximation {formula}"
        if self.seeds is None:
            return f"more than {self.most} seeds ({check}); with {self.most} the chance is {self.power:.0%}"
        if not self.missing_seeds:
            return f"{self.seeds} seeds, which there are ({check})"
        return f"{self.seeds} seeds, {self.missing_seeds} more than there are ({check})"


def seeds_needed(
    a: Float[np.ndarray, " seeds_a"],
    b: Float[np.ndarray, " seeds_b"],
    paired: bool = False,
    power: float = 0.8,
    significance: float = 0.05,
    most: int = 200,
    simulations: int = 2000,
    seed: int = 0,
) -> SeedsNeeded:
    """Return the fewest seeds that find the observed difference, if it is the true one, with probability `power`.

    They are at least 5 of each, since fewer without any spread decide nothing. Found: Welch's t-test rejects equal
    means at `significance`, two-sided, which is where the interval of `welch_difference` leaves out 0; with `paired`,
    where `a` and `b` are in the same order of seeds, the t-test of their differences. Experiments with n seeds each are
    simulated from the scores at hand by a smoothed bootstrap: scores drawn with replacement, with normal noise, scaled
    to the mean and the unbiased variance seen. Without noise, few scores give many ties, and ties look like certainty.
    That variance is itself a guess, and half of all guesses are too small, so each experiment takes one of the
    variances that the scores at hand allow: that seen times (k - 1) / chi^2, with chi^2 of k - 1 degrees of freedom for
    k scores. With the variance seen alone, 5 normal scores of each lead to numbers of seeds whose power is 74 % on
    average where 80 % is asked for; with this, to 86 % or more.
    Beyond `most` seeds the answer is more than `most`.

    The check is the normal approximation, with z the quantiles of a standard normal:

        n = (z(1 - significance / 2) + z(power))^2 (var a + var b) / (mean a - mean b)^2

    The difference seen is itself a guess. One that luck has made large needs more seeds than this says, so it is for
    planning the next experiment, not for stopping this one when it comes out right.
    Source: Colas et al., 2018, arXiv:1806.08295; Silverman and Young, 1987, "The bootstrap: to smooth or not to
    smooth?".
    """
    samples = _samples(a, b, paired)
    for name, value in (("power", power), ("significance", significance)):
        if not 0 < value < 1:
            raise ForageError(f"{name} lies between 0 and 1, and was {value}.")
    if most < 2 or simulations < 1:
        raise ForageError(f"most is at least 2 and simulations at least 1, and they were {most} and {simulations}.")

    def has_power(n: int) -> float:
        return _power(samples, n, significance, simulations, np.random.default_rng([seed, n]))

    seen = min(len(sample) for sample in samples)
    formula = normal_approximation(samples, power, significance)
    few, many = min(FEW, most) - 1, min(FEW, most)
    while (found := has_power(many)) < power:
        if many == most:
            return SeedsNeeded(None, found, formula, seen, most)
        few, many = many, min(2 * many, most)
    while many - few > 1:  # too few, and enough
        middle = (few + many) // 2
        if (chance := has_power(middle)) < power:
            few = middle
        else:
            many, found = middle, chance
    return SeedsNeeded(many, found, formula, seen, most)


def normal_approximation(samples: list[np.ndarray], power: float = 0.8, significance: float = 0.05) -> float:
    """Return the number of seeds by the formula in `seeds_needed`, for two samples, or one of paired differences."""
    from scipy.special import ndtri  # slow to import, which only those who ask should pay

    difference = samples[0].mean() - (samples[1].mean() if len(samples) > 1 else 0.0)
    variance = sum(float(np.var(sample, ddof=1)) for sample in samples)
    if difference == 0:
        return math.inf
    return float((ndtri(1 - significance / 2) + ndtri(power)) ** 2 * variance / difference**2)


def _power(
    samples: list[np.ndarray], n: int, significance: float, simulations: int, random: np.random.Generator
) -> float:
    """Return the share of simulated experiments with `n` seeds that the t-test rejects."""
    from scipy.special import stdtrit

    drawn = []
    for sample in samples:
        k, middle = len(sample), sample.mean()
        scale = np.sqrt((k - 1) / random.chisquare(k - 1, (simulations, 1)))  # of a deviation that k scores allow
        drawn.append(middle + scale * (_smooth(sample, (simulations, n), random) - middle))
    squares = np.array([x.var(axis=1, ddof=1) / n for x in drawn])  # of the standard errors
    difference = drawn[0].mean(axis=1) - (drawn[1].mean(axis=1) if len(drawn) > 1 else 0.0)
    error = squares.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = error**2 * (n - 1) / (squares**2).sum(axis=0)  # Welch and Satterthwaite
        t = np.abs(difference) / np.sqrt(error)
    critical = stdtrit(np.where(np.isfinite(freedom), freedom, n - 1), 1 - significance / 2)
    found = t > critical  # without any spread t is infinite, or NaN where there is no difference either
    return float(np.mean(found & (error > 0) if n < FEW else found))  # few seeds without spread decide nothing


def _smooth(sample: np.ndarray, shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
    k, middle, spread = len(sample), sample.mean(), sample.std(ddof=1)
    width = (4 / (3 * k)) ** 0.2  # Silverman's rule for a normal kernel, in standard deviations
    off = (random.choice(sample, shape) - middle) * math.sqrt(k / (k - 1))
    return middle + (off + width * spread * random.standard_normal(shape)) / math.sqrt(1 + width**2)


def _samples(a: Any, b: Any, paired: bool) -> list[np.ndarray]:
    for scores in (a, b):
        if np.ndim(scores) != 1:
            raise ForageError(
                f"seeds_needed takes one number for each seed on one task, and got shape {np.shape(scores)}; ask task "
                f"by task, or of the means over tasks."
            )
    first, second = check_scores("seeds_needed", a).ravel(), check_scores("seeds_needed", b).ravel()
    if min(len(first), len(second)) < 2:
        raise ForageError("One seed does not show how much seeds differ: seeds_needed needs at least 2, better 5.")
    if not paired:
        return [first, second]
    if len(first) != len(second):
        raise ForageError(f"Paired scores come one for one, and there are {len(first)} and {len(second)}.")
    return [first - second]
