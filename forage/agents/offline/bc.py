"""Behaviour cloning: supervised learning of the actions in a data set.

Pomerleau (1991), "Efficient Training of Artificial Neural Networks for Autonomous Navigation", Neural Computation 3.
Each update takes one step of Adam down

    -mean log pi(a|s)

over a batch of the data: the cross-entropy where actions are choices, and the likelihood of a Gaussian with a learned
deviation where they are numbers. Rewards play no part, so the policy is as good as what it imitates. Where an expert
labels what the policy visits (`--behaviour dagger`), a is the label.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
from jaxtyping import Array, Float, Key

from forage.agents.offline.base import OfflineAgent, Policy
from forage.core.ports import Metrics
from forage.core.types import Batch, Clock, Label, Spec
from forage.nn.networks import Style
from forage.ops.optimiser import Optimiser, named


class BCState(NamedTuple):
    policy: Policy
    optimiser: Any


class BC(OfflineAgent):
    """Behaviour cloning (Pomerleau, 1991), from a data set, for discrete and for bounded continuous actions."""

    example: ClassVar[str] = "forage train bc CartPole-v1 --data expert.npz"

    imitates: ClassVar[bool] = True

    learning_rate: float = 3e-4  # step size of Adam, as the behaviour cloning beside implicit Q-learning has it
    batch_size: int = equinox.field(static=True, default=256)  # transitions of an update, as there
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))  # layers of the policy, as there

    def init(self, key: Key[Array, ""], spec: Spec) -> BCState:
        policy = Policy(key, spec, self.hidden_sizes, Style.of(self))
        return BCState(policy, self.descent().init(policy))

    def descent(self) -> Optimiser:
        return named(self.optimiser, self.learning_rate)

    def learn(
        self, state: BCState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[BCState, Metrics, Float[Array, " batch"]]:
        now = jax.tree.map(lambda x: x[0], batch.experience)  # segments of one transition

        action = now.aux.action if isinstance(now.aux, Label) else now.action

        def loss(policy: Policy) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
            surprise = -policy.log_probability(now.observation, action)
            return (batch.weight * surprise).mean(), surprise

        (value, surprise), gradient = jax.value_and_grad(loss, has_aux=True)(state.policy)
        policy, optimiser = self.descent().step(gradient, state.optimiser, state.policy)
        return BCState(policy, optimiser), {"policy_loss": value}, surprise
