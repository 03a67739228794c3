"""Estimates of a policy's return by several estimators at once, with intervals over episodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, PyTree

from forage.core.types import ForageError
from forage.data.logged import LoggedEpisodes
from forage.evaluation.off_policy.estimators import density_ratio, doubly_robust, fitted_q, importance
from forage.evaluation.off_policy.estimators.magic import Magic
from forage.evaluation.off_policy.estimators.networks import NetworkDice, NetworkQ
from forage.evaluation.off_policy.target import Overlap, Target, overlap
from forage.evaluation.statistics import bootstrap_interval

Estimator = Callable[[Target], Float[np.ndarray, " episode"]]
"""A function of the target that returns one number for each episode; their mean is the estimate."""

ESTIMATORS: dict[str, Estimator] = {
    "is": importance.importance_sampling,
    "wis": importance.self_normalised,
    "pdis": importance.per_decision,
    "wpdis": importance.self_normalised_per_decision,
    "fqe": fitted_q.fitted_q,
    "fqe-network": NetworkQ(),
    "dr": doubly_robust.doubly_robust,
    "wdr": doubly_robust.weighted_doubly_robust,
    "magic": Magic(),
    "mis": density_ratio.marginalised_importance,
    "dualdice": density_ratio.dualdice,
    "dualdice-network": NetworkDice(),
}
WEIGHS = ("is", "wis", "pdis", "wpdis")  # what needs nothing but the behaviour's probabilities
TABLES = ("fqe", "dr", "wdr", "mis", "dualdice")  # what needs observations that recur, or features
FEW = 10  # effective episodes
PROBABILITIES = (*WEIGHS, "dr", "wdr", "magic", "mis")  # what needs the behaviour's probabilities


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A policy's estimated return and its interval. `low` and `high` are None without an interval."""

    value: float
    low: float | None
    high: float | None
    episodes: int

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.4g} (no interval)"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclasses.dataclass(frozen=True)
class Table(Mapping[str, Estimate]):
    """Estimates by the names of their estimators; printed, a table. `overlap`: the data's coverage of the policy."""

    estimates: dict[str, Estimate]
    overlap: Overlap
    confidence: float

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def __str__(self) -> str:
        count = next(iter(self.estimates.values())).episodes
        lines = [f"{name:<{max(map(len, self.estimates)) + 2}}{found}" for name, found in self.estimates.items()]
        told = {name: value for name, value in dataclasses.asdict(self.overlap).items() if value is not None}
        lines.append(", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in told.items()))
        size = self.overlap.effective_sample_size
        if size is not None and size < FEW:
            lines.append(f"Weighed by whole pasts the episodes are worth {size:.1f}: too few to trust such estimates.")
        return "\n".join([f"{count} episodes, {100 * self.confidence:.0f} % intervals", *lines])


def estimate(
    logged: LoggedEpisodes,
    policy: Callable[[PyTree[np.ndarray]], Any],
    discount: float,
    estimators: Sequence[str | Estimator] | Mapping[str, Estimator] | None = None,
    horizon: int | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Table:
    """Estimate the return of `policy` in the environment of the log: J = E[sum over t of discount^t r_t].

    `policy` maps observations (leaves `[batch, ...]`) to action probabilities `[batch, action]`; a loaded agent
    (`forage.load`) will do, and is then judged as it is evaluated. `estimators` are names of `ESTIMATORS`, functions of
    a `Target`, or a mapping from names to such functions, as in `{"fqe": functools.partial(fitted_q, features=mine)}`;
    without them, those that the data allows. For `horizon`, and what becomes of truncated episodes, see `Target`.

    Each interval is a percentile bootstrap of the mean over episodes, of numbers that say what each episode adds to the
    estimate. It does not know of bias: of few heavy weights, of features that cannot hold the values, of a cut log.
    Networks have none, for it would take as many of them; nor has MAGIC, which may rest on its model alone.

    Raise `ForageError` if an estimator needs what the data lacks.
    """
    target = Target(logged, policy, discount, horizon)
    found = {}
    for name, estimator in _name_estimators(estimators, target).items():
        episodes = np.asarray(estimator(target), np.float64)
        if episodes.shape != (target.logged.episodes,) or not np.isfinite(episodes).all():
            raise ForageError(
                f"{name} should give one finite number for each of {target.logged.episodes} episodes, and gave "
                f"{episodes.shape}, {int((~np.isfinite(episodes)).sum())} of them not finite."
            )
        low = high = None
        if len(episodes) > 1 and getattr(estimator, "interval", True):
            low, high = bootstrap_interval(episodes, np.mean, confidence, resamples, seed)
        found[name] = Estimate(float(episodes.mean()), low, high, len(episodes))
    return Table(found, overlap(target), confidence)


def _name_estimators(
    chosen: Sequence[str | Estimator] | Mapping[str, Estimator] | None, target: Target
) -> dict[str, Estimator]:
    if chosen is None:
        return {name: ESTIMATORS[name] for name in _possible(target)}
    if isinstance(chosen, str) or not chosen:
        raise ForageError(
            f"estimators is a sequence of names, such as ('pdis', 'fqe'), or a mapping from names to functions, not "
            f"{chosen!r}."
        )
    if isinstance(chosen, Mapping):
        return dict(chosen)
    found: dict[str, Estimator] = {}
    for one in chosen:
        if isinstance(one, str):
            if one not in ESTIMATORS:
                raise ForageError(f"There is no estimator {one!r}; choose among {', '.join(ESTIMATORS)}.")
            found[one] = ESTIMATORS[one]
        else:
            found[getattr(one, "__name__", type(one).__name__)] = one
    return found


def _possible(target: Target) -> list[str]:
    """Return the estimators that the data allows; networks only if there are too many observations for a table."""
    logged = target.logged
    few = logged.states is not None and logged.states[2] <= logged.transitions / 2
    names = [*WEIGHS, *TABLES] if few else [*WEIGHS, "fqe-network"]
    if logged.behaviour_probability is None:
        names = [name for name in names if name not in PROBABILITIES]
    if target.horizon is not None or target.discount >= 1:
        names = [name for name in names if name != "dualdice"]
    if target.discount >= 1 and target.horizon is None:
        names = [name for name in names if name in PROBABILITIES and name not in ("dr", "wdr")]
    if logged.episodes < 2:
        names = [name for name in names if name not in ("dr", "wdr")]
    if not names:
        raise ForageError("Without behaviour probabilities, discount 1 needs a horizon.")
    return names
