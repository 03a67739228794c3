"""Measures of selection by estimates: rank correlation, regret@k, errors, and SharpeRatio@k with its family.

All take `estimates[p]` and true `values[p]` of the same policies. The top k are those with the highest estimates (of
equal ones the first), and the measures judge the k policies as if they were tried one after another.

Source: Kiyohara, Kishimoto, Kawakami, Kobayashi, Nakata and Saito, 2024, "Towards Assessing and Benchmarking
Risk-Return Tradeoff of Off-Policy Evaluation", arXiv 2311.18207; for regret@k and rank correlation Fu et al., 2021,
"Benchmarks for Deep Off-Policy Evaluation", arXiv 2103.16596.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from forage.core.types import ForageError

Values = Float[np.ndarray, " policy"]


class Portfolio(NamedTuple):
    """The result of trying the k best-estimated policies; the true values of the k, summed up."""

    best: float  # max: what is kept at the end
    worst: float  # min
    mean: float
    std: float  # root of the mean squared deviation from `mean`, over the k: the risk
    violations: float  # share of the k whose value is below the safety threshold; 0 without a threshold
    sharpe_ratio: float  # (best - baseline) / std, not below 0


def rank_correlation(estimates: Any, values: Any) -> float:
    """Spearman's: the correlation of the ranks, equal numbers sharing the mean of their ranks. NaN if all are equal.

    Source: Spearman, 1904, "The Proof and Measurement of Association between Two Things".
    """
    estimates, values = _check(estimates, values)
    ranks = np.stack([_ranks(estimates), _ranks(values)])
    ranks = ranks - ranks.mean(1, keepdims=True)
    length = np.sqrt((ranks**2).sum(1).prod())
    return float(ranks.prod(0).sum() / length) if length > 0 else float("nan")


def regret(estimates: Any, values: Any, k: int = 1) -> float:
    """Regret@k = max over all policies of J - max over the top k of J: the loss of choosing among the k."""
    estimates, values = _check(estimates, values)
    return float(values.max() - values[_top(estimates, k)].max())


def normalised_regret(estimates: Any, values: Any, k: int = 1) -> float:
    """Regret@k as a share of the range of the values: 0 the best, 1 the worst. 0 if all values are equal."""
    found = regret(estimates, values, k)
    spread = float(np.ptp(np.asarray(values, np.float64)))
    return found / spread if spread > 0 else 0.0


def relative_mse(estimates: Any, values: Any) -> float:
    """mean of ((estimate - value) / value)^2 over the policies (Voloshin et al., 2019, arXiv 1911.06854).

    Raises `ForageError` if a value is 0, of which no error is a share.
    """
    estimates, values = _check(estimates, values)
    if (values == 0).any():
        raise ForageError("A relative error needs values other than 0; normalised_mse works with any.")
    return float((((estimates - values) / values) ** 2).mean())


def normalised_mse(estimates: Any, values: Any) -> float:
    """mean of (estimate - value)^2, divided by the squared range of the values. NaN if all values are equal."""
    estimates, values = _check(estimates, values)
    spread = float(np.ptp(values))
    return float(((estimates - values) ** 2).mean() / spread**2) if spread > 0 else float("nan")


def portfolio(estimates: Any, values: Any, k: int, baseline: float, threshold: float | None = None) -> Portfolio:
    """Return the risk-return numbers of the top k, for a behaviour policy of value `baseline`.

        SharpeRatio@k = max(0, best@k - J(b)) / std@k,    std@k = sqrt(1/k sum over the k of (J(p) - mean@k)^2)

    The behaviour policy may always be kept, which is why the return is never below 0. The paper divides by k, its
    authors' software by k - 1. Without risk (always for k = 1) the ratio is NaN if there is no return either, else
    infinite. `threshold` is the value below which a policy is unsafe.
    """
    estimates, values = _check(estimates, values)
    if not np.isfinite([baseline, threshold or 0.0]).all():
        raise ForageError(f"baseline and threshold are finite numbers, not {baseline} and {threshold}.")
    tried = values[_top(estimates, k)]
    best, std = float(tried.max()), float(tried.std())
    gain = max(0.0, best - baseline)
    ratio = gain / std if std > 0 else float("inf") if gain > 0 else float("nan")
    unsafe = 0.0 if threshold is None else float((tried < threshold).mean())
    return Portfolio(best, float(tried.min()), float(tried.mean()), std, unsafe, ratio)


def sharpe_ratio(estimates: Any, values: Any, k: int, baseline: float) -> float:
    """SharpeRatio@k alone; see `portfolio`."""
    return portfolio(estimates, values, k, baseline).sharpe_ratio


def _top(estimates: Values, k: int) -> np.ndarray:
    if not isinstance(k, (int, np.integer)) or not 1 <= k <= len(estimates):
        raise ForageError(
            f"The top {k} of {len(estimates)} policies are asked for; k is a whole number from 1 to their number."
        )
    return np.argsort(-estimates, kind="stable")[:k]


def _ranks(x: Values) -> Values:
    below, ties = (x[:, None] > x).sum(1), (x[:, None] == x).sum(1)
    return below + (ties - 1) / 2


def _check(estimates: Any, values: Any) -> tuple[Values, Values]:
    estimates, values = np.asarray(estimates, np.float64), np.asarray(values, np.float64)
    if estimates.ndim != 1 or estimates.shape != values.shape or len(estimates) < 1:
        raise ForageError(
            f"Estimates and values are arrays (policies,) of the same policies, not {estimates.shape}, {values.shape}."
        )
    if not (np.isfinite(estimates).all() and np.isfinite(values).all()):
        raise ForageError("Estimates and values of policies are finite numbers; leave out those that are not.")
    return estimates, values
