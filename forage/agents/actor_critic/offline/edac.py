"""Ensemble-diversified actor-critic (EDAC), for learning from data.

An, Moon, Kim, Song (2021), "Uncertainty-Based Offline Reinforcement Learning with Diversified Q-Ensemble",
arXiv 2110.01548. SAC-N, the least of whose N critics says little where all of them rise in the same direction from the
data's actions. Beside their errors the critics' loss has how alike these directions are, with weight eta:

    critics   sum_i mean((Q_i(s, a) - y)^2) + eta / (N - 1) mean(sum over i and j != i of cos(grad_a Q_i, grad_a Q_j))

with SAC's target y and the gradients at the data's s and a. Then fewer critics than SAC-N's do. Where actions have one
dimension all cosines are 1 or -1, whose gradient is zero: there it is SAC-N.
"""

from __future__ import annotations

from typing import ClassVar

import equinox

from forage.agents.actor_critic.offline.sac_n import SACN


class EDAC(SACN):
    """SAC-N with a penalty on similar critics (An et al., 2021, arXiv 2110.01548).

    Numbers and sizes are SAC-N's; 1.0 for `diversity` (eta) is what OfflineRL-Kit, another implementation, suggests for
    the medium data of HalfCheetah and Walker2d, with ten critics, and of Hopper, with fifty. The authors' README has
    1000 and 10 for the data of pen-human and pen-cloned. (The paper's own tables could not be looked up.)
    """

    example: ClassVar[str] = "forage train edac maze:UMaze --data DATA.npz --steps 5000"

    diversity: float = equinox.field(static=True, default=1.0)
