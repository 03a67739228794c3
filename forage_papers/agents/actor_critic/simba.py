"""SimBa: soft actor-critic with normalised observations and residual networks.

Lee, Hwang, Kim, Kim, Tai, Subramanian, Wurman, Choo, Stone, Seno (2024), "SimBa: Simplicity Bias for Scaling Up
Parameters in Deep Reinforcement Learning", arXiv 2410.09754. With running mean m and deviation d of all observations so
far, both networks see (s - m) / d, the critics with the action beside it, and are (`forage.nn.residual`)

    x = W s;   x = x + W2 relu(W1 norm(x)) for each block;   norm(x);   a linear layer

Each update is SAC's; in the authors' program the policy's step comes before the critics'. Weights decay: beside Adam's
step, each loses learning_rate * weight_decay of itself.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import optax

from forage.agents.actor_critic.sac import SAC
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.ops.optimiser import Optimiser, make_named_optimiser


class SimBa(SAC):
    """SAC with SimBa's networks (Lee et al., 2024, arXiv 2410.09754).

    Defaults are those of the authors' code (configs/agent/sac_simba.yaml and base.yaml); the paper's own tables could
    not be looked up. There one critic learns where episodes never end by themselves (`--critics 1`), and the discount
    follows from an episode's length: 0.995 for a thousand steps.
    """

    example: ClassVar[str] = "forage train simba Pendulum-v1 --value-sizes 128,128"
    ranges: ClassVar[Ranges] = {"weight_decay": Range(0)}
    unused: ClassVar[Unused] = {
        "optimiser": ("SimBa's optimiser is Adam with decaying weights", "take sac with torso=simba")
    }

    learning_rate: float = 1e-4
    updates_per_rollout: int = equinox.field(static=True, default=2)
    learning_starts: int = equinox.field(static=True, default=5000)
    torso: str = equinox.field(static=True, default="simba")
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(128,))
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=(512, 512))
    normalise_observation: bool = equinox.field(static=True, default=True)
    initial_temperature: float = 0.01
    target_entropy: float = -0.5
    squash_deviation: bool = equinox.field(static=True, default=True)
    weight_decay: float = 0.01  # share of each weight that is lost in a step of size 1, of policy and critics; larger
    # keeps weights smaller

    def descent(self) -> Optimiser:
        return self.bounded_steps(Optimiser(optax.adamw(self.learning_rate, weight_decay=self.weight_decay)))

    def temperature_descent(self) -> Optimiser:
        return make_named_optimiser(self.optimiser, self.learning_rate)
