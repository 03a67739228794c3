"""Linear action values from logged data, in closed form, and the weight of each transition in them.

With features x(o) of m numbers, Q(o, a) = x(o) . theta_a; a table is the case of one-hot features. Over all transitions

    C = sum phi phi'   B = discount sum phi E_pi[phi(o', .)]' (1 - terminated)   c = sum phi r        phi = x(o) e_a'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, PyTree

from forage.core.types import ForageError
from forage.evaluation.off_policy.target import Target

Features = Callable[[PyTree[np.ndarray]], Any]
"""From observations (leaves `[batch, ...]`) to `[batch, feature]`."""

RIDGE = 1e-6
"""The number added to the diagonal of C, in units of transitions: unlogged features get the value 0."""


class Design(NamedTuple):
    """The data as features, and the sums that the closed forms are made of. `d` = action * feature, action first."""

    x: Float[np.ndarray, "transition feature"]
    next_x: Float[np.ndarray, "transition feature"]  # zero where terminated
    first: Float[np.ndarray, "episode action feature"]  # E_pi[phi(o_0, .)]
    c_matrix: Float[np.ndarray, "d d"]
    b_matrix: Float[np.ndarray, "d d"]
    c_vector: Float[np.ndarray, " d"]


def design(target: Target, features: Features | None, ridge: float, estimator: str) -> Design:
    """Return the features of a target's data. Without `features` the observations are numbered and each is one."""
    logged, actions = target.logged, target.actions
    if features is None:
        states, following, count = target.states(estimator)
        x, next_x = (_one_hot(number, count) for number in (states, following))
    else:
        x, next_x = (np.asarray(features(tree), np.float64) for tree in (logged.observation, logged.next_observation))
        if x.ndim != 2 or x.shape != next_x.shape or len(x) != logged.transitions or not np.isfinite(x).all():
            raise ForageError(
                f"features answers {logged.transitions} observations with finite numbers of shape (batch, feature), "
                f"not of shape {x.shape}."
            )
    next_x = next_x * ~logged.terminated[:, None]
    size = x.shape[1]
    c_matrix, b_matrix = np.zeros((actions, size, actions, size)), np.zeros((actions, size, actions, size))
    c_vector = np.zeros((actions, size))
    for action in range(actions):
        at = logged.action == action
        c_matrix[action, :, action] = x[at].T @ x[at] + ridge * np.eye(size)
        c_vector[action] = x[at].T @ logged.reward[at]
        for other in range(actions):
            later = target.next_probability[at, other, None] * next_x[at]
            b_matrix[action, :, other] = target.discount * x[at].T @ later
    d = actions * size
    first = target.probability[logged.first][:, :, None] * x[logged.first][:, None]
    return Design(x, next_x, first, c_matrix.reshape(d, d), b_matrix.reshape(d, d), c_vector.reshape(d))


def solve(
    matrix: Float[np.ndarray, "d d"], right: Float[np.ndarray, "d *columns"], estimator: str
) -> Float[np.ndarray, "d *columns"]:
    """Return the solution of a linear system for one right-hand side or several. Raise `ForageError` without one."""
    try:
        found = np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        found = np.full_like(right, np.nan)
    if not np.isfinite(found).all() or np.abs(matrix @ found - right).max() > 1e-3 * (1 + np.abs(right).max()):
        raise ForageError(
            f"The equations of {estimator} have no single solution; a discount below 1, a horizon, a ridge above 0 or "
            f"fewer features would give one."
        )
    return found


def influence(
    target: Target,
    of: Design,
    theta: Float[np.ndarray, "left d"],
    dual: Float[np.ndarray, "left d"],
) -> Float[np.ndarray, " episode"]:
    """For each episode the value E_pi[phi_0] . theta_last plus n times its derivative by the episode's weight.

        v_i = phi_0^i . theta + n sum over transitions of i of sum_k (phi . dual_k) (r + discount Q_{k-1}(o', pi) - Q_k)

    `theta[k]` are the values with k steps left (`theta[0]` 0), `dual[k]` = d value / d (right-hand side of theta[k]).
    A stationary solution is one row in each, whose Q_{k-1} is Q_k.
    """
    logged, actions = target.logged, target.actions
    rows = logged.episodes
    size = of.x.shape[1]
    now = theta[1:] if len(theta) > 1 else theta
    before = theta[:-1] if len(theta) > 1 else theta
    now, before, dual = (part.reshape(-1, actions, size) for part in (now, before, dual))
    first = np.einsum("eam,am->e", of.first, now[-1])
    contributions = np.zeros(logged.transitions)
    later = np.stack([(target.next_probability * (of.next_x @ one.T)).sum(1) for one in before], axis=1)
    for action in range(actions):
        at = logged.action == action
        error = logged.reward[at, None] + target.discount * later[at] - of.x[at] @ now[:, action].T
        contributions[at] = ((of.x[at] @ dual[:, action].T) * error).sum(1)
    episodes = first + rows * target.per_episode(contributions)
    return episodes - episodes.mean() + first.mean()  # the ridge moves the mean by a trifle


def _one_hot(number: Int[np.ndarray, " transition"], count: int) -> Float[np.ndarray, "transition state"]:
    rows = np.zeros((len(number), count))
    rows[np.arange(len(number)), number] = 1.0
    return rows
