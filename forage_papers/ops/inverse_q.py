"""The objective of inverse soft Q-learning.

Garg, Chakraborty, Cundy, Song, Ermon (2021), "IQ-Learn: Inverse soft-Q Learning for Imitation", arXiv 2106.12142. Of
the rewards r = Q(s, a) - discount (1 - terminated) V(s') that Q implies, those of the demonstrations are to be great,
all values small, and, by the chi-squared divergence, no reward far from 0. What is made small is

    -mean_demonstrations r + mean (V(s) - discount (1 - terminated) V(s')) + mean r^2 / (4 strength)

The second mean stands for (1 - discount) E V(s_0), the value at the beginnings of episodes. It is over all states, of
demonstrations and of the agent's own (`value`), or over those of demonstrations alone (`value_expert`), for which no
environment is needed. The third is over demonstrations and, where asked, the agent's own transitions, by the actions
taken there.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.ops.rows import weighted_mean

OBJECTIVES = ("value", "value_expert")


def inverse_q(
    q: Float[Array, " row"],
    value: Float[Array, " row"],
    after: Float[Array, " row"],
    shown: int,
    counts: Float[Array, " row"],
    objective: str,
    strength: float | Array,
    own: bool,
) -> Float[Array, ""]:
    """Compute the objective over rows, of which the first `shown` are demonstrations.

    `q`: of the actions taken; `value`: soft, of the observations; `after`: discounted, of what follows, 0 where that is
    nothing; `counts`: 0 for rows that there is nothing to learn from. `own`: the rewards of the agent's own transitions
    are kept near 0 as well.
    """
    reward, drop = q - after, value - after
    small = weighted_mean(drop, counts) if objective == "value" else drop[:shown].mean()
    divergence = weighted_mean(reward**2, counts) if own else jnp.mean(reward[:shown] ** 2)
    return small - reward[:shown].mean() + divergence / (4 * strength)
