"""Soft actor-critic for continuous actions.

Haarnoja, Zhou, Hartikainen, Tucker, Ha, Tan, Kumar, Zhu, Gupta, Abbeel, Levine (2018), "Soft Actor-Critic Algorithms
and Applications", arXiv 1812.05905. With temperature alpha, entropy target H, a' ~ pi(.|s') and b ~ pi(.|s), each
update takes one step down each of, in this order,

    critics      sum_i (Q_i(s, a) - r - discount (1 - terminated) (min_j Q'_j(s', a') - alpha log pi(a'|s')))^2 / 2
    actor        alpha log pi(b|s) - min_i Q_i(s, b)
    temperature  -alpha (log pi(b|s) + H)

and moves the target critics Q' a little towards the critics. Prioritised replay is a matter of the memory: the errors
returned are what it asks for, its weights multiply the critics' loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core import prng
from forage.core.ports import Agent, Metrics, State
from forage.core.spaces import check_bounded, seen
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.critics import ActionValue, CriticReport, squared_error, twin_values, twins
from forage.nn.distributions import Actions, SquashedGaussian
from forage.nn.networks import Linear, Style, Torso, input_size
from forage.nn.state_noise import log_deviation, standardised
from forage.ops.minibatches import weighted_mean
from forage.ops.optimiser import Optimiser, blend, named


class Actor(equinox.Module):
    """Squashed Gaussians whose mean and standard deviation depend on the observation."""

    torso: Torso
    head: Linear
    log_std: Float[Array, "features dimensions"] | None  # where noise depends on the state through the features
    actions: Actions = equinox.field(static=True)

    def __init__(
        self, key: Key[Array, ""], spec: Spec, hidden_sizes: tuple[int, ...], style: Style, log_std: Any = None
    ):
        """`log_std`: at first, where noise depends on the state; else `None`."""
        torso_key, head_key = jax.random.split(key)
        self.actions = Actions.of(spec.action_space)
        self.torso = Torso(torso_key, spec.observation_space, hidden_sizes, style)
        dimensions = self.actions.outputs
        self.head = Linear(head_key, self.torso.size, 2 * dimensions if log_std is None else dimensions)
        self.log_std = None if log_std is None else jnp.full((self.torso.size, dimensions), log_std, jnp.float32)

    def __call__(self, observation: PyTree[Array]) -> SquashedGaussian:
        """Return the policies of a batch (leaves `batch ...`)."""
        return self.policies(self.torso.rows(observation))

    def policies(self, features: Float[Array, "batch features"]) -> SquashedGaussian:
        if self.log_std is not None:
            mean = jnp.clip(self.head(features), -2.0, 2.0)  # the bounds of the authors' code for gSDE
            return SquashedGaussian(mean, log_deviation(self.log_std, features))
        mean, log_std = jnp.split(self.head(features), 2, axis=1)
        return SquashedGaussian(mean, jnp.clip(log_std, -20.0, 2.0))  # the bounds of the authors' code


class SACState(NamedTuple):
    actor: Actor
    critics: ActionValue  # leaves [2, ...]
    target_critics: ActionValue
    log_temperature: Float[Array, ""]
    actor_optimiser: Any
    critic_optimiser: Any
    temperature_optimiser: Any


class SAC(Agent):
    """Soft actor-critic with a learned temperature (Haarnoja et al., 2018, arXiv 1812.05905; its table 1)."""

    example: ClassVar[str] = "forage train sac Pendulum-v1"

    # A `State` below is a `SACState`, or that of an agent built on this one, which has more fields.

    on_policy: ClassVar[bool] = False
    stochastic: ClassVar[bool] = True
    acting: ClassVar[str] = "actor"

    learning_rate: float = 3e-4
    discount: float = 0.99
    polyak: float = 0.005  # how far each update moves the targets towards the networks
    initial_temperature: float = 1.0
    target_entropy: float = -1.0  # entropy that the temperature aims at, in nats for each dimension of the action, in
    # the unit box; larger explores more
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=1)
    updates_per_rollout: int = equinox.field(static=True, default=1)
    batch_size: int = equinox.field(static=True, default=256)
    learning_starts: int = equinox.field(static=True, default=1000)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=())
    activation: str | Callable[[Any], Any] = equinox.field(static=True, default="relu")
    layer_norm: bool = equinox.field(static=True, default=False)
    encoder: str | type | None = equinox.field(static=True, default=None)
    optimiser: str | Callable[[Any], Any] = equinox.field(static=True, default="adam")
    learn_temperature: bool = equinox.field(static=True, default=True)  # learn the temperature; else it stays what it
    # is at first
    state_dependent_noise: bool = equinox.field(static=True, default=False)  # noise depends on the state and changes
    # slowly (gSDE)
    initial_log_std: float = -3.0  # logarithm of the deviation of gSDE's noise at first, for each feature; the authors'
    # for SAC

    def check(self, spec: Spec) -> None:
        check_bounded(type(self).__name__, spec)
        input_size(seen(spec.observation_space))

    def init(self, key: Key[Array, ""], spec: Spec) -> State:
        actor_key, critic_key = jax.random.split(key)
        log_std = self.initial_log_std if self.state_dependent_noise else None
        style = Style.of(self)
        actor = Actor(actor_key, spec, self.hidden_sizes, style, log_std)
        dimensions = actor.actions.outputs
        sizes = self.value_sizes or self.hidden_sizes
        critics = twins(lambda k: ActionValue(k, spec.observation_space, dimensions, sizes, style), critic_key)
        log_temperature = jnp.log(jnp.asarray(self.initial_temperature, jnp.float32))
        optimiser = self.descent()
        optimisers = optimiser.init(actor), optimiser.init(critics), optimiser.init(log_temperature)
        return SACState(actor, critics, jax.tree.map(jnp.copy, critics), log_temperature, *optimisers)

    def descent(self) -> Optimiser:
        return named(self.optimiser, self.learning_rate)

    def act(
        self,
        state: State,
        hidden: PyTree[Array],
        observation: PyTree[Array],
        key: Key[Array, ""],
        explore: bool,
        noise: Float[Array, "*noise"] | None = None,
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        features = jax.vmap(state.actor.torso)(jax.tree.map(lambda x: x[None], observation))
        policy = jax.tree.map(lambda x: x[0], state.actor.policies(features))
        if noise is None:
            noise = jax.random.normal(key, policy.mean.shape)
        elif state.actor.log_std is not None:
            noise = standardised(state.actor.log_std, features[0], noise)
        action = policy.from_noise(noise)[0] if explore else policy.mode()
        return state.actor.actions.to_box(action), hidden, ()

    def noise(self, spec: Spec) -> tuple[int, ...]:
        log_std = jax.eval_shape(lambda: self.init(prng.key(0), spec)).actor.log_std
        return (Actions.of(spec.action_space).outputs,) if log_std is None else log_std.shape

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        now = jax.tree.map(lambda x: x[0], batch.experience)  # segments of one transition
        action = jax.vmap(state.actor.actions.heard)(now.action)
        noise, next_noise = jax.random.normal(key, (2, *action.shape))
        return self.update(state, now, action, batch.weight, noise, next_noise)

    def update(
        self,
        state: State,
        now: Experience,
        action: Float[Array, "batch dimensions"],
        weight: Float[Array, " batch"],
        noise: Float[Array, "batch dimensions"],
        next_noise: Float[Array, "batch dimensions"],
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        """Take one step of critics, actor and temperature each, then move the target critics; return as `learn` does.

        `noise`, `next_noise`: standard normal numbers that the policy's actions at s and s' are made from.
        """
        optimiser = self.descent()

        # Critics
        target = self.target(state, now.reward, now.next_observation, now.terminated, next_noise)
        gradient, (error, critic_loss, value) = jax.grad(self.critic_loss, has_aux=True)(
            state.critics, now.observation, action, target, weight * now.counts
        )
        critics, critic_optimiser = optimiser.step(gradient, state.critic_optimiser, state.critics)

        # Actor
        gradient, (log_probability, actor_loss) = jax.grad(self.actor_loss, has_aux=True)(
            state.actor, critics, state, now.observation, noise, now.counts
        )
        actor, actor_optimiser = optimiser.step(gradient, state.actor_optimiser, state.actor)

        # Temperature
        log_temperature, temperature_optimiser = state.log_temperature, state.temperature_optimiser
        if self.learn_temperature:
            gradient = jax.grad(self.temperature_loss)(log_temperature, log_probability, action.shape[1], now.counts)
            log_temperature, temperature_optimiser = optimiser.step(gradient, temperature_optimiser, log_temperature)

        metrics = {
            "critic_loss": critic_loss,
            "actor_loss": actor_loss,
            "value": value,
            "entropy": -weighted_mean(log_probability, now.counts),
            "temperature": jnp.exp(state.log_temperature),
        }
        state = state._replace(
            actor=actor,
            critics=critics,
            target_critics=blend(critics, state.target_critics, self.polyak),
            log_temperature=log_temperature,
            actor_optimiser=actor_optimiser,
            critic_optimiser=critic_optimiser,
            temperature_optimiser=temperature_optimiser,
        )
        return state, metrics, error * now.counts

    def target(
        self,
        state: State,
        reward: Float[Array, " batch"],
        next_observation: PyTree[Array],
        terminated: Bool[Array, " batch"],
        noise: Float[Array, "batch dimensions"],
    ) -> Float[Array, " batch"]:
        """Compute r + discount (1 - terminated) times the soft value of s' and a' ~ pi(.|s')."""
        action, log_probability = state.actor(next_observation).from_noise(noise)
        value = self.soft_value(state, next_observation, action, log_probability)
        return reward + self.discount * jnp.where(terminated, 0.0, value)

    def soft_value(
        self,
        state: State,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        log_probability: Float[Array, " batch"],
    ) -> Float[Array, " batch"]:
        """Compute min_j Q'_j(s, a) - alpha log pi(a|s)."""
        value = twin_values(state.target_critics, observation, action).min(0)
        return value - jnp.exp(state.log_temperature) * log_probability

    def critic_loss(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        target: Float[Array, " batch"],
        weight: Float[Array, " batch"],
    ) -> tuple[Float[Array, ""], CriticReport]:
        """Compute the `squared_error` of both critics."""
        values = twin_values(critics, observation, action)
        return squared_error(values, target, weight)

    def actor_loss(
        self,
        actor: Actor,
        critics: ActionValue,
        state: State,
        observation: PyTree[Array],
        noise: Float[Array, "batch dimensions"],
        counts: Bool[Array, " batch"] | None = None,
    ) -> tuple[Float[Array, ""], tuple[Float[Array, " batch"], Float[Array, ""]]]:
        """Compute the mean of alpha log pi(b|s) - min_i Q_i(s, b), b ~ pi(.|s), over what counts.

        Beside it the log-probabilities and the loss. `state` holds the temperature.
        """
        action, log_probability = actor(observation).from_noise(noise)
        value = twin_values(critics, observation, action).min(0)
        loss = weighted_mean(jnp.exp(state.log_temperature) * log_probability - value, counts)
        return loss, (log_probability, loss)

    def temperature_loss(
        self,
        log_temperature: Float[Array, ""],
        log_probability: Float[Array, " batch"],
        dimensions: int,
        counts: Bool[Array, " batch"] | None = None,
    ) -> Float[Array, ""]:
        """Compute -alpha mean(log pi + H): while the entropy is above its target, it falls as alpha does."""
        return -jnp.exp(log_temperature) * weighted_mean(log_probability + self.target_entropy * dimensions, counts)
