"""Dropout Q-functions: two critics with dropout in place of REDQ's ten.

Hiraoka, Imagawa, Hashimoto, Onishi, Tsuruoka (2022), "Dropout Q-Functions for Doubly Efficient Reinforcement Learning",
arXiv 2110.02034. Soft actor-critic whose critics have dropout and then layer normalisation before each activation, also
in their targets and where the policy climbs them (algorithm 2). With G updates of the critics for each step taken and
one of the policy,

    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) (min_j Q'_j(s', a') - alpha log pi(a'|s')))^2
    actor     alpha log pi(b|s) - mean_i Q_i(s, b)
"""

from __future__ import annotations

from typing import ClassVar

import equinox

from forage.agents.actor_critic.sac import SAC


class DroQ(SAC):
    """SAC with dropout and layer normalisation in its critics (Hiraoka et al., 2022, arXiv 2110.02034).

    The share that is dropped matters: the authors' README has 0.01 in all four environments of one of their two
    programs, and from 0.0001 (Hopper) to 0.1 (Humanoid) in the other. Their runs begin to learn after 5,000 steps, and
    aim at the entropies that REDQ's do. In both programs weights begin as in REDQ's, wider than here
    (`--first-weights glorot`), and layer normalisation adds 1e-5 to variances, here 1e-6; the other one is REDQ's own
    but for that and the dropout.
    """

    example: ClassVar[str] = "forage train droq Pendulum-v1 --steps 5000"

    dropout: float = equinox.field(static=True, default=0.01)
    critic_norm: str = equinox.field(static=True, default="layer")
    climb: str = equinox.field(static=True, default="mean")
    updates_per_rollout: int = equinox.field(static=True, default=20)
    policy_delay: int = equinox.field(static=True, default=20)
    target_entropy: float = -0.5  # entropy that the temperature aims at, in nats for each dimension of the action, in
    # the unit box; larger explores more; the authors' for HalfCheetah, Walker and Ant
