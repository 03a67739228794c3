"""Randomized ensembled double Q-learning.

Chen, Wang, Zhou, Ross (2021), "Randomized Ensembled Double Q-Learning: Learning Fast Without a Model",
arXiv 2101.05982. Soft actor-critic with N critics and G updates of them for each step taken, of which the last one is
followed by one of the policy. With M critics drawn anew at each update (algorithm 1),

    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) (min over the M of Q'_j(s', a') - alpha log pi(a'|s')))^2
    actor     alpha log pi(b|s) - mean_i Q_i(s, b)

The least of a few drawn ones keeps values from growing too large however many critics there are; the mean of many keeps
their variance, and so the harm of many updates on the same data, small.
"""

from __future__ import annotations

from typing import ClassVar

import equinox

from forage.agents.actor_critic.sac import SAC


class REDQ(SAC):
    """SAC with ten critics and twenty updates a step (Chen et al., 2021, arXiv 2101.05982).

    Their runs begin to learn after 5,000 steps, and aim at the entropies of MBPO: -3 for the six numbers of
    HalfCheetah's and Walker's actions, -4 for Ant's eight, -1 for Hopper's three and -2 for Humanoid's seventeen. Their
    weights begin uniform in +-sqrt(6 / (inputs + outputs)) and biases at zero (`--first-weights glorot`); here both
    begin uniform in +-1/sqrt(inputs), which is 1.7 times as narrow in square layers and 2.4 in the critics' last one.
    There the policy's loss is computed before the critics' step, the temperature goes down -log alpha (log pi + H),
    which Adam hardly tells from SAC's loss, and targets have a temperature of 0.2 until the policy's first step.
    """

    example: ClassVar[str] = "forage train redq Pendulum-v1 --steps 5000"

    critics: int = equinox.field(static=True, default=10)
    target_subset: int = equinox.field(static=True, default=2)
    climb: str = equinox.field(static=True, default="mean")
    updates_per_rollout: int = equinox.field(static=True, default=20)
    policy_delay: int = equinox.field(static=True, default=20)
    target_entropy: float = -0.5  # entropy that the temperature aims at, in nats for each dimension of the action, in
    # the unit box; larger explores more; the authors' for HalfCheetah, Walker and Ant
