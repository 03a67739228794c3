"""Advantages of a group of answers to one prompt, and the treatment of groups without a signal.

Rewards are `group answer`: row p holds the rewards of the answers to prompt p. Advantages have the same shape; below,
mean and deviation are of the row unless it says batch. Deviations divide by n - 1, as in TRL and verl. Some answers may
be lost: what is not `there` counts in no mean, no deviation and no n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from forage.core.types import ForageError
from forage.ops.tokens.masks import check_name

Group = Float[Array, "group answer"]
There = Bool[Array, "group answer"] | None
Scalar = float | Float[Array, ""]


def no_baseline(reward: Group, there: There = None) -> Group:
    """Return the reward itself: the score function without a baseline."""
    return reward


def grpo(reward: Group, epsilon: float = 1e-4, there: There = None) -> Group:
    """Compute (r - mean) / (deviation + epsilon).

    Source: Shao et al., 2024, "DeepSeekMath", arXiv:2402.03300, as in TRL 1.16's `grpo_trainer.py`, from which epsilon
    is; the paper's own pages could not be looked up.
    """
    _at_least(reward, 2, "grpo")
    deviation = jnp.std(reward, axis=-1, keepdims=True, ddof=1, where=there)
    return dr_grpo(reward, there) / (deviation + epsilon)


def dr_grpo(reward: Group, there: There = None) -> Group:
    """Compute r - mean. Without the deviation, prompts that are nearly always or nearly never solved count no more.

    Source: Liu et al., 2025, "Understanding R1-Zero-Like Training: A Critical Perspective", arXiv:2503.20783, as in TRL
    1.16's `grpo_trainer.py` (`scale_rewards="none"`); the paper's own pages could not be looked up.
    """
    return reward - jnp.mean(reward, axis=-1, keepdims=True, where=there)


def rloo(reward: Group, there: There = None) -> Group:
    """Compute r_i minus the mean of the other answers' rewards, which is (r_i - mean) n / (n - 1).

    Source: Ahmadian et al., 2024, "Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human
    Feedback in LLMs", arXiv:2402.14740, as in TRL 1.16's `rloo_trainer.py`; the paper's own pages could not be looked
    up.
    """
    _at_least(reward, 2, "rloo")
    if there is not None:
        number = jnp.sum(there, axis=-1, keepdims=True)
        return dr_grpo(reward, there) * (number / (number - 1))
    count = reward.shape[-1]
    return (reward - jnp.mean(reward, axis=-1, keepdims=True)) * (count / (count - 1))


def remax(reward: Group, baseline: Float[Array, " group"]) -> Group:
    """Compute r - baseline, the reward of the greedy answer to the same prompt.

    Source: Li et al., 2023, "ReMax", arXiv:2310.10505, as in verl's `compute_remax_outcome_advantage`; the paper's own
    pages could not be looked up.
    """
    return reward - baseline[:, None]


def reinforce_plus_plus(reward: Group, epsilon: float = 1e-4, there: There = None) -> Group:
    """Compute (r - batch mean) / (batch deviation + epsilon): one normalisation for all prompts.

    The method's KL penalty belongs to the reward (`divergence.kl_in_reward`), before this, and its loss is `clip`.

    Source: Hu, 2025, "REINFORCE++", arXiv:2501.03262, as TRL's paper index describes it; the paper's own pages could
    not be looked up.
    """
    _at_least(reward, 2, "reinforce++", batch=True)
    return (reward - jnp.mean(reward, where=there)) / (jnp.std(reward, ddof=1, where=there) + epsilon)


def reinforce_plus_plus_baseline(reward: Group, epsilon: float = 1e-4, there: There = None) -> Group:
    """Compute (a - batch mean of a) / (batch deviation of a + epsilon) with a = r - mean.

    Source: Hu, 2025, arXiv:2501.03262, as in verl's `compute_reinforce_plus_plus_baseline_outcome_advantage`, which
    weighs answers by their lengths where this weighs all the same.
    """
    return reinforce_plus_plus(dr_grpo(reward, there), epsilon, there)


def lite_ppo(reward: Group, epsilon: float = 1e-4, there: There = None) -> Group:
    """Compute (r - mean) / (batch deviation + epsilon), which with `token-mean` is Lite PPO.

    Source: Liu et al., 2025, "Part I: Tricks or Traps? A Deep Dive into RL for LLM Reasoning", arXiv:2508.08221, as in
    TRL's paper index and `grpo_trainer.py` (`scale_rewards="batch"`); the paper's own pages could not be looked
    up.
    """
    _at_least(reward, 2, "lite-ppo", batch=True)
    return dr_grpo(reward, there) / (jnp.std(reward, ddof=1, where=there) + epsilon)


def max_rl(reward: Group, there: There = None) -> Group:
    """Compute (r - mean) / mean, and 0 where the mean is 0: prompts count by the inverse of how often they are solved.

    Rewards must not be negative. With rewards of 0 and 1 it climbs the logarithm of the rate of success, as far as so
    many answers tell of it.

    Source: Tajwar et al., 2026, "Maximum Likelihood Reinforcement Learning", arXiv:2602.02710, as a page about a
    trainer for TRL describes it ("p-normalisation"); the paper's own pages could not be looked up.
    """
    mean = jnp.mean(reward, axis=-1, keepdims=True, where=there)
    return jnp.where(mean > 0, (reward - mean) / jnp.where(mean > 0, mean, 1.0), 0.0)


def pass_at_k(reward: Group, k: int = 4, epsilon: float = 1e-6) -> Group:
    """Compute the mean advantage of an answer over all sets of k answers that it is in, each rewarded by its best.

    With n answers of which c are right (reward above 1/2) and w = n - c wrong,

        rho       = 1 - C(w, k) / C(n, k)         the share of sets with a right answer
        sigma     = sqrt(rho (1 - rho))
        A_right   = (1 - rho) / (sigma + epsilon)
        A_wrong   = (1 - rho - C(w - 1, k - 1) / C(n - 1, k - 1)) / (sigma + epsilon)

    Source: Chen et al., 2025, "Pass@k Training for Adaptively Balancing Exploration and Exploitation of Large Reasoning
    Models", arXiv:2508.10751, as in the authors' `passk_adv.py`; the paper's own pages could not be looked up.
    """
    count = reward.shape[-1]
    _sets(count, k, "pass@k")
    right = reward > 0.5
    wrong = count - jnp.sum(right, axis=-1, keepdims=True)
    failing = _share(wrong, count, k)
    rho = 1.0 - failing
    deviation = jnp.sqrt(rho * failing) + epsilon
    others = _share(wrong - 1, count - 1, k - 1)
    advantage = jnp.where(right, failing, failing - others) / deviation
    # Where all sets are alike nothing is to be learned, and the deviation is 0.
    return jnp.where((failing == 0) | (failing == 1), 0.0, advantage)


def max_at_k(reward: Group, k: int = 4, leave_out: bool = False) -> Group:
    """Compute weights whose policy gradient is an unbiased one of the expected best of k answers.

    A_i = n / C(n, k) times the sum over all sets S of k answers with answer i of

        max S                 as it stands
        max S - max (S - i)   with `leave_out`: the best of the others does not depend on answer i, so it is a baseline

    so that the mean over answers of A_i grad log pi(answer i) is the gradient. Sorted with r_(1) the least, these are

        A_(i) = n / C(n, k) (r_(i) C(i - 1, k - 1) + sum_{j > i} r_(j) C(j - 2, k - 2))
        A_(i) = n / C(n, k) sum_{j < i} (r_(i) - r_(j)) C(j - 1, k - 2)

    with k = 1 both are the reward itself. Rewards may be any numbers.

    Sources: Bagirov et al., 2025, "The Best of N Worlds: Aligning Reinforcement Learning with Best-of-N Sampling via
    max@k Optimisation", arXiv:2510.23393; the baseline is that of Walder and Karkhanis, 2025, "Pass@K Policy
    Optimization", arXiv:2505.15201. Of both only abstracts could be looked up; the formulas are derived here, and the
    tests compare them with sums over all sets.
    """
    count = reward.shape[-1]
    _sets(count, k, "max@k")
    if k == 1:
        return reward
    order = jnp.argsort(reward, axis=-1)
    ordered = jnp.take_along_axis(reward, order, axis=-1)
    found = ordered @ jnp.asarray(_best_of(count, k, leave_out), reward.dtype).T
    return jnp.take_along_axis(found, jnp.argsort(order, axis=-1), axis=-1)


def _best_of(count: int, k: int, leave_out: bool) -> np.ndarray:
    """Return the matrix that makes advantages of sorted rewards, for k above 1."""
    matrix = np.zeros((count, count))
    for i in range(1, count + 1):
        matrix[i - 1, i - 1] = math.comb(i - 1, k - 1)
        for j in range(1, count + 1):
            if leave_out and j < i:
                matrix[i - 1, j - 1] = -math.comb(j - 1, k - 2)
            elif not leave_out and j > i:
                matrix[i - 1, j - 1] = math.comb(j - 2, k - 2)
    return matrix * (count / math.comb(count, k))


ADVANTAGES: dict[str, Callable[..., Group]] = {
    "none": no_baseline,
    "grpo": grpo,
    "dr-grpo": dr_grpo,
    "rloo": rloo,
    "remax": remax,
    "reinforce++": reinforce_plus_plus,
    "reinforce++-baseline": reinforce_plus_plus_baseline,
    "lite-ppo": lite_ppo,
    "max-rl": max_rl,
    "pass@k": pass_at_k,
    "max@k": max_at_k,
}
"""The advantages by name."""


def group_advantage(name: str, reward: Group, **numbers: Any) -> Group:
    """Return the advantage of that name, without a gradient; keywords go to its function."""
    check_name("advantage of groups", name, ADVANTAGES)
    return jax.lax.stop_gradient(ADVANTAGES[name](reward, **numbers))


WHOLE = ("remax", "pass@k", "max@k")
"""The advantages that are of whole groups: a group of which an answer was lost has none."""


def advantage_of_those_there(
    name: str, reward: Group, there: Bool[Array, "group answer"], **numbers: Any
) -> tuple[Group, Group]:
    """Return the advantage of that name where answers may be lost, and the weight of each answer, 0 or 1.

    A lost answer has the weight 0. So have all of a group with fewer than two others, as nothing is there to compare,
    and of a group that is not whole where the advantage is of whole groups.
    """
    if name in WHOLE:
        counts = jnp.broadcast_to(there.all(-1, keepdims=True), there.shape)
    else:
        counts = there & (jnp.sum(there, axis=-1, keepdims=True) > 1)
        numbers["there"] = counts
    found = group_advantage(name, jnp.where(there, reward, 0.0), **numbers)
    return jnp.where(counts, found, 0.0), counts.astype(reward.dtype)


GROUPS = ("keep", "drop")
"""The rules of `group_weight`."""


def all_alike(reward: Group, tolerance: float = 1e-8) -> Bool[Array, " group"]:
    """Return the mask of groups whose rewards are all equal: their advantages are 0, or nearly."""
    return jnp.max(reward, axis=-1) - jnp.min(reward, axis=-1) <= tolerance


def group_weight(reward: Group, rule: str = "drop") -> Group:
    """Return the weight of each answer: 1, but with `drop` 0 in a group whose answers all have the same reward.

    A dropped group's tokens should leave the mask, too, where the loss is a mean over tokens. DAPO draws other prompts
    until none is dropped, which is for those who sample.

    Source: Yu et al., 2025, "DAPO", arXiv:2503.14476 (dynamic sampling, whose pages could not be looked up).
    """
    check_name("rule for groups of one reward", rule, GROUPS)
    drop = all_alike(reward) if rule == "drop" else jnp.zeros(reward.shape[0], bool)
    return jnp.broadcast_to(jnp.where(drop, 0.0, 1.0)[:, None], reward.shape).astype(reward.dtype)


def _share(chosen: Array, count: int, k: int) -> Array:
    """Return C(chosen, k) / C(count, k), exactly 0 where fewer than k are chosen."""
    factors = jnp.stack([(chosen - i) / (count - i) for i in range(k)]) if k else jnp.ones((1, *chosen.shape))
    return jnp.where(chosen >= k, jnp.prod(factors, axis=0), 0.0)


def _sets(count: int, k: int, name: str) -> None:
    """Raise unless sets of k answers can be drawn from `count`."""
    if not 1 <= k <= count:
        raise ForageError(f"{name} takes sets of k answers from a group of {count}; k is {k}.")


def _at_least(reward: Group, least: int, name: str, batch: bool = False) -> None:
    """Raise if a group, or the batch, has too few answers for a deviation or for a leave-one-out mean."""
    if (reward.size if batch else reward.shape[-1]) < least:
        where = "a batch" if batch else "each group"
        raise ForageError(f"The advantage {name!r} needs at least {least} answers in {where}.")
