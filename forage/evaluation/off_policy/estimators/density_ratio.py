"""Ratios of visits: each transition weighed by the target policy's frequency of visits relative to the log's.

Weights of whole pasts multiply with the number of steps; ratios of visits do not. Both methods here work with a number
for each observation (or, DualDICE, with linear features), and without a bound on the number of steps.

Sources: Xie, Ma and Wang, 2019, "Towards Optimal Off-Policy Evaluation for Reinforcement Learning with Marginalized
Importance Sampling", arXiv 1906.03393; Nachum, Chow, Dai and Li, 2019, "DualDICE: Behavior-Agnostic Estimation of
Discounted Stationary Distribution Corrections", arXiv 1906.04733.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from forage.core.types import ForageError
from forage.evaluation.off_policy.estimators.importance import PerEpisode
from forage.evaluation.off_policy.estimators.linear import RIDGE, Features, design, influence, solve
from forage.evaluation.off_policy.target import Target


def marginalised_importance(target: Target) -> PerEpisode:
    """Marginalised importance sampling (Xie, Ma and Wang, 2019) with a table of observations.

        d_0(s) = n_{0,s} / n,    d_{t+1}(s') = sum_s P_t(s'|s) d_t(s),    J = sum_t discount^t sum_s d_t(s) r_t(s)
        r_t(s)    = 1 / n_{t,s} sum over i with s_t^i = s of ratio_t^i r_t^i
        P_t(s'|s) = 1 / n_{t,s} sum over i with s_t^i = s of ratio_t^i [s_{t+1}^i = s' and the episode goes on]

    with one-step ratios pi(a|s) / b(a|s). Consistent; its error grows with a power of the number of steps, not
    exponentially. A truncated episode counts as far as it was logged.

    Returned is one number for each episode, the estimate plus n times its derivative by the episode's weight:

        V_0(s_0) + sum_t discount^t n d_t(s_t) / n_{t,s_t} (ratio_t (r_t + discount V_{t+1}(s_{t+1})) - V_t(s_t))

    where V_t are the values in the estimated model.
    """
    logged, ratio = target.logged, target.ratio("mis")
    states, following, count = target.states("mis")
    time, episodes = logged.time, logged.episodes
    on = ~(logged.terminated | logged.truncated)
    steps = int(logged.lengths.max())
    visits = np.zeros((steps, count))
    np.add.at(visits, (time, states), 1.0)
    order = np.argsort(time, kind="stable")
    edges = np.searchsorted(time[order], np.arange(steps + 1))
    at = [order[edges[t] : edges[t + 1]] for t in range(steps)]

    share, values = np.zeros((steps, count)), np.zeros((steps + 1, count))
    share[0] = visits[0] / episodes
    for t in range(steps - 1):
        now = at[t][on[at[t]]]
        flow = share[t, states[now]] / visits[t, states[now]] * ratio[now]
        share[t + 1] = np.bincount(following[now], flow, count)
    gained = np.zeros(logged.transitions)  # ratio (r + discount V_{t+1})
    for t in reversed(range(steps)):
        now = at[t]
        later = np.where(on[now], values[t + 1, following[now]], 0.0)
        gained[now] = ratio[now] * (logged.reward[now] + target.discount * later)
        total = np.bincount(states[now], gained[now], count)
        values[t] = np.divide(total, visits[t], out=np.zeros(count), where=visits[t] > 0)
    weight = episodes * share[time, states] / visits[time, states]
    errors = target.decay * weight * (gained - values[time, states])
    return values[0, states[logged.first]] + target.per_episode(errors)


def dualdice(target: Target, features: Features | None = None, ridge: float = RIDGE) -> PerEpisode:
    """DualDICE (Nachum et al., 2019) with linear nu and zeta and f(x) = x^2 / 2, in closed form.

        min over nu, max over zeta of   E_D[(nu(s,a) - discount nu(s',a')) zeta(s,a) - zeta(s,a)^2 / 2]
                                        - (1 - discount) E[nu(s_0, a_0)],    a' ~ pi(s'), a_0 ~ pi(s_0)
        J = E_D[zeta r] / (1 - discount)

    At the optimum zeta is the ratio of the target's discounted visits to the logged ones. With the sums of `linear`,
    (C - B)' z = n (1 - discount) E[phi_0]. The estimate is then that of linear fitted Q evaluation, number for number
    (Uehara, Huang and Jiang, 2020, "Minimax Weight and Q-Function Learning for Off-Policy Evaluation",
    arXiv 1910.12809); what it adds are the ratios, `ratios`. Behaviour probabilities are not needed.
    Raises `ForageError` with a horizon, or discount 1: the visits of endless episodes have no sum.
    """
    _check(target, "dualdice")
    of = design(target, features, ridge, "dualdice")
    system = of.c_matrix - of.b_matrix
    dual = solve(system.T, of.first.mean(0).reshape(-1), "dualdice")
    theta = solve(system, of.c_vector, "dualdice")
    return influence(target, of, theta[None], dual[None])


def ratios(target: Target, features: Features | None = None, ridge: float = RIDGE) -> Float[np.ndarray, " transition"]:
    """zeta of `dualdice` at each transition: the target's frequency of visits relative to the log's.

        zeta(s, a) = (1 - discount) sum over t of discount^t Pr(s_t = s, a_t = a under pi) / share of (s, a) in the log

    Their mean is 1 where no episode terminates, else less: the visits stop at the end.
    """
    _check(target, "dualdice")
    of = design(target, features, ridge, "dualdice")
    z = solve((of.c_matrix - of.b_matrix).T, of.first.mean(0).reshape(-1), "dualdice")
    of_actions = of.x @ z.reshape(target.actions, -1).T
    return (1 - target.discount) * target.logged.transitions * target.at_logged_actions(of_actions)


def _check(target: Target, name: str) -> None:
    if target.horizon is not None:
        raise ForageError(f"{name} counts visits without a limit, so it knows no horizon; fqe, mis and dr do.")
    if target.discount >= 1:
        raise ForageError(f"{name} needs a discount below 1, such as 0.99; mis and pdis work with discount 1.")
