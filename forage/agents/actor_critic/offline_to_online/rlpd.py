"""Reinforcement learning with prior data: SAC that learns from a data set and from its own experience.

Ball, Smith, Kostrikov, Levine (2023), "Efficient Online Reinforcement Learning with Offline Data", arXiv 2302.02948.
Soft actor-critic from scratch, with three changes: half of each batch is from the data (`--memory mixed`), critics have
layer normalisation, which bounds what they say of actions that the data lacks, and there are N critics, of which M that
are drawn anew at each update make the target. With G updates of the critics for each step taken and one of the policy,

    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) (min over the M of Q'_j(s', a') - alpha log pi(a'|s')))^2
    actor     alpha log pi(b|s) - mean_i Q_i(s, b)

N = 10, M = 2, G = 20, batches of 256 and an entropy target of -1/2 a dimension are those of the authors' program for
D4RL locomotion (configs/rlpd_config.py, sac_learner.py and README of github.com/ikostrikov/rlpd). For AntMaze it has
`--target-subset 1`, three hidden layers and `--no-backup-entropy`, for Adroit the last two of these. There weights
begin uniform in +-sqrt(6 / (inputs + outputs)) with biases at zero (`--first-weights glorot`), here both in
+-1/sqrt(inputs). The tables of the paper itself could not be looked up.
"""

from __future__ import annotations

from typing import ClassVar

import equinox

from forage.agents.actor_critic.sac import SAC


class RLPD(SAC):
    """SAC with ten normalised critics, for half a batch of data (Ball et al., 2023, arXiv 2302.02948).

    Their runs begin to learn after 5,000 steps, which are uniform actions (`--behaviour.random-steps`). Without
    `--memory mixed` it learns from its own experience alone, as REDQ with layer normalisation.
    """

    example: ClassVar[str] = "forage train rlpd Pendulum-v1 --memory mixed --memory.data mixed.npz"

    critics: int = equinox.field(static=True, default=10)
    target_subset: int = equinox.field(static=True, default=2)
    climb: str = equinox.field(static=True, default="mean")
    critic_norm: str = equinox.field(static=True, default="layer")
    target_entropy: float = -0.5
    updates_per_rollout: int = equinox.field(static=True, default=20)
    policy_delay: int = equinox.field(static=True, default=20)
