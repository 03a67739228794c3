"""The comparison of two algorithms: the probability that one beats the other, and the difference on shared seeds.

Source: Agarwal et al., 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice", arXiv:2108.13264;
Henderson et al., 2018, "Deep Reinforcement Learning that Matters", arXiv:1709.06560; Colas, Sigaud, Oudeyer, 2019, "A
Hitchhiker's Guide to Statistical Comparisons of Reinforcement Learning Algorithms", arXiv:1904.06979.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from forage.core.errors import ForageError
from forage.evaluation.statistics import FEW, Score, Scores, check_interval, check_scores, quantiles

EXACT = 16  # pairs up to which every choice of signs is tried: 65 536
DRAWN = 100_000  # choices of signs drawn when there are more


@dataclasses.dataclass(frozen=True)
class PairedDifference:
    """The mean difference on shared seeds, its interval, and the probability of so large a difference by chance."""

    difference: Score
    wilcoxon: float
    permutation: float
    unshared: int

    def __str__(self) -> str:
        left = f", {self.unshared} without a partner left out" if self.unshared else ""
        return f"{self.difference}: p = {self.wilcoxon:.3g} (Wilcoxon), {self.permutation:.3g} (permutation){left}"


def probability_of_improvement(
    a: Scores, b: Scores, confidence: float = 0.95, method: str = "binomial", resamples: int = 2000, seed: int = 0
) -> Score:
    """Compute the probability that a seed of `a` beats one of `b`, averaged over tasks: 1/2 for equals, 1 for always.

        P = mean over tasks of sum_ij ([a_i > b_j] + [a_i = b_j] / 2) / (number of pairs)

    `a` and `b` may differ in seeds, not in tasks; `seeds` is the smaller number of the two. With a single seed on
    either side there is no interval.

    The interval is that of Clopper and Pearson for P n successes in n trials, where n is the smaller number of seeds
    times the number of tasks:

        low = quantile (1 - confidence) / 2 of Beta(P n, n - P n + 1),  0 where P = 0
        high = quantile (1 + confidence) / 2 of Beta(P n + 1, n - P n),  1 where P = 1

    No distribution of scores makes P vary more than a share of n trials does, so it holds the truth at least about as
    often as it says: in simulations at 95 % with 2 to 20 seeds of each, in 95.9 % or more of the experiments (normal,
    exponential and two-valued scores, equal and unequal spreads, P of 0.5 to 0.99). `method="bootstrap"` draws the
    seeds of each task anew instead, as rliable does. That interval is far too narrow for few seeds: with 3, 5 and 10
    of normal scores it holds a true P of 0.75 to 0.95 in 30 to 70, 52 to 86 and 78 to 95 % of experiments.
    Source: Agarwal et al., 2021, arXiv:2108.13264, section 4.3; Mann and Whitney, 1947; Clopper and Pearson, 1934, "The
    Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial"; for the largest variance, Birnbaum
    and Klose, 1957, "Bounds for the Variance of the Mann-Whitney Statistic", and over tasks, Hoeffding, 1956, "On the
    Distribution of the Number of Successes in Independent Trials".
    """
    a, b = check_scores("probability_of_improvement", a), check_scores("probability_of_improvement", b)
    if a.shape[1] != b.shape[1]:
        raise ForageError(
            f"probability_of_improvement compares scores on the same tasks, and got {a.shape[1]} and {b.shape[1]}."
        )
    if method not in ("binomial", "bootstrap"):
        raise ForageError(f"The interval of a probability is by binomial or bootstrap, and {method!r} is neither.")
    wins = (a[:, None] > b[None]) + 0.5 * (a[:, None] == b[None])
    value, seeds = float(wins.mean()), min(len(a), len(b))
    if seeds == 1:
        return Score(value, None, None, 1)
    check_interval(seeds, confidence, resamples)
    if method == "binomial":
        return Score(value, *_share_interval(value, seeds * a.shape[1], confidence), seeds)
    random = np.random.default_rng(seed)
    found = np.zeros(resamples)
    for task in range(a.shape[1]):
        # How often each seed was drawn says all that the drawn seeds would.
        weight_a, weight_b = (random.multinomial(n, np.full(n, 1 / n), size=resamples) / n for n in (len(a), len(b)))
        found += np.sum((weight_a @ wins[:, :, task]) * weight_b, axis=1) / a.shape[1]
    low, high = quantiles(found, confidence)
    return Score(value, float(low), float(high), seeds)


def welch_difference(
    a: Float[np.ndarray, " seeds"], b: Float[np.ndarray, " seeds_b"], confidence: float = 0.95
) -> tuple[float, float, float]:
    """Compute `mean(a) - mean(b)` and the ends of Welch's interval, to decide between the two.

        difference +- t sqrt(e),  e = e_a + e_b,  e_a = var(a) / n_a with n_a - 1 in the denominator of var
        t: the quantile (1 + confidence) / 2 of Student's t with e^2 / (e_a^2 / (n_a - 1) + e_b^2 / (n_b - 1)) degrees

    It leaves out 0 where Welch's t-test says that the means differ, which is what `seeds_needed` plans for. Without
    any spread on either side it is the difference itself, or with fewer than 5 seeds on a side, which decide nothing
    then, all numbers.

    How often, of 200 000 experiments each, it leaves out the truth at 95 %, with 2, 3, 5 and 10 seeds of each:

        both normal                              2.3   3.6   4.5   4.8 %
        both exponential                         2.5   2.6   2.7   3.8 %
        one normal, the other without spread     5.0   5.0   5.0   5.0 %
        one exponential, the other without       8.9  11.5  11.8  10.0 %
        500, 100 in 20 %; the other N(420, 5)     63    52    34    12 %
        500, 100 in 10 %; the other always 460     0     0    59    35 %

    The last three are the case of one side at a limit and rare bad (or good) seeds on the other. Few seeds seldom show
    the rare ones, so it is on that side that the truth is missed; no interval from such seeds alone knows of them.
    Source: Welch, 1947, "The Generalization of 'Student's' Problem when Several Different Population Variances are
    Involved"; recommended by Colas et al., 2019, arXiv:1904.06979.
    """
    if not 0 < confidence < 1:
        raise ForageError(f"confidence lies between 0 and 1, such as 0.95, and was {confidence}.")
    a, b = _sides(a, b)
    value, error, freedom = _welch(a, b)
    if not error:
        return (value, value, value) if min(len(a), len(b)) >= FEW else (value, -math.inf, math.inf)
    from scipy.special import stdtrit  # slow to import, which only those who ask should pay

    half = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    return value, value - half, value + half


def welch_p(a: Float[np.ndarray, " seeds"], b: Float[np.ndarray, " seeds_b"], margin: float = 0.0) -> float:
    """Return p of Welch's two-sided test that `mean(a) - mean(b)` is `margin`.

    It is below 0.05 where `welch_difference` at 95 % leaves the margin out. Source: as there.
    """
    a, b = _sides(a, b)
    value, error, freedom = _welch(a, b)
    if not error:
        return float(value == margin or min(len(a), len(b)) < FEW)
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(value - margin) / error))


def _welch(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    """Return the difference of means, its standard error, and the degrees of freedom: NaN without any spread."""
    # The mean of equal numbers may differ from them in the last digit, which is no spread.
    errors = np.array([0.0 if np.ptp(v) == 0 else v.var(ddof=1) / len(v) for v in (a, b)])
    error, freedom = errors.sum(), math.nan
    if error:
        freedom = float(1 / np.sum((errors / error) ** 2 / [len(a) - 1, len(b) - 1]))
    return float(a.mean() - b.mean()), math.sqrt(error), freedom


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

    For statistics that `welch_difference`, of means, does not know: it is too narrow for few seeds. At 95 % it leaves
    out 0 between means of equally good (normal) algorithms in about 33, 20, 13 and 8 % of experiments with 2, 3, 5 and
    10 seeds of each; between interquartile means, which below 4 seeds are those means, in about 7 and 5 % with 5 and
    10.
    Source: Efron, 1979, "Bootstrap Methods: Another Look at the Jackknife".
    """
    a, b = _sides(a, b)
    random = np.random.default_rng(seed)
    drawn = [statistic(v[random.integers(len(v), size=(resamples, len(v)))], axis=-1) for v in (a, b)]
    low, high = np.quantile(drawn[0] - drawn[1], [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(statistic(a, axis=-1) - statistic(b, axis=-1)), float(low), float(high)


def paired_comparison(
    a: Float[np.ndarray, " seeds_a"],
    b: Float[np.ndarray, " seeds_b"],
    seeds_a: Sequence[int] | None = None,
    seeds_b: Sequence[int] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    method: str = "bca",
    seed: int = 0,
) -> PairedDifference:
    """Return the mean of `a` less `b` over the seeds that both have, with its interval and two tests.

        d_i = a_i - b_i for each seed i that both have;  mean of d

    Right where a seed means the same to both: the same levels, datasets or initial weights. What a seed makes easy or
    hard for both then cancels. `seeds_a` and `seeds_b` name the seed of each score; without them the scores are in
    the same order, one for one. Seeds that only one has are left out and counted in `unshared`.

    The interval is a bootstrap over pairs, by `method`: `bca` (corrected for bias and skew) or `percentile`. It is too
    narrow for few pairs: at 95 %, `bca` holds the mean of skewed (exponential) differences in about 81, 87 and 91 % of
    experiments with 5, 10 and 20 pairs, and that of normal ones in about 83, 90 and 93 %. Both tests are two-sided.
    Wilcoxon's signed-rank test asks whether differences lie around 0, by their ranks. The permutation test asks how
    often the mean would be as far from 0 if each difference had the other sign by the toss of a coin: exact up to 16
    pairs, drawn beyond. Neither can be below 2^(1 - n) for n pairs: at least 6 are needed for p < 0.05.
    Source: Efron, 1987, "Better Bootstrap Confidence Intervals"; Wilcoxon, 1945, "Individual Comparisons by Ranking
    Methods"; Fisher, 1935, "The Design of Experiments"; Colas et al., 2019, arXiv:1904.06979.
    """
    first, second = _by_seed("a", a, seeds_a), _by_seed("b", b, seeds_b)
    if (seeds_a is None) != (seeds_b is None):
        raise ForageError("paired_comparison needs the seeds of both, or of neither for scores in the same order.")
    if seeds_a is None and len(first) != len(second):
        raise ForageError(
            f"paired_comparison needs a partner for each score, and got {len(first)} and {len(second)}; name their "
            f"seeds (seeds_a, seeds_b), and those that only one has are left out."
        )
    if method not in ("bca", "percentile"):
        raise ForageError(f"A paired interval is by bca or percentile, and {method!r} is neither.")
    shared = sorted(first.keys() & second.keys())
    if len(shared) < 2:
        raise ForageError(
            f"The two share {len(shared)} seed{'' if len(shared) == 1 else 's'}, and a paired comparison needs at "
            f"least 2, better 10; run both on the same seeds, or compare them with probability_of_improvement."
        )
    check_interval(len(shared), confidence, resamples)
    d = np.array([first[i] - second[i] for i in shared])
    low, high = _mean_interval(d, confidence, resamples, method, seed)
    difference = Score(float(d.mean()), low, high, len(d))
    return PairedDifference(difference, _wilcoxon(d), sign_flip_test(d, seed), len(first.keys() ^ second.keys()))


def sign_flip_test(differences: Float[np.ndarray, " pairs"], seed: int = 0) -> float:
    """Return the share of random sign flips of the differences with a mean at least as far from 0.

        share of the 2^n choices of signs s for which |sum s_i d_i| >= |sum d_i|

    Exact up to 16 pairs. Beyond, signs are drawn 100 000 times, and the differences as they are count as one more.
    Source: Fisher, 1935, "The Design of Experiments", section 21; Phipson and Smyth, 2010, arXiv:1603.05766.
    """
    d = check_scores("sign_flip_test", differences).ravel()
    n = len(d)
    seen = abs(d.sum())
    # Sums of the same numbers in another order differ in their last digits and must still count as equal.
    least = seen - 1e-12 * np.abs(d).sum()
    if n <= EXACT:
        signs = 1 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
        return float(np.mean(np.abs(signs @ d) >= least))
    random, count = np.random.default_rng(seed), 0
    rows = max(1, 4_000_000 // n)
    for start in range(0, DRAWN, rows):
        signs = 1 - 2.0 * random.integers(2, size=(min(rows, DRAWN - start), n))
        count += int(np.sum(np.abs(signs @ d) >= least))
    return (count + 1) / (DRAWN + 1)


def _share_interval(share: float, trials: int, confidence: float) -> tuple[float, float]:
    """Compute Clopper and Pearson's interval of a share of `trials`; the successes need not be a whole number."""
    from scipy.special import betaincinv  # slow to import, which only those who ask should pay

    successes, failures = share * trials, trials - share * trials
    low = float(betaincinv(successes, failures + 1, (1 - confidence) / 2)) if successes else 0.0
    high = float(betaincinv(successes + 1, failures, (1 + confidence) / 2)) if failures else 1.0
    return low, high


def _sides(a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    for values in (a, b):
        if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
            raise ForageError(f"A difference needs 2 or more finite scores on either side, and got {values.tolist()}.")
    return a, b


def _wilcoxon(d: np.ndarray) -> float:
    if not d.any():
        return 1.0  # no difference at all, where SciPy knows no p-value
    from scipy.stats import wilcoxon  # half a second, which only those who ask should pay

    result: Any = wilcoxon(d)
    return float(result.pvalue)


def _mean_interval(d: np.ndarray, confidence: float, resamples: int, method: str, seed: int) -> tuple[float, float]:
    n = len(d)
    if np.ptp(d) == 0:
        return float(d[0]), float(d[0])
    found = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples) @ d / n
    levels = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        from scipy.special import ndtr, ndtri

        off = d - d.mean()
        below = (np.mean(found < d.mean()) + np.mean(found <= d.mean())) / 2
        bias = ndtri(np.clip(below, 0.5 / resamples, 1 - 0.5 / resamples))
        acceleration = np.sum(off**3) / (6 * np.sum(off**2) ** 1.5)
        z = bias + ndtri(levels)
        levels = ndtr(bias + z / (1 - acceleration * z))
    low, high = np.quantile(found, levels)
    return float(low), float(high)


def _by_seed(name: str, scores: Any, seeds: Sequence[int] | None) -> dict[int, float]:
    if np.ndim(scores) != 1:
        raise ForageError(
            f"paired_comparison compares one number for each seed on one task, and {name} has shape "
            f"{np.shape(scores)}; compare task by task, or the means over tasks."
        )
    values = check_scores("paired_comparison", scores).ravel()
    if seeds is None:
        return dict(enumerate(values.tolist()))
    named = [int(seed) for seed in seeds]
    if len(named) != len(values) or len(set(named)) != len(named):
        raise ForageError(
            f"seeds_{name} names each score's seed once, and there are {len(values)} scores and {len(set(named))} "
            f"different seeds."
        )
    return dict(zip(named, values.tolist(), strict=True))
