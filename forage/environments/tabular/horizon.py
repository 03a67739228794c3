"""The effective horizon of a tabular MDP: the lookahead after which the random policy's values reveal a best action.

Laidlaw, Zhu, Russell, Dragan (2023), "The Effective Horizon Explains Deep RL Performance in Stochastic Environments",
arXiv 2312.08369, section 3. With T steps to an episode,

    Q^1_t            = the action values of the random policy
    Q^{k+1}_t(s, a)  = r(s, a) + discount sum_s' p(s'|s, a) max_b Q^k_{t+1}(s', b)

An MDP is k-QVI-solvable if every policy that is greedy on Q^k is optimal. The number of episodes for one decision then
follows from the gap of Q^k, the smallest advantage of a best action over the others, with returns scaled to [0, 1]:

    H_k = k + log_A (1 / gap_k^2),    the effective horizon is the least of them
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from forage.core.types import ForageError
from forage.environments.tabular.mdp import Tabular
from forage.environments.tabular.values import expected_reward, going_on


class EffectiveHorizon(NamedTuple):
    """The number of steps that one must look ahead."""

    steps: int | None  # the least k for which the MDP is k-QVI-solvable; None: none up to the depth tried
    horizon: float  # the least H_k; infinite where there is none
    horizons: dict[int, float]  # H_k of each k tried
    returns: dict[int, float]  # the worst return of a policy that is greedy on Q^k
    best: float  # the best return there is


def effective_horizon(
    mdp: Tabular, horizon: int | None = None, depth: int = 10, discount: float = 1.0, tolerance: float = 1e-6
) -> EffectiveHorizon:
    """Compute the effective horizon with a lookahead of up to `depth` steps. `horizon` is T if `max_steps` is not set.

    Values are of single precision unless JAX has 64 bits; differences below `tolerance`, relative to the spread between
    the best and the worst return, count as ties.
    """
    steps = horizon or mdp.max_steps
    if steps is None:
        raise ForageError("The effective horizon is that of episodes of so many steps; give horizon=100, say.")
    if depth < 1:
        raise ForageError(f"One looks at least 1 step ahead, not {depth}.")
    steps, live = int(steps), ~np.asarray(mdp.terminal)
    initial = np.asarray(mdp.initial, float)
    reward, onward = (np.asarray(jax.device_get(x), float) for x in (expected_reward(mdp), going_on(mdp)))

    def backup(after: Float[np.ndarray, "time state"]) -> Float[np.ndarray, "time state action"]:
        """r + discount p V at every time, from the values at the time after."""
        return reward + discount * np.einsum("saz,tz->tsa", onward, np.vstack([after[1:], np.zeros_like(after[:1])]))

    def in_turn(choose: Callable[[int, np.ndarray], np.ndarray]) -> Float[np.ndarray, "time state action"]:
        """Return the action values of a policy, the last time first; `choose(time, values)` gives the state's value."""
        values, result = np.zeros(len(live)), []
        for time in reversed(range(steps)):
            found = reward + discount * onward @ values
            result.append(found)
            values = choose(time, found)
        return np.stack(result[::-1])

    best = in_turn(lambda _, found: found.max(-1))
    worst = in_turn(lambda _, found: found.min(-1))
    random = in_turn(lambda _, found: found.mean(-1))
    most = float(initial @ best[0].max(-1))
    spread = max(most - float(initial @ worst[0].min(-1)), 1e-12)
    near = tolerance * spread
    reachable = reachable_states(initial, onward, steps)

    horizons, returns, values = {}, {}, random
    for k in range(1, min(depth, steps) + 1):
        top = values.max(-1, keepdims=True)
        greedy = values >= top - near

        def smallest_value(time: int, found: np.ndarray, greedy: np.ndarray = greedy) -> np.ndarray:
            return np.where(greedy[time], found, np.inf).min(-1)

        returns[k] = float(initial @ in_turn(smallest_value)[0].min(-1, where=greedy[0], initial=np.inf))
        solved = returns[k] >= most - near
        apart = np.where(greedy | ~(reachable & live)[..., None], np.inf, top - values)
        gap = min(float(apart.min()) / spread, 1.0)
        horizons[k] = k + float(np.log(1 / gap**2) / np.log(mdp.num_actions)) if solved else float("inf")
        values = backup(values.max(-1))
    solvable = [k for k, found in horizons.items() if np.isfinite(found)]
    return EffectiveHorizon(min(solvable, default=None), min(horizons.values()), horizons, returns, most)


def reachable_states(
    initial: Float[np.ndarray, " state"], onward: Float[np.ndarray, "state action next"], steps: int
) -> np.ndarray:
    """Return whether a state can be met at each time, `[time, state]`."""
    now, result = initial > 0, []
    for _ in range(steps):
        result.append(now)
        now = (onward[now] > 0).any((0, 1))
    return np.stack(result)
