"""Warm-start reinforcement learning: SAC that continues an offline run without its data.

Zhou, Peng, Li, Levine, Kumar (2024), "Efficient Online Reinforcement Learning Fine-Tuning Need Not Retain Offline
Data", arXiv 2412.07762. Policy and critics begin with what an offline run has learned (`--from RUN`). For the first
`learning_starts` steps the policy acts as it is and nothing is learned (algorithm 1's warm-up), so that the replay
holds what that policy does before its critics are asked about it. From then on it is soft actor-critic with N
normalised critics, M of them in the target, and G updates of the critics for each step and one of the policy,

    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) min over the M of Q'_j(s', a'))^2
    actor     alpha log pi(b|s) - min_i Q_i(s, b)

K = 5,000 steps, G = 4 with 256 transitions each, N = 10, M = 2, layer normalisation in all networks, an entropy target
of -1 a dimension and targets without entropy are those of the authors' program for locomotion (wsrl/agents/sac.py,
experiments/configs/wsrl_config.py, sac_config.py and scripts/locomotion/launch_wsrl_finetune.sh of
github.com/zhouzypaul/wsrl, whose configuration says an entropy target of 0, for which sac.py takes -1 a dimension).

There policy and temperature have a learning rate of 1e-4, a third of the critics'; here all networks share one. But
there Adam moves all of them at each of the G + 1 steps, by a gradient of zero where a network has none, which makes
what the policy moves in a step of the environment sqrt(G + 1) times as far, 2.2e-4 for 1e-4. The policy's gradient is
of all G x 256 transitions, here of the last 256; the temperature's of actions at s', here at s, and what is learned is
its inverse softplus, here its logarithm. The M critics are drawn with replacement, so that one in N targets asks one
critic alone, and all critics share one last layer. Deviations lie within 1e-5 and 10, here within e^-20 and e^2.
Weights begin orthogonal, those of the last hidden layer a hundred times smaller, which its normalisation undoes, and
biases at zero; here both as in SAC. The offline run is to have as many critics and the same networks: there CQL or
Cal-QL, here any agent built on SAC.
"""

from __future__ import annotations

from typing import ClassVar

import equinox

from forage.agents.actor_critic.sac import SAC


class WSRL(SAC):
    """SAC that begins with an offline run's networks and a warm-up (Zhou et al., 2024, arXiv 2412.07762).

    Sizes of networks and how many critics there are follow the offline run that `--from` names. Without `--from` it
    begins untrained.
    """

    begins_at_random: ClassVar[bool] = False
    example: ClassVar[str] = "forage train wsrl Pendulum-v1 --from runs/offline --steps 20k"

    critics: int = equinox.field(static=True, default=10)
    target_subset: int = equinox.field(static=True, default=2)
    layer_norm: bool = equinox.field(static=True, default=True)
    backup_entropy: bool = equinox.field(static=True, default=False)
    learning_starts: int = equinox.field(static=True, default=5000)  # steps of the warm-up, in which the policy acts as
    # it is and nothing is learned
    updates_per_rollout: int = equinox.field(static=True, default=4)
    policy_delay: int = equinox.field(static=True, default=4)
