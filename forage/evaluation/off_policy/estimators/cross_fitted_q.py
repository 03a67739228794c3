"""Fitted Q evaluation for any actions, with features that are learned, judged on episodes that no fit has seen.

The action values are linear, Q(o, a) = phi(o, a) . theta, and solve the projected Bellman equation of the policy pi at
once (LSTD-Q; Lagoudakis and Parr, 2003, "Least-Squares Policy Iteration", JMLR 4):

    A theta = b    A = sum phi (phi - discount (1 - terminated) E_pi[phi(o', .)])'    b = sum phi r

The features begin with a polynomial. Each round adds the leaves of a regression tree, grown on the Bellman errors
r + discount V(o') - Q(o, a) of the solution so far, and solves again (Parr, Painter-Wakefield, Li and Littman, 2007,
"Analyzing Feature Generation for Value-Function Approximation", ICML).

The same equations give each transition a weight, the target's discounted frequency of visits relative to the log's:

    zeta(o, a) = phi(o, a) . w    A' w = n E_pi[phi(o_0, .)]    so that mean of zeta r = J

Rows behind a gap of the recording are fitted and weighed like all others, and are no start o_0.

With folds of episodes, features, theta and w come from the other folds. The estimate is the mean of V(o_0) over
episodes and fits. Held-out episodes check it: episode i says

    v_i = V(o_0) + (episodes / transitions) sum_t zeta_t (r_t + discount V(o_{t+1}) - Q(o_t, a_t))

The error of the mean of the v_i is the product of those of Q and zeta, and their variance counts the fit's own to first
order (Kallus and Uehara, 2022, "Efficiently Breaking the Curse of Horizon in Off-Policy Evaluation with Double
Reinforcement Learning", Operations Research 70). The variance of the estimate is taken as

    var(v_i) / episodes + (1 + 1/folds) var(means of the fits) + (mean of the v_i - estimate)^2

chance, spread of the fits (Rubin, 1987, "Multiple Imputation for Nonresponse in Surveys", for the sum and its factor)
and the bias that the held-out episodes show.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import gymnasium
import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from forage.core.types import ForageError
from forage.data.logged import Transitions
from forage.evaluation.off_policy.encoding import Answer, Encoder, Polynomial
from forage.evaluation.off_policy.trees import RegressionTree, bin_columns, column_cuts, grow_tree


@dataclasses.dataclass(frozen=True)
class TreeQ:
    """The options of the regression."""

    folds: int = 5  # parts of the episodes, each judged by a fit to the others
    rounds: int = 6  # trees
    leaves: int = 32  # of a tree at most; of a small log one for each `rows` of its transitions
    rows: int = 400
    least: int = 50  # transitions that a leaf has at least
    ridge: float = 0.01  # of each feature, times its mean square and 1 - discount
    seed: int = 0  # of the folds


class Rows(NamedTuple):
    """Inputs of features: columns and their bins, `choice row column`, and the probability of each choice."""

    columns: Float[np.ndarray, "choice row column"]
    bins: Int[np.ndarray, "choice row column"]
    probability: Float[np.ndarray, "choice row"]


class Question(NamedTuple):
    """A log with a policy's actions, as the regression takes it."""

    logged: Rows  # of the logged actions
    here: Rows  # of the policy's actions at each observation
    later: Rows  # of the policy's actions at each next observation
    polynomial: Polynomial
    reward: Float[np.ndarray, " row"]
    goes_on: Float[np.ndarray, " row"]  # the discount, 0 where terminated
    episode: Int[np.ndarray, " row"]  # of those with a start; see `Transitions.origins`
    first: Int[np.ndarray, " episode"]  # the row of each start
    discount: float


class CrossFit(NamedTuple):
    """The result, each number from a fit that has not seen its episode."""

    per_episode: Float[np.ndarray, " episode"]  # the v_i
    by_fold: Float[np.ndarray, " fold"]  # mean V(o_0) over all episodes, by the fit of each fold
    q: Float[np.ndarray, " row"]  # Q(o, a)
    v: Float[np.ndarray, " row"]  # V(o)
    next_v: Float[np.ndarray, " row"]  # V(o')
    weight: Float[np.ndarray, " row"]  # zeta
    held_out_error: float  # mean squared Bellman error of held-out transitions
    fitted_error: float  # the same of the transitions of each fit

    @property
    def value(self) -> float:
        """Return the estimate."""
        return float(self.by_fold.mean())

    @property
    def error(self) -> float:
        """Return the standard error of the estimate."""
        chance = self.per_episode.var(ddof=1) / len(self.per_episode)
        spread = (1 + 1 / len(self.by_fold)) * self.by_fold.var(ddof=1)
        return float(np.sqrt(chance + spread + (self.per_episode.mean() - self.value) ** 2))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval of the estimate, by Student's t with the episodes' degrees of freedom."""
        half = float(stats.t.ppf(0.5 + confidence / 2, len(self.per_episode) - 1)) * self.error
        return self.value - half, self.value + half


def pose(data: Transitions, answer: Answer, space: gymnasium.Space, discount: float) -> tuple[Question, Encoder]:
    """Return the regression's inputs for a log and a policy."""
    if not 0 <= discount < 1:
        raise ForageError(f"The discount of an estimated value is from 0 to below 1, such as 0.99, not {discount:g}.")
    encoder = Encoder.from_data(data.observation, data.action, space)
    logged = encoder(data.observation, data.action)
    cuts = column_cuts(logged)

    def rows_of(observation, actions, probability) -> Rows:
        columns = np.stack([encoder(observation, action) for action in actions])
        return Rows(columns, np.stack([bin_columns(part, cuts).astype(np.int16) for part in columns]), probability)

    here, later = (
        rows_of(observation, *answer(observation)) for observation in (data.observation, data.next_observation)
    )
    own = rows_of(data.observation, data.action[None], np.ones((1, data.transitions)))
    goes_on = discount * ~data.terminated
    polynomial = Polynomial.from_columns(logged, encoder.observed)
    episode, first = data.origins[data.numbers], data.first[data.starts]
    return Question(own, here, later, polynomial, data.reward, goes_on, episode, first, discount), encoder


