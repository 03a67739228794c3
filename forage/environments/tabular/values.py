"""Exact solutions of a tabular MDP: values, best policies, occupancies, gain and bias, by linear algebra.

All are functions of arrays: they can be jitted, and mapped over a batch of random MDPs. A policy is an array of
probabilities `[state, action]`. A terminal state has value zero. Single precision gives about five digits; with
`jax.enable_x64` they are as exact as the arrays.

Source: Puterman (1994), "Markov Decision Processes", chapters 4, 6 and 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from forage.environments.tabular.mdp import Tabular

Policy = Float[Array, "state action"]
Values = Float[Array, " state"]
ActionValues = Float[Array, "state action"]


class Solution(NamedTuple):
    """A best policy and its values."""

    policy: Policy
    values: Values
    action_values: ActionValues


class Gain(NamedTuple):
    """`gain`: the long-run reward per step. `bias[s]`: the total difference made by starting in s, zero on average."""

    gain: Float[Array, ""]
    bias: Values


def uniform_policy(mdp: Tabular) -> Policy:
    """Return the uniform policy."""
    return jnp.full(mdp.transition.shape[:2], 1 / mdp.num_actions)


def deterministic(mdp: Tabular, actions: Int[Array, " state"]) -> Policy:
    """Return the policy that takes `actions[s]` in state s."""
    return jax.nn.one_hot(jnp.asarray(actions), mdp.num_actions)


def expected_reward(mdp: Tabular) -> ActionValues:
    """r(s, a) = sum over s' of p(s' | s, a) r(s, a, s'); zero in terminal states."""
    reward = (mdp.transition * mdp.reward).sum(-1) if mdp.reward.ndim == 3 else mdp.reward
    return jnp.where(mdp.terminal[:, None], 0.0, reward)


def going_on(mdp: Tabular) -> Float[Array, "state action next"]:
    """Return the transition probabilities without the steps that end the episode."""
    live = ~mdp.terminal
    return mdp.transition * live[:, None, None] * live


def action_values(mdp: Tabular, values: Values, discount: float) -> ActionValues:
    """Q(s, a) = r(s, a) + discount * sum over s' of p(s' | s, a) V(s')."""
    return expected_reward(mdp) + discount * going_on(mdp) @ values


def policy_values(mdp: Tabular, policy: Policy, discount: float) -> Values:
    """V = (I - discount P)^-1 r, for the P and r of the policy. `discount` 1 works if every episode surely ends."""
    matrix = jnp.eye(mdp.num_states) - discount * _policy_mean(policy, going_on(mdp))
    return jnp.linalg.solve(matrix, _policy_mean(policy, expected_reward(mdp)))


def expected_return(mdp: Tabular, policy: Policy, discount: float) -> Float[Array, ""]:
    """Return the policy's discounted return from the first state on, without the time limit."""
    return mdp.initial @ policy_values(mdp, policy, discount)


def occupancy(mdp: Tabular, policy: Policy, discount: float) -> Values:
    """d(s) = sum over t of discount^t Pr(S_t = s), of one episode; 0 for terminal states, which have no actions.

    With it the return is `(occupancy[:, None] * policy * expected_reward).sum()`. It sums to `1 / (1 - discount)` if no
    episode ends; for `discount` 1 it is the number of visits.
    """
    return jnp.linalg.solve((jnp.eye(mdp.num_states) - discount * _policy_mean(policy, going_on(mdp))).T, mdp.initial)


def optimal(mdp: Tabular, discount: float) -> Solution:
    """Return the best policy for a discount below 1, by policy iteration; of equally good actions the first that was
    found.

    `discount` 1 works where every policy comes to an end; `finite_horizon` has no such condition.
    """

    def evaluate(policy: Policy) -> tuple[Values, ActionValues]:
        values = policy_values(mdp, policy, discount)
        return values, action_values(mdp, values, discount)

    policy = _policy_iteration(mdp, evaluate)
    return Solution(policy, *evaluate(policy))


def finite_horizon(
    mdp: Tabular, horizon: int, discount: float = 1.0
) -> tuple[Float[Array, "time state"], Int[Array, "time state"]]:
    """Backward induction: the best values and actions at each of `horizon` steps, the first one first.

    `values[0]` is the most that can be had from each state in `horizon` steps, `initial @ values[0]` the best return.
    """

    def backup(values: Values, _: None) -> tuple[Values, tuple[Values, Int[Array, " state"]]]:
        found = action_values(mdp, values, discount)
        return found.max(-1), (found.max(-1), found.argmax(-1))

    return jax.lax.scan(backup, jnp.zeros(mdp.num_states), None, length=horizon, reverse=True)[1]


def finite_horizon_return(mdp: Tabular, policy: Policy, horizon: int, discount: float = 1.0) -> Float[Array, ""]:
    """Return the policy's return from the first state on, within `horizon` steps."""

    def backup(_: int, values: Values) -> Values:
        return _policy_mean(policy, action_values(mdp, values, discount))

    return mdp.initial @ jax.lax.fori_loop(0, horizon, backup, jnp.zeros(mdp.num_states))


def restarting(mdp: Tabular) -> Float[Array, "state action next"]:
    """Return the transition probabilities between decisions, with each end followed by the start of a new episode."""
    on = going_on(mdp)
    return on + (1 - on.sum(-1))[..., None] * mdp.initial


def stationary(mdp: Tabular, policy: Policy) -> Values:
    """Return the share of decisions that are made in each state in the long run, episode after episode.

    For a policy under which some state is always returned to; where there are several such classes it is undefined.
    """
    kept = _policy_mean(policy, restarting(mdp))
    count = mdp.num_states
    return jnp.linalg.solve((jnp.eye(count) - kept + jnp.ones((count, count))).T, jnp.ones(count))


def gain_and_bias(mdp: Tabular, policy: Policy) -> Gain:
    """g = d r and (I - P + 1 d) h = r - g, for the stationary d: the average-reward values of a policy."""
    kept, reward, share = (
        _policy_mean(policy, restarting(mdp)),
        _policy_mean(policy, expected_reward(mdp)),
        stationary(mdp, policy),
    )
    gain = share @ reward
    return Gain(gain, jnp.linalg.solve(jnp.eye(mdp.num_states) - kept + share, reward - gain))


def optimal_gain(mdp: Tabular) -> tuple[Policy, Gain]:
    """Return the policy with the most long-run reward per step, by policy iteration; for one recurrent class."""

    def evaluate(policy: Policy) -> tuple[Values, ActionValues]:
        bias = gain_and_bias(mdp, policy).bias
        return bias, expected_reward(mdp) + restarting(mdp) @ bias

    policy = _policy_iteration(mdp, evaluate)
    return policy, gain_and_bias(mdp, policy)


def _policy_mean(policy: Policy, of_actions: Float[Array, "state action *rest"]) -> Float[Array, "state *rest"]:
    """Return the mean over the policy's actions."""
    return jnp.einsum("sa,sa...->s...", policy, of_actions)


def _policy_iteration(mdp: Tabular, evaluate: Callable[[Policy], tuple[Values, ActionValues]]) -> Policy:
    """Improve a policy until no action is better than its own by more than rounding."""

    def improve(carry: tuple[Policy, Array, Array]) -> tuple[Policy, Array, Array]:
        policy, _, rounds = carry
        _, found = evaluate(policy)
        own = (policy * found).sum(-1)
        better = found.max(-1) > own + 1e-5 * jnp.maximum(1.0, jnp.abs(own))
        new = jnp.where(better[:, None], jax.nn.one_hot(found.argmax(-1), mdp.num_actions), policy)
        return new, better.any(), rounds + 1

    first = deterministic(mdp, expected_reward(mdp).argmax(-1))
    # Each round is strictly better, so it ends; the limit is for rounding, which may make two policies take turns.
    carry = (first, jnp.ones((), bool), jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(lambda carry: carry[1] & (carry[2] < 200), improve, carry)[0]
