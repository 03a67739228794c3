"""Importance sampling: logged returns, weighed by the ratio of the target's and the behaviour's probabilities.

With ratios rho_t = product over k <= t of pi(a_k | o_k) / b(a_k | o_k), n episodes and lengths T_i:

    trajectory-wise                 1/n sum_i rho_{T_i - 1}^i sum_t discount^t r_t^i
    per-decision                    1/n sum_i sum_t discount^t rho_t^i r_t^i
    self-normalised trajectory-wise sum_i rho^i G^i / sum_i rho^i
    self-normalised per-decision    sum_t discount^t sum_i rho_t^i r_t^i / sum_i rho_t^i

The first two are unbiased where the behaviour takes every action that the target does. The self-normalised ones are
biased for few episodes, consistent, never beyond the rewards seen, and vary far less.

Each function returns one number for each episode whose mean is the estimate, so that a bootstrap over episodes gives
its interval. For the self-normalised ones, which are no means, it is the estimate plus n times its derivative by the
weight of the episode (the infinitesimal jackknife; Efron, 1982, "The Jackknife, the Bootstrap and Other Resampling
Plans").

Nothing is known beyond the end of a truncated episode and no value stands in for it: its return is what was logged, so
what is judged is the return up to the time limit. An episode's weight stays as it is after its end.

Sources: Precup, Sutton and Singh, 2000, "Eligibility Traces for Off-Policy Policy Evaluation", ICML (the first three);
Thomas, 2015, "Safe Reinforcement Learning", PhD thesis, chapter 3 (self-normalised per-decision, "consistent weighted
per-decision importance sampling").
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from forage.evaluation.off_policy.target import Target

PerEpisode = Float[np.ndarray, " episode"]


def importance_sampling(target: Target) -> PerEpisode:
    """Trajectory-wise: the discounted return of each episode times its whole weight. Unbiased."""
    return target.weights("is")[:, -1] * _returns(target)


def per_decision(target: Target) -> PerEpisode:
    """Per-decision: each reward times the weight of the actions up to it. Unbiased, mostly varies less."""
    return (target.weights("pdis") * _rewards(target)).sum(1)


def self_normalised(target: Target) -> PerEpisode:
    """Trajectory-wise, divided by the sum of the weights instead of the number of episodes."""
    return normalised_sum(target.weights("wis")[:, -1:], _returns(target)[:, None])


def self_normalised_per_decision(target: Target) -> PerEpisode:
    """Per-decision, each step's weights divided by their sum over episodes."""
    return normalised_sum(target.weights("wpdis"), _rewards(target))


def normalised_sum(weights: Float[np.ndarray, "episode time"], values: Float[np.ndarray, "episode time"]) -> PerEpisode:
    """Return a number for each episode; their mean is sum_t (sum_i w_it x_it / sum_i w_it).

        m + n sum_t w_it (x_it - m_t) / sum_j w_jt,        m_t the weighted mean at t, m = sum_t m_t

    A step without any positive weight counts as 0: no episode took the target's actions there.
    """
    total = weights.sum(0)
    share = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    means = (share * values).sum(0)
    return means.sum() + len(weights) * (share * (values - means)).sum(1)


def _rewards(target: Target) -> Float[np.ndarray, "episode time"]:
    return target.pad_episodes(target.decay * target.logged.reward)


def _returns(target: Target) -> PerEpisode:
    return target.per_episode(target.decay * target.logged.reward)
