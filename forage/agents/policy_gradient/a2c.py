"""Advantage actor-critic (A2C): the synchronous form of A3C.

Mnih et al. (2016), "Asynchronous Methods for Deep Reinforcement Learning", arXiv 1602.01783, section 4, with all
environments stepped side by side and one update for each short rollout. It makes one step down the mean of

    -A log pi(a|s)  +  value_coefficient (V(s) - R)^2 / 2  -  entropy_coefficient H(pi(.|s))

with advantage A = R - V(s) and value target R: the rewards to the end of the rollout and the value of what follows
(GAE with `gae_lambda` 1). It is PPO with one epoch of one minibatch, whose ratio is 1, so that its clip has no effect
(Huang, Kanervisto, Raffin, Wang, Ontanon, Dossa, 2022, "A2C is a special case of PPO", arXiv 2205.09123): memory,
action masks, central critics and gSDE are PPO's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox

from forage.agents.policy_gradient.ppo import PPO
from forage.core.ports.needs import Unused
from forage.ops.optimiser import Optimiser, rmsprop

WITHOUT_EFFECT = ("epochs", "minibatches", "clip", "clip_value", "target_kl")


class A2C(PPO):
    """Advantage actor-critic (Mnih et al., 2016, arXiv 1602.01783), synchronous, with the defaults of SB3's A2C."""

    example: ClassVar[str] = "forage train a2c CartPole-v1"
    unused: ClassVar[Unused] = {
        "epochs minibatches clip clip_value target_kl": ("A2C makes one update of each rollout", "take ppo")
    }

    learning_rate: float = 7e-4
    gae_lambda: float = 1.0  # decay of the weights of longer returns in advantages; 1 is the paper's
    entropy_coefficient: float = 0.0
    value_coefficient: float = 1.0  # weight of half the squared error of the value; SB3's 0.5 of the whole
    final_learning_rate: float = 1.0  # reached linearly at the end of the run, as a share of learning_rate; the paper's
    # falls to 0
    rollout_length: int = equinox.field(static=True, default=5)
    epochs: int = equinox.field(static=True, default=1)  # always 1: ppo has more
    minibatches: int = equinox.field(static=True, default=1)  # always 1: ppo has more
    clip: float = 0.2  # without effect, as in a single update no ratio leaves 1
    clip_value: bool = equinox.field(static=True, default=False)  # without effect, as clip
    target_kl: float | None = None  # without effect, as clip
    optimiser: str | Callable[[Any], Any] = equinox.field(static=True, default="rmsprop")
    normalise_advantage: bool = equinox.field(static=True, default=False)
    rms_decay: float = 0.99  # share of RMSProp's mean of squared gradients that stays at each step; the paper's
    rms_epsilon: float = 1e-5  # added to that mean below the root; SB3's

    def descent(self, learning_rate: Any) -> Optimiser:
        if self.optimiser == "rmsprop":
            return rmsprop(learning_rate, self.rms_decay, self.rms_epsilon, self.max_gradient_norm)
        return super().descent(learning_rate)
