"""The question that every estimator answers: logged data, the policy to judge, the discount, the horizon."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from forage.core.types import ForageError
from forage.data.logged import LoggedEpisodes

NO_START = (
    "A value begins where episodes begin, and none of the log's {:,} episodes has its first row, which lacks a cell; "
    "say what a missing cell means (missing in [columns.NAME] of the log's TOML file)."
)


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """Logged data as seen by a target policy pi, to estimate its discounted return from an episode's start.

        J(pi) = E[sum over t of discount^t r_t]        over t < `horizon`, if there is one

    `policy` maps observations (leaves `[batch, ...]`) to probabilities `[batch, action]`, or has a method
    `probabilities` that does. With a `horizon`, later steps are left out. Without one, the value of a truncated episode
    continues beyond the log: estimators with state values bootstrap from its last observation, the others sum the log
    and so judge the return up to the time limit; `cut` measures the possible effect.

    What was recorded behind a gap has no start, and is left out.

    Raise `ForageError` if the policy's answers are no probabilities, or an episode was truncated before `horizon`.
    """

    logged: LoggedEpisodes
    policy: Callable[[PyTree[np.ndarray]], Any]
    discount: float
    horizon: int | None = None

    def __post_init__(self):
        if not 0 <= self.discount <= 1:
            raise ForageError(f"A discount lies between 0 and 1, such as 0.99, and was {self.discount}.")
        if not self.logged.starts.all():
            if not self.logged.starts.any():
                raise ForageError(NO_START.format(self.logged.episodes))
            object.__setattr__(self, "logged", self.logged.select(self.logged.starts[self.logged.numbers]))
        if self.horizon is None:
            return
        if not isinstance(self.horizon, (int, np.integer)) or self.horizon < 1:
            raise ForageError(f"A horizon is a whole number of steps, at least 1, not {self.horizon}.")
        logged = self.logged
        short = logged.truncated & (logged.time < self.horizon - 1)
        if short.any():
            at = int(short.argmax())
            raise ForageError(
                f"Episode {logged.numbers[at]} was truncated after {logged.time[at] + 1} steps, before the horizon "
                f"{self.horizon}; a horizon of {int(logged.time[logged.truncated].min()) + 1} works."
            )
        object.__setattr__(self, "logged", logged.select(logged.time < self.horizon))

    @property
    def bootstraps(self) -> bool:
        """Return whether values are bootstrapped from the last observation of a truncated episode."""
        return self.horizon is None

    @functools.cached_property
    def probability(self) -> Float[np.ndarray, "transition action"]:
        """pi(. | o) at each observation."""
        return self._ask(self.logged.observation)

    @functools.cached_property
    def next_probability(self) -> Float[np.ndarray, "transition action"]:
        """pi(. | o') at each next observation."""
        return self._ask(self.logged.next_observation)

    @property
    def actions(self) -> int:
        return self.probability.shape[1]

    @functools.cached_property
    def taken_probability(self) -> Float[np.ndarray, " transition"]:
        """pi(a | o) of the action that was logged."""
        return self.at_logged_actions(self.probability)

    def at_logged_actions(self, of_actions: Float[np.ndarray, "transition action"]) -> Float[np.ndarray, " transition"]:
        """Return the entries of the logged actions."""
        return of_actions[np.arange(self.logged.transitions), self.logged.action]

    def _ask(self, observation: PyTree[np.ndarray]) -> Float[np.ndarray, "transition action"]:
        ask = getattr(self.policy, "probabilities", self.policy)
        try:
            found, count = np.asarray(ask(observation), np.float64), self.logged.transitions
        except (TypeError, ValueError) as error:
            raise ForageError(
                f"The policy does not read the log's observations ({str(error).splitlines()[0]}); it has to be of the "
                f"environment that was logged."
            ) from error
        if found.ndim != 2 or len(found) != count or found.shape[1] < 1:
            raise ForageError(
                f"A policy answers observations [batch, ...] with probabilities [batch, action]; for {count} it "
                f"returned shape {found.shape}."
            )
        if found.shape[1] <= self.logged.action.max():
            raise ForageError(
                f"The policy knows {found.shape[1]} actions, and action {self.logged.action.max()} was logged."
            )
        wrong = ~(found >= 0).all(1) | ~(np.abs(found.sum(1) - 1) <= 1e-4)
        if wrong.any():
            raise ForageError(
                f"The policy answers {found[wrong.argmax()].tolist()}; probabilities are at least 0 and sum to 1."
            )
        return found

    def ratio(self, estimator: str) -> Float[np.ndarray, " transition"]:
        """pi(a | o) / b(a | o) of each logged action."""
        if self.logged.behaviour_probability is None:
            raise ForageError(
                f"{estimator} needs the probabilities with which the logged actions were chosen, and the data has "
                f"none; fqe and dualdice do without."
            )
        return self.taken_probability / self.logged.behaviour_probability

    def pad_episodes(
        self, values: Float[np.ndarray, " transition"], fill: float = 0.0
    ) -> Float[np.ndarray, "episode time"]:
        """Return one row for each episode, `fill` after its end."""
        logged = self.logged
        rows = np.full((logged.episodes, int(logged.lengths.max())), fill)
        rows[logged.numbers, logged.time] = values
        return rows

    def per_episode(self, values: Float[np.ndarray, " transition"]) -> Float[np.ndarray, " episode"]:
        """Sum over each episode."""
        return np.bincount(self.logged.numbers, values, self.logged.episodes)

    def weights(self, estimator: str) -> Float[np.ndarray, "episode time"]:
        """rho_t = product over k <= t of pi(a_k | o_k) / b(a_k | o_k); after the end, its value at the end."""
        with np.errstate(over="ignore", invalid="ignore"):
            weights = np.cumprod(self.pad_episodes(self.ratio(estimator), 1.0), axis=1)
        if not np.isfinite(weights).all():
            raise ForageError(
                f"The importance weights of {estimator} are too large for a number after {weights.shape[1]} steps; "
                f"a horizon, mis, fqe or dualdice would do."
            )
        return weights

    @property
    def decay(self) -> Float[np.ndarray, " transition"]:
        """discount^t."""
        return self.discount**self.logged.time

    def choose(self, keep: Bool[np.ndarray, " episode"]) -> Target:
        """Return the same question, asked of some of the episodes."""
        return Target(self.logged.select(keep[self.logged.numbers]), self.policy, self.discount, self.horizon)

    def states(self, estimator: str) -> tuple[Int[np.ndarray, " transition"], Int[np.ndarray, " transition"], int]:
        """Return the numbers of the observations, of the next ones, and the number of different ones."""
        if self.logged.states is None:
            raise ForageError(
                f"{estimator} keeps a table of observations, and there are too many different ones; give it features, "
                f"or use fqe-network or dualdice-network."
            )
        return self.logged.states


@dataclasses.dataclass(frozen=True)
class Overlap:
    """Measures of the data's coverage of the target policy.

    - `effective_sample_size`: (sum w)^2 / sum w^2 over the episodes' whole weights w (Kong, 1992, "A note on importance
      sampling using standardized weights"): what the episodes are worth to trajectory-wise weighting. Under 10 or so,
      such numbers and their intervals mean nothing.
    - `largest_weight`: the share of the heaviest episode in the sum of weights.
    - `mean_ratio`: mean of pi(a|o) / b(a|o) over the steps. Its expectation is 1 less the probability that the target
      gives to actions which the behaviour never takes where it was.
    - `unlogged`: mean probability that the target gives to actions never logged in that same observation; `None` if
      observations hardly recur.
    - `cut`: mean over episodes of discount^length where truncated, else 0: the share of the discounting that a
      truncated log leaves unseen.

    The first three are `None` without behaviour probabilities.
    """

    effective_sample_size: float | None
    largest_weight: float | None
    mean_ratio: float | None
    unlogged: float | None
    cut: float


def effective_sample_size(weights: Float[np.ndarray, " episode"]) -> float:
    """(sum w)^2 / sum w^2: the number of equally weighted episodes of the same information; 0 if all weights are 0."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0


def overlap(target: Target) -> Overlap:
    """Compute the data's coverage of the target policy."""
    logged = target.logged
    last = np.append(np.diff(logged.numbers) != 0, True)
    cut = float((target.discount**logged.lengths * logged.truncated[last]).mean()) if target.bootstraps else 0.0
    unlogged = None
    if logged.states is not None and logged.states[2] <= logged.transitions / 2:
        states, _, count = logged.states
        seen = np.zeros((count, target.actions), bool)
        seen[states, logged.action] = True
        unlogged = float((target.probability * ~seen[states]).sum(1).mean())
    if logged.behaviour_probability is None:
        return Overlap(None, None, None, unlogged, cut)
    ratio = target.ratio("overlap")
    with np.errstate(divide="ignore"):  # in logarithms, for products of thousands of ratios may be no numbers any more
        logs = target.per_episode(np.log(ratio))
    weights = np.exp(logs - logs.max()) if np.isfinite(logs.max()) else np.zeros(logged.episodes)
    largest = float(weights.max() / weights.sum()) if weights.any() else 0.0
    return Overlap(effective_sample_size(weights), largest, float(ratio.mean()), unlogged, cut)


def flatten_observation(observation: PyTree[np.ndarray]) -> Float[np.ndarray, "transition numbers"]:
    """Return all numbers of each observation in a row."""
    leaves = jax.tree.leaves(observation)
    return np.concatenate([np.asarray(leaf, np.float64).reshape(len(leaf), -1) for leaf in leaves], axis=1)
