"""Returns of the episodes of a data set: from each step on, of complete episodes, and the highest ones."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from forage.core.types import ForageError, ReturnRule


def returns_to_go(
    reward: Float[np.ndarray, " transition"],
    terminated: Bool[np.ndarray, " transition"],
    truncated: Bool[np.ndarray, " transition"],
    discount: float,
    rule: ReturnRule = ReturnRule(),  # noqa: B008
) -> Float[np.ndarray, " transition"]:
    """Compute the discounted sum of rewards from each transition to the end of its episode.

    Nothing follows a truncation or the end of the data, unless the rule says that the last reward goes on for ever,
    r / (1 - discount). An episode whose every reward is the rule's `failure_reward` f has f / (1 - discount) at each
    step.
    """
    cut = truncated.copy()
    cut[-1:] |= ~terminated[-1:]  # the recording's end cuts the episode under way
    forever = rule.failure_reward is not None or (rule.endless and cut.any())
    if discount >= 1 and forever:
        raise ForageError(
            f"Rewards that go on for ever have no bounded return at a discount of {discount:g}; take one below 1."
        )
    result, total = np.empty(len(reward)), 0.0
    for i in range(len(reward) - 1, -1, -1):
        if terminated[i]:
            total = 0.0
        elif cut[i]:
            total = reward[i] / (1 - discount) if rule.endless else 0.0
        result[i] = total = reward[i] + discount * total
    if rule.failure_reward is not None and len(reward):
        ended = terminated | truncated
        episode = np.concatenate([[0], np.cumsum(ended)[:-1]])
        failed = np.bincount(episode, ~np.isclose(reward, rule.failure_reward)) == 0
        result[failed[episode]] = rule.failure_reward / (1 - discount)
    return result


def sums_to_go(
    reward: Float[np.ndarray, " transition"], ended: Bool[np.ndarray, " transition"], discount: float = 1.0
) -> Float[np.ndarray, " transition"]:
    """Return the discounted sum of rewards from each transition to the last that the data have of its episode."""
    result, total = np.empty(len(reward)), 0.0
    for i in range(len(reward) - 1, -1, -1):
        result[i] = total = reward[i] + discount * (0.0 if ended[i] else total)
    return result


def times(ended: Bool[np.ndarray, " transition"]) -> Int[np.ndarray, " transition"]:
    """Return the number of earlier transitions in the episode of each."""
    index = np.arange(len(ended))
    begins = np.concatenate([[True], ended[:-1]])
    return index - np.maximum.accumulate(np.where(begins, index, 0))


def are_whole(
    terminated: Bool[np.ndarray, " episode"],
    length: Int[np.ndarray, " episode"],
    horizon: int | None,
    cut: Bool[np.ndarray, " episode"] | None = None,
) -> Bool[np.ndarray, " episode"]:
    """Return the mask of episodes recorded to their end, so that their return is known.

    `terminated`: whether the last transition of each terminates. `cut`: whether the recording stopped within each, if
    the data contain that. Otherwise an episode is whole if it terminates or has as many steps as the time limit allows;
    without a `horizon` every truncation counts as the environment's own.
    """
    if cut is not None:
        return ~cut
    return terminated | (length >= (horizon or 0))


def best_episodes(
    reward: Float[np.ndarray, " transition"],
    ended: Bool[np.ndarray, " transition"],
    share: float,
    whole: Bool[np.ndarray, " episode"] | None = None,
) -> Int[np.ndarray, " kept"]:
    """Return the transitions of the share of whole episodes (`None`: all are) with the highest sums of rewards.

    At least one episode is kept, and of equal ones the earlier. Episodes that are not whole are left out.
    """
    episode = np.concatenate([[0], np.cumsum(ended)[:-1]])
    whole = np.ones(episode[-1] + 1, bool) if whole is None else whole
    totals = np.where(whole, np.bincount(episode, weights=reward), -np.inf)
    kept = np.argsort(-totals, kind="stable")[: max(1, round(share * whole.sum()))]
    return np.flatnonzero(np.isin(episode, kept))
