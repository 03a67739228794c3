"""Truncated quantile critics (TQC).

Kuznetsov, Shvechikov, Grishin, Vetrov (2020), "Controlling Overestimation Bias with Truncated Mixture of Continuous
Distributional Quantile Critics", arXiv 2005.04269. Soft actor-critic whose N critics learn M quantiles theta_nm of the
return each, at tau_m = (2 m - 1) / 2M. Targets of all critics at s' and a' ~ pi(.|s') are pooled and sorted; the N d
largest are dropped, and each one z_i of the others makes a sample y_i. With u = y_i - theta_nm(s, a),

    critics   sum_n mean_m mean_i |tau_m - [u < 0]| Huber(u),   y_i = r + discount (1 - terminated) (z_i - alpha log pi)
    actor     alpha log pi(b|s) - mean_n mean_m theta_nm(s, b)

Dropping more quantiles keeps values lower, in steps as fine as one likes, where SAC takes the least of two.
"""

from __future__ import annotations

from typing import ClassVar

import equinox

from forage.agents.actor_critic.sac import SAC
from forage.core.types import ForageError


class TQC(SAC):
    """SAC with targets from truncated sorted quantiles (Kuznetsov et al., 2020, arXiv 2005.04269).

    Numbers of critics and quantiles and sizes of networks are those of the authors' PyTorch program, whose README drops
    0 (HalfCheetah), 5 (Hopper) or 2 (Walker2d, Ant, Humanoid) of each critic's 25 quantiles. That program averages the
    loss over critics; here it is their sum, which Adam's steps hardly tell from it. It learns after 256 steps, here
    after 1000. It computes the policy's loss before the critics' step, here after it, and its temperature goes down
    -log alpha (log pi + H), which Adam hardly tells from SAC's loss.
    """

    example: ClassVar[str] = "forage train tqc Pendulum-v1 --steps 5000"

    critics: int = equinox.field(static=True, default=5)
    quantiles: int = equinox.field(static=True, default=25)
    dropped_quantiles: int = equinox.field(static=True, default=2)
    policy_q: str = equinox.field(static=True, default="mean")
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=(512, 512, 512))

    def __check_init__(self):
        if not self.quantiles:
            raise ForageError("TQC's critics learn quantiles; have one or more, or take sac.")
