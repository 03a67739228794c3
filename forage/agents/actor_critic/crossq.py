"""CrossQ: batch normalisation in place of target networks.

Bhatt, Palenicek, Belousov, Argus, Amiranashvili, Brox, Peters (2024), "CrossQ: Batch Normalization in Deep
Reinforcement Learning for Greater Sample Efficiency and Simplicity", arXiv 1902.05605. Soft actor-critic whose networks
are batch normalised, inputs first, then what each layer has activated (`forage.nn.batch_norm`). The critics see (s, a)
and (s', a'), a' ~ pi(.|s'), in one batch, so that both are normalised by the same statistics; values of s' get no
gradient. With b ~ pi(.|s), each update takes one step down

    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) (min_j Q_j(s', a') - alpha log pi(a'|s')))^2 / 2

and every `policy_delay`-th one also down

    actor        alpha log pi(b|s) - min_i Q_i(s, b)
    temperature  -alpha (log pi(b|s) + H)

Running statistics, not a batch's, normalise where the policy acts, draws a' or maximises the critics; the actor's move
where its loss is computed.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.sac import SAC, ActorReport, GaussianActor
from forage.core.ports import State
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import describe_space, observation_part
from forage.core.types import ForageError, Spec
from forage.nn.batch_norm import BatchStyle, with_statistics
from forage.nn.critics import (
    ActionValue,
    CriticReport,
    each_value,
    histogram_error,
    min_of_subset,
    squared_error,
    truncate_quantiles,
)
from forage.nn.encoders import is_image
from forage.nn.networks import NetworkConfig
from forage.ops.optimiser import Optimiser, make_named_optimiser
from forage.ops.rows import concatenate_rows, weighted_mean


class CrossQ(SAC):
    """SAC with batch normalisation and without target networks (Bhatt et al., 2024, arXiv 1902.05605).

    Defaults are those of the authors' code (train.py); the paper's own table of them could not be looked up. The
    temperature's Adam keeps its usual beta1, as there. With `--value-sizes 256,256` critics are as wide as SAC's. There
    weights begin normal with a deviation of 1/sqrt(inputs) and biases at zero (`--first-weights lecun`); here both
    begin uniform in +-1/sqrt(inputs), weights 1.7 times as narrow.
    """

    example: ClassVar[str] = "forage train crossq Pendulum-v1 --value-sizes 256,256"
    ranges: ClassVar[Ranges] = {
        "momentum": Range(0, 1, below=True),
        "batch_norm_rate": Range(0, 1),
        "batch_norm_warm_up": Range(0),
    }
    unused: ClassVar[Unused] = {
        "torso": "CrossQ normalises batches in an MLP",
        "polyak": "CrossQ has no target networks that could follow its critics",
        "diversity": "CrossQ has a loss of its own for its critics",
    }

    uncalled: ClassVar[dict[str, str]] = {
        "critic_loss": "its loss is joint_loss",
        "actor_loss": "its policy learns in improve_actor, with the statistics of its batches",
    }

    learning_rate: float = 1e-3
    polyak: float = 1.0  # only 1: there are no target networks that could follow
    policy_delay: int = equinox.field(static=True, default=3)
    learning_starts: int = equinox.field(static=True, default=5000)
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=(2048, 2048))
    momentum: float = 0.5  # beta1 of Adam, for policy and critics; other optimisers have their own
    batch_norm_rate: float = equinox.field(static=True, default=0.01)  # how far each batch moves the running statistics
    # towards its own
    batch_norm_warm_up: int = equinox.field(static=True, default=100_000)  # batches before running statistics count
    # while a network learns (batch renormalisation)

    def check(self, spec: Spec) -> None:
        super().check(spec)
        read = observation_part(self.read_spec(spec).observation_space)
        if is_image(read) and self.encoder is None:
            raise ForageError(
                f"CrossQ normalises batches of numbers, and {spec.name} shows {describe_space(read)}, which "
                f"convolutions "
                f"read; sac works."
            )

    def style(self) -> NetworkConfig:
        return super().style()._replace(batch_norm=BatchStyle(self.batch_norm_rate, self.batch_norm_warm_up))

    def descent(self) -> Optimiser:
        more = {"momentum": self.momentum} if self.optimiser == "adam" else {}
        return make_named_optimiser(self.optimiser, self.learning_rate, **more)

    def temperature_descent(self) -> Optimiser:
        return make_named_optimiser(self.optimiser, self.learning_rate)

    def init(self, key: Key[Array, ""], spec: Spec) -> State:
        return super().init(key, spec)._replace(target_critics=None)

    def follow(self, state: State) -> State:
        return state

    def evaluate(self, state: State, inputs: UpdateInputs) -> tuple[State, CriticReport]:
        gradient, (report, taught) = jax.grad(self.joint_loss, has_aux=True)(state.critics, state, inputs)
        state = self.step_critics(state, gradient)
        return state._replace(critics=with_statistics(state.critics, taught)), report

    def joint_loss(
        self, critics: ActionValue, state: State, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], tuple[CriticReport, ActionValue]]:
        """Compute the loss of all critics in one pass through (s, a) and (s', a').

        Also return a report, and the critics with updated running statistics.
        """
        now, keys = inputs.now, inputs.keys
        next_action, log_probability = state.actor(now.next_observation).from_noise(inputs.next_noise)
        pairs = (now.observation, inputs.action, now.counts), (now.next_observation, next_action, now.counts)
        both = concatenate_rows(*pairs)
        outputs, taught = cast(Any, each_value(critics, *both, key=keys.critics, ask=ActionValue.apply_in_training))
        here, there = jnp.split(outputs, 2, axis=1)

        bins = critics.bins
        if self.quantiles:
            value = truncate_quantiles(there, self.dropped_quantiles)
        else:
            value = min_of_subset(bins.value(there) if bins else there[..., 0], self.target_subset, keys.subset)
        if self.backup_entropy:
            value = value - jnp.exp(state.log_temperature) * log_probability
        target = now.reward + self.discount * jnp.where(now.terminated, 0.0, value)
        target = jax.lax.stop_gradient(target)
        if bins:
            loss, report = histogram_error(bins, here, target, inputs.weight)
        else:
            loss, report = squared_error(here[..., 0], target, inputs.weight)
        return loss, (report, taught)

    def improve_actor(self, state: State, inputs: UpdateInputs) -> tuple[State, ActorReport]:
        observation, counts = inputs.now.observation, inputs.now.counts

        def loss(actor: GaussianActor) -> tuple[Float[Array, ""], tuple[ActorReport, GaussianActor]]:
            policy, taught = actor.apply_in_training(observation, counts)
            action, log_probability = policy.from_noise(inputs.noise)
            value = self.policy_value(state.critics, observation, action, inputs.keys.policy_q)
            loss = weighted_mean(jnp.exp(state.log_temperature) * log_probability - value, counts)
            return loss, (ActorReport(log_probability, loss), taught)

        gradient, (report, taught) = jax.grad(loss, has_aux=True)(state.actor)
        state = self.step_actor(state, gradient)
        return state._replace(actor=with_statistics(state.actor, taught)), report
