"""SAC with many critics (SAC-N), for learning from data.

An, Moon, Kim, Song (2021), "Uncertainty-Based Offline Reinforcement Learning with Diversified Q-Ensemble",
arXiv 2110.01548. Soft actor-critic with N critics, of which both target and policy take the least value:

    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) (min_j Q'_j(s', a') - alpha log pi(a'|s')))^2
    actor     alpha log pi(b|s) - min_i Q_i(s, b)

Critics agree on actions that the data show and differ on others, of which the least value of many is low: the policy
stays near the data although nothing measures how near it is.

In the authors' program (snu-mllab/EDAC: lifelong_rl/trainers/q_learning/sac.py) all networks take their step from what
they were before the update, and here the policy follows critics that have already moved; the temperature goes down
-log alpha (log pi + H), here -alpha (log pi + H); and log-deviations lie within -5 and 2, here within -20 and 2. Last
weights begin within 0.003 (critics) and 0.001 (policy), other biases at 0.1, and target critics apart from the critics;
here all begin as in SAC.
"""

from __future__ import annotations

from typing import ClassVar

import equinox

from forage.agents.actor_critic.sac import SAC


class SACN(SAC):
    """SAC with ten critics, for learning from data (An et al., 2021, arXiv 2110.01548).

    Numbers and sizes are the defaults of the authors' program, which makes 3 million updates. How many critics it takes
    depends on the data: the narrower they are, the more.
    """

    example: ClassVar[str] = "forage train sac-n Pendulum-v1 --data DATA.npz --steps 5000"

    critics: int = equinox.field(static=True, default=10)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256, 256))
