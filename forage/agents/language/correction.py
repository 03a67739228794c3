"""The mismatch of sampler and learner: measured, and corrected by importance sampling.

A server that stands in as sampler computes other numbers than the learner, even with the same weights, and its weights
may be older. With r = pi_old / pi_sampler, of a token or of a whole answer, the loss of each token is weighed by

    token-truncate, sequence-truncate   min(max(r, floor), ceiling)                TIS
    token-mask, sequence-mask           r where floor <= r <= ceiling, else 0      MIS, IcePop
    uncorrected                         1: the mismatch is measured alone

where pi_old is the learner's policy before its first update on the answers, and the ratio of new policy to old is
clipped as ever: the objective of Yao et al. (2025), "Your Efficient RL Framework Secretly Brings You Off-Policy RL
Training", fengyao.notion.site/off-policy-rl, as in verl#2953 and TRL#3867; of whole answers and masked as in TRL#4530
and #4732, whose default is the mask of whole answers up to 3. TRL and this leave masked tokens in the number that a
mean divides by, where slime#657 takes them out. A turn is an answer. The sources' own pages could not be looked up.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.agents.language.base import AnswerRows
from forage.core.ports import Metrics
from forage.core.types import GONE, Batch, ForageError
from forage.ops.tokens.masks import check_name, token_mean
from forage.ops.tokens.off_policy import CORRECTIONS, sampler_weight

RULES = (*CORRECTIONS, "uncorrected")
"""Values of the option `correction`."""


def check_correction(agent: Any, rule: str, floor: Any, ceiling: Any) -> None:
    """Raise `ForageError` for an unknown rule, bounds in the wrong order or an agent without corrections."""
    check_name("correction of the sampler", rule, RULES)
    if not agent.corrects_sampler:
        raise ForageError(
            f"{type(agent).__name__} has a loss that no correction of the sampler is known for; leave out the "
            f"correction, or take an agent that sums losses of tokens, such as grpo, dr-grpo, dapo or gspo."
        )
    if not floor < ceiling:
        raise ForageError(
            f"A correction lies between its floor and its ceiling, and {floor:g} is not below {ceiling:g}."
        )


def lost_answers(batch: Batch) -> Bool[Array, " env"]:
    """Return a mask of the conversations that were lost: the sampler lost an answer, or it has no reward."""
    return (batch.experience.source == GONE).any(0)


def correction_weights(
    old: Float[Array, "row new"],
    rows: AnswerRows,
    drawn: Bool[Array, "row new"],
    rule: str,
    floor: Any,
    ceiling: Any,
) -> tuple[Float[Array, "row new"], Metrics]:
    """Return the weight of each token, and metrics of the mismatch.

    `sampler_kl` estimates KL(sampler || policy) from the sampler's tokens by r - 1 - log r (k3 with the ratio that is
    unbiased there), `sampler_weight` is the mean weight, and `sampler_cut` the share of the tokens whose ratio lies
    outside of the bounds. What was not `drawn` newly has the weight 1.
    """
    log_ratio = jax.lax.stop_gradient(jnp.where(drawn, old - rows.sampled, 0.0))
    one = jnp.ones_like(log_ratio)
    weight, cut = one, jnp.zeros_like(log_ratio)
    if rule != "uncorrected":
        weight = sampler_weight(old, rows.sampled, rows.wrote, rule, floor, ceiling)
        ratio = sampler_weight(old, rows.sampled, rows.wrote, f"{rule.split('-')[0]}-truncate", 0.0, jnp.inf)
        cut = ((ratio < floor) | (ratio > ceiling)).astype(log_ratio.dtype)
    return jnp.where(drawn, weight, one), {
        "sampler_kl": token_mean(jnp.expm1(log_ratio) - log_ratio, drawn),
        "sampler_weight": token_mean(weight, drawn),
        "sampler_cut": token_mean(cut, drawn),
    }
