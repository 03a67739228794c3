"""Deep deterministic policy gradient (DDPG): TD3 with one critic, no delay and no smoothing.

Lillicrap et al. (2015), "Continuous control with deep reinforcement learning", arXiv 1509.02971. Targets, marked ',
come from slowly moving copies of the networks. Each update takes a step down

    critic    (Q(s, a) - r - discount (1 - terminated) Q'(s', pi'(s')))^2 / 2
    policy    -Q(s, pi(s))

after which the targets move. The paper's noise is `--behaviour ornstein-uhlenbeck`; the default is TD3's, independent
at each step (as good: Fujimoto et al., 2018, section 6.1).
"""

from __future__ import annotations

from typing import ClassVar

import equinox

from forage.agents.actor_critic.td3 import TD3


class DDPG(TD3):
    """Deep deterministic policy gradient (Lillicrap et al., 2015, arXiv 1509.02971), otherwise with TD3's defaults."""

    example: ClassVar[str] = "forage train ddpg Pendulum-v1"

    target_noise: float = 0.0  # standard deviation of target policy smoothing, in the unit box; DDPG has none
    policy_delay: int = equinox.field(static=True, default=1)  # critic updates for each update of policy and targets
    critics: int = equinox.field(static=True, default=1)
