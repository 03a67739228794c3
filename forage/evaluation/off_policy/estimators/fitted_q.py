"""Fitted Q evaluation: action values of the target policy by regression on logged transitions, again and again.

    Q_k = argmin over f of sum (f(o, a) - r - discount (1 - terminated) sum_a' pi(a'|o') Q_{k-1}(o', a'))^2,    Q_0 = 0
    J(pi) = mean over episodes of sum_a pi(a|o_0) Q_K(o_0, a)

For linear values each regression is a linear system. K = `horizon` of them give the value of that many steps; without a
horizon the fixed point is solved at once, which is LSTD-Q (Lagoudakis and Parr, 2003, "Least-Squares Policy Iteration",
JMLR 4). With a feature for each observation this is the value of the policy in the MDP with the logged frequencies, the
maximum-likelihood model. Behaviour probabilities are not needed. Truncated episodes do not matter: a transition is a
transition, and value goes on behind it.

Sources: Le, Voloshin and Yue, 2019, "Batch Policy Learning under Constraints", arXiv 1903.08738, algorithm 3; Voloshin,
Le, Jiang and Yue, 2019, "Empirical Study of Off-Policy Policy Evaluation for Reinforcement Learning", arXiv 1911.06854.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int, PyTree

from forage.core.types import ForageError
from forage.evaluation.off_policy.estimators.importance import PerEpisode
from forage.evaluation.off_policy.estimators.linear import RIDGE, Design, Features, design, influence, solve
from forage.evaluation.off_policy.target import Target, flatten_observation


class ActionValues(Protocol):
    """Values of all actions: `[transition, action]` for observations and the times they were seen at."""

    def __call__(
        self, observation: PyTree[np.ndarray], time: Int[np.ndarray, " transition"]
    ) -> Float[np.ndarray, "transition action"]: ...


@dataclasses.dataclass(frozen=True, eq=False)
class LinearValues:
    """Q_k(o, a) = x(o) . theta[k, a], for k steps left; a stationary solution has one row."""

    theta: Float[np.ndarray, "left action feature"]
    features: Features
    horizon: int | None

    def __call__(
        self, observation: PyTree[np.ndarray], time: Int[np.ndarray, " transition"]
    ) -> Float[np.ndarray, "transition action"]:
        x = np.asarray(self.features(observation), np.float64)
        if self.horizon is None:
            return x @ self.theta[0].T
        values = np.zeros((len(x), self.theta.shape[1]))
        for step in np.unique(time):  # with a horizon the values depend on how many steps are left
            at = time == step
            values[at] = x[at] @ self.theta[max(self.horizon - step, 0)].T
        return values


def fitted_q(target: Target, features: Features | None = None, ridge: float = RIDGE) -> PerEpisode:
    """Return one number for each episode; their mean is the estimate (see `linear.influence`).

    `features` maps observations to `[batch, feature]`; without them each different observation has a value of its own.
    Raise `ForageError` if there are too many different observations for a table, or the equations have no single
    solution.
    """
    of = design(target, features, ridge, "fqe")
    theta = _theta(target, of)
    start = of.first.mean(0).reshape(-1)
    if target.horizon is None:
        dual = solve((of.c_matrix - of.b_matrix).T, start, "fqe")[None]
    else:
        back = solve(of.c_matrix, of.b_matrix, "fqe")  # theta_k = back theta_{k-1} + ...
        rows = [start]
        for _ in range(target.horizon - 1):
            rows.append(back.T @ rows[-1])
        dual = solve(of.c_matrix, np.stack(rows[::-1]).T, "fqe").T
    return influence(target, of, theta, dual)


def linear_values(target: Target, features: Features | None = None, ridge: float = RIDGE) -> ActionValues:
    """Return the fitted action values as a function of observations and times, for doubly robust estimators."""
    if features is None:
        features = _table(target)
    of = design(target, features, ridge, "fqe")
    theta = _theta(target, of)
    return LinearValues(theta.reshape(len(theta), target.actions, -1), features, target.horizon)


def _theta(target: Target, of: Design) -> Float[np.ndarray, "left d"]:
    """Return the weights with 0, 1, ..., horizon steps left; without a horizon those of the fixed point, alone."""
    if target.horizon is None:
        return solve(of.c_matrix - of.b_matrix, of.c_vector, "fqe")[None]
    once, back = (solve(of.c_matrix, right, "fqe") for right in (of.c_vector, of.b_matrix))
    rows = [np.zeros_like(once)]
    for _ in range(target.horizon):
        rows.append(once + back @ rows[-1])
    if not np.isfinite(rows[-1]).all():
        raise ForageError("fqe diverged: these features cannot hold the values from step to step; fewer would.")
    return np.stack(rows)


def _table(target: Target) -> Features:
    """Return a feature for each different observation of the data; an unseen one has none, and the value 0."""
    states, following, count = target.states("dr")
    known: dict[bytes, int] = {}
    for tree, numbers in ((target.logged.observation, states), (target.logged.next_observation, following)):
        rows = _rows(tree)
        _, where = np.unique(numbers, return_index=True)
        known.update({rows[at].tobytes(): int(numbers[at]) for at in where})

    def one_hot(observation: PyTree[np.ndarray]) -> Float[np.ndarray, "transition state"]:
        rows = _rows(observation)
        table = np.zeros((len(rows), count))
        places = np.array([known.get(row, -1) for row in map(np.ndarray.tobytes, rows)])
        table[np.flatnonzero(places >= 0), places[places >= 0]] = 1.0
        return table

    return one_hot


def _rows(observation: PyTree[np.ndarray]) -> Float[np.ndarray, "transition numbers"]:
    return np.ascontiguousarray(flatten_observation(observation) + 0.0)  # no -0, which has other bytes
