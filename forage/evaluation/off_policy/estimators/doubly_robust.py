"""Doubly robust estimators: a model of the action values, corrected by weighed errors of that model.

    DR    1/n sum_i V_0^i,    V_t = V(o_t) + pi(a_t|o_t) / b(a_t|o_t) (r_t + discount V_{t+1} - Q(o_t, a_t))
    WDR   the same written as a sum over steps, with self-normalised weights w_t^i = rho_t^i / sum_j rho_t^j:
          sum_i sum_t discount^t (w_t^i (r_t^i - Q(o_t^i, a_t^i)) + w_{t-1}^i V(o_t^i)),    w_{-1} = 1/n

with V(o) = sum_a pi(a|o) Q(o, a), and V_{t+1} = 0 after the last step of an episode. DR is unbiased whatever Q is,
if Q was fitted on other data; the better Q is, the less it varies. WDR is consistent, biased for few episodes, and
varies less where weights are large.

Without a horizon a truncated episode goes on, and V of its last observation stands for what is unseen: the model's
word, weighed like a reward of the last step. With a horizon nothing comes after its last step, and Q counts the steps
left.

Q is by default fitted on the other half of the episodes (`folds`), so that no episode judges a model that knows it.

Sources: Jiang and Li, 2016, "Doubly Robust Off-policy Value Evaluation for Reinforcement Learning", arXiv 1511.03722,
equation 10; Thomas and Brunskill, 2016, "Data-Efficient Off-Policy Policy Evaluation for Reinforcement Learning",
arXiv 1604.00923.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from forage.core.types import ForageError
from forage.evaluation.off_policy.estimators.fitted_q import ActionValues, linear_values
from forage.evaluation.off_policy.estimators.importance import PerEpisode, normalised_sum
from forage.evaluation.off_policy.target import Target

Fit = Callable[[Target], ActionValues]


class Model(NamedTuple):
    """A model's values along the episodes; 0 after their ends."""

    q: Float[np.ndarray, "episode time"]  # Q(o_t, a_t)
    v: Float[np.ndarray, "episode time"]  # V(o_t)
    reward: Float[np.ndarray, "episode time"]  # with discount V(o_T) added at the last step of a truncated episode


def doubly_robust(
    target: Target,
    values: ActionValues | None = None,
    fit: Fit = linear_values,
    folds: int = 2,
    told: Model | None = None,
) -> PerEpisode:
    """DR of Jiang and Li: one number for each episode; their mean is the estimate.

    `values` is Q, if it is known; else `fit` estimates it, for each of `folds` parts from the episodes of the others,
    or with 1 fold from all of them. `told`: Q and V along the episodes, if they are known.
    """
    told = model(target, values, fit, folds) if told is None else told
    ratio = target.pad_episodes(target.ratio("dr"), 1.0)
    later = np.zeros(target.logged.episodes)
    for t in reversed(range(ratio.shape[1])):
        later = told.v[:, t] + ratio[:, t] * (told.reward[:, t] + target.discount * later - told.q[:, t])
    return later


def weighted_doubly_robust(
    target: Target, values: ActionValues | None = None, fit: Fit = linear_values, folds: int = 2
) -> PerEpisode:
    """WDR of Thomas and Brunskill: one number for each episode; their mean is the estimate. Options as for DR."""
    told = model(target, values, fit, folds)
    weights = target.weights("wdr")
    before = np.concatenate([np.ones((len(weights), 1)), weights[:, :-1]], axis=1)
    decay = target.discount ** np.arange(weights.shape[1])
    return normalised_sum(weights, decay * (told.reward - told.q)) + normalised_sum(before, decay * told.v)


def model(target: Target, values: ActionValues | None, fit: Fit, folds: int) -> Model:
    """Return Q and V along the episodes, from `values` or from a `fit` to other episodes."""
    logged = target.logged
    q, v, beyond = (np.zeros(logged.transitions) for _ in range(3))
    for judged, known in _split(target, values is None, folds):
        found = fit(target.choose(known)) if values is None else values
        at = judged[logged.numbers]
        part = target if at.all() else target.choose(judged)
        of_actions = found(part.logged.observation, part.logged.time)
        q[at], v[at] = part.at_logged_actions(of_actions), (part.probability * of_actions).sum(1)
        if target.bootstraps:
            following = found(part.logged.next_observation, part.logged.time + 1)
            beyond[at] = (part.next_probability * following).sum(1) * part.logged.truncated
    reward = logged.reward + target.discount * beyond
    return Model(target.pad_episodes(q), target.pad_episodes(v), target.pad_episodes(reward))


def _split(target: Target, fitted: bool, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each fold the episodes it holds, and those that its model is fitted on."""
    count = target.logged.episodes
    if not fitted or folds == 1:
        return [(np.ones(count, bool), np.ones(count, bool))]
    if folds < 1 or folds > count:
        raise ForageError(f"{count} episodes make 1 to {count} folds, not {folds}; folds=1 fits on all of them.")
    fold = np.arange(count) % folds
    return [(fold == part, fold != part) for part in range(folds)]