def cross_fit(asked: Question, options: TreeQ = TreeQ()) -> CrossFit:
    """Estimate the value of the policy on each fold of episodes by a fit to the other folds."""
    episodes, rows = len(asked.first), len(asked.reward)
    folds = min(options.folds, episodes)
    if folds < 2:
        raise ForageError("A value with an interval needs two logged episodes or more; this log has one.")
    fold = np.random.default_rng(options.seed).permutation(episodes) % folds
    q, v, next_v, weight = (np.zeros(rows) for _ in range(4))
    by_fold, fitted = [], []
    for part in range(folds):
        held = fold[asked.episode] == part
        fit = fit_values(asked, ~held, options)
        q[held], v[held], next_v[held] = fit.q[held], fit.v[held], fit.next_v[held]
        weight[held] = fit.weight[held]
        by_fold.append(fit.v[asked.first].mean())
        fitted.append(np.mean((asked.reward + asked.goes_on * fit.next_v - fit.q)[~held] ** 2))
    error = asked.reward + asked.goes_on * next_v - q
    per_episode = v[asked.first] + episodes / rows * np.bincount(asked.episode, weight * error, episodes)
    return CrossFit(
        per_episode, np.array(by_fold), q, v, next_v, weight, float(np.mean(error**2)), float(np.mean(fitted))
    )


class Fit(NamedTuple):
    """The values and weights of all rows by one fit."""

    q: Float[np.ndarray, " row"]
    v: Float[np.ndarray, " row"]
    next_v: Float[np.ndarray, " row"]
    weight: Float[np.ndarray, " row"]


def fit_values(asked: Question, known: np.ndarray, options: TreeQ) -> Fit:
    """Fit action values and weights to the `known` rows, and return those of all rows."""
    x, later = (_expect(asked.polynomial, rows.columns, rows) for rows in (asked.logged, asked.later))
    trees: list[RegressionTree] = []
    while True:
        used, after = x[known], later[known] * asked.goes_on[known, None]
        ridge = np.diag(options.ridge * (1 - asked.discount) * (used**2).sum(0) + 1e-8 * len(used))
        ridge[0, 0] = 0
        matrix = used.T @ (used - after) + ridge
        theta = _solve(matrix, used.T @ asked.reward[known])
        leaves = min(options.leaves, len(used) // options.rows)
        if len(trees) == options.rounds or leaves < 2:
            break
        error = asked.reward[known] - (used - after) @ theta
        trees.append(grow_tree(asked.logged.bins[0, known], error, leaves, options.least))
        if trees[-1].leaves == 1:  # the errors have no structure left
            trees.pop()
            break
        x, later = (
            np.concatenate([features, _expect(trees[-1].features, rows.bins, rows)], 1)
            for features, rows in ((x, asked.logged), (later, asked.later))
        )
    here = [_expect(asked.polynomial, asked.here.columns, asked.here)]
    here += [_expect(tree.features, asked.here.bins, asked.here) for tree in trees]
    policy = np.concatenate(here, 1)
    starts = known[asked.first]
    weight = x @ _solve(matrix.T, len(used) * policy[asked.first[starts]].mean(0))
    return Fit(x @ theta, policy @ theta, later @ theta, weight)


def _expect(
    function: Callable[[np.ndarray], np.ndarray], inputs: np.ndarray, rows: Rows
) -> Float[np.ndarray, "row feature"]:
    """Return the expected features over the choices of a policy."""
    if len(inputs) == 1:
        return function(inputs[0])
    found = rows.probability[0][:, None] * function(inputs[0])
    for probability, part in zip(rows.probability[1:], inputs[1:], strict=True):
        found += probability[:, None] * function(part)
    return found


def _solve(matrix: Float[np.ndarray, "d d"], right: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    try:
        found = np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        found = np.full_like(right, np.nan)
    if not np.isfinite(found).all():
        raise ForageError("The equations of fitted Q evaluation have no single solution; take a smaller discount.")
    return found
