"""Soft actor-critic for discrete actions.

Christodoulou (2019), "Soft Actor-Critic for Discrete Action Settings", arXiv 1910.07207. As soft actor-critic (Haarnoja
et al., 2018, arXiv 1812.05905), with expectations over all actions in place of sampled ones. With temperature alpha and
entropy target H, each update takes one step down each of, in this order,

    critics      sum_i (Q_i(s, a) - r - discount (1 - terminated) V(s'))^2 / 2
                 V(s') = sum_b pi(b|s') (min_j Q'_j(s', b) - alpha log pi(b|s'))
    actor        sum_b pi(b|s) (alpha log pi(b|s) - min_i Q_i(s, b))
    temperature  alpha (entropy of pi(.|s) - H(s)),  H(s) = target_entropy log(number of actions allowed in s)

and moves the target critics Q' a little towards the critics. Masked actions have probability zero throughout.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, Spec
from forage.nn.critics import CriticReport, each_value, squared_error, stack_modules
from forage.nn.distributions import Actions, Categorical, draw_action
from forage.nn.networks import TorsoHead
from forage.ops.losses import join_metrics, loss_gradient
from forage.ops.optimiser import Optimiser, adam, blend
from forage.ops.rows import weighted_mean


class ActionScores(TorsoHead):
    """One number for each action: logits of the policy, or action values of a critic."""

    def __init__(self, key: Key[Array, ""], spec: Spec, hidden_sizes: tuple[int, ...]):
        super().__init__(
            key, spec.observation_space, hidden_sizes, "relu", Actions.from_space(spec.action_space).outputs
        )

    def __call__(self, observation: PyTree[Array]) -> Float[Array, "batch actions"]:
        """Return the scores of a batch (leaves `batch ...`)."""
        return self.head(self.torso.rows(observation))


class SACDiscreteState(NamedTuple):
    actor: ActionScores
    critics: ActionScores  # leaves [2, ...]
    target_critics: ActionScores
    log_temperature: Float[Array, ""]
    actor_optimiser: Any
    critic_optimiser: Any
    temperature_optimiser: Any


class ActorReport(NamedTuple):
    """The entropies of the policy in one step of the actor, and its loss."""

    entropy: Float[Array, " batch"]
    loss: Float[Array, ""]
    metrics: Metrics = {}  # in addition, of an agent of one's own

    def __or__(self, metrics: Metrics) -> ActorReport:
        """Return the report with more metrics."""
        return self._replace(metrics=self.metrics | metrics)


class SACDiscrete(Agent):
    """Soft actor-critic for discrete actions (Christodoulou, 2019, arXiv 1910.07207), with action masks."""

    example: ClassVar[str] = "forage train sac-discrete CartPole-v1"
    ranges: ClassVar[Ranges] = {"target_entropy": Range(0, 1)}

    on_policy: ClassVar[bool] = False
    stochastic: ClassVar[bool] = True
    acting: ClassVar[str] = "actor"
    needs: ClassVar[Needs] = Needs(actions="numbered", observations="any")

    learning_rate: float = 3e-4
    discount: float = 0.99
    polyak: float = 0.005  # how far each update moves the target critics towards the critics
    initial_temperature: float = 1.0
    target_entropy: float = 0.98  # entropy aimed at, as a share of that of the uniform policy over the allowed actions;
    # larger explores more
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=4)
    updates_per_rollout: int = equinox.field(static=True, default=1)
    batch_size: int = equinox.field(static=True, default=64)
    learning_starts: int = equinox.field(static=True, default=1000)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))

    def init(self, key: Key[Array, ""], spec: Spec) -> SACDiscreteState:
        actor_key, critic_key = jax.random.split(key)
        actor = ActionScores(actor_key, spec, self.hidden_sizes)
        critics = stack_modules(lambda k: ActionScores(k, spec, self.hidden_sizes), critic_key)
        log_temperature = jnp.log(jnp.asarray(self.initial_temperature, jnp.float32))
        optimiser = self.optimiser()
        optimisers = optimiser.init(actor), optimiser.init(critics), optimiser.init(log_temperature)
        return SACDiscreteState(actor, critics, jax.tree.map(jnp.copy, critics), log_temperature, *optimisers)

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, epsilon=1e-4)  # the author's: small second moments do not blow steps up

    def act(self, state: SACDiscreteState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        logits = state.actor(jax.tree.map(lambda x: x[None], inputs.observation))[0]
        policy = Categorical.from_logits(logits, split_mask(inputs.observation)[1])
        return draw_action(policy, inputs), inputs.hidden, ()

    def probabilities(
        self, state: SACDiscreteState, observation: PyTree[Array], explore: bool
    ) -> Float[Array, " actions"]:
        logits = state.actor(jax.tree.map(lambda x: x[None], observation))[0]
        return Categorical.from_logits(logits, split_mask(observation)[1]).probabilities(explore)

    def learn(
        self, state: SACDiscreteState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[SACDiscreteState, Metrics, Float[Array, " batch"]]:
        now = batch.transitions
        optimiser = self.optimiser()

        target = self.target(state, now.reward, now.next_observation, now.terminated)
        gradient, of_critics = loss_gradient(
            self.critic_loss, state.critics, now.observation, now.action, target, batch.weight * now.counts
        )
        critics, critic_optimiser = optimiser.step(gradient, state.critic_optimiser, state.critics)

        gradient, of_actor = loss_gradient(
            self.actor_loss, state.actor, critics, state.log_temperature, now.observation, now.counts
        )
        actor, actor_optimiser = optimiser.step(gradient, state.actor_optimiser, state.actor)

        gradient = jax.grad(self.temperature_loss)(
            state.log_temperature, of_actor.entropy, self.entropy_target(state.actor, now.observation), now.counts
        )
        log_temperature, temperature_optimiser = optimiser.step(
            gradient, state.temperature_optimiser, state.log_temperature
        )

        target_critics = blend(critics, state.target_critics, self.polyak)
        optimisers = actor_optimiser, critic_optimiser, temperature_optimiser
        metrics = {
            "critic_loss": of_critics.loss,
            "actor_loss": of_actor.loss,
            "value": of_critics.value,
            "entropy": weighted_mean(of_actor.entropy, now.counts),
            "temperature": jnp.exp(state.log_temperature),
        }
        state = SACDiscreteState(actor, critics, target_critics, log_temperature, *optimisers)
        metrics = join_metrics(metrics, of_critics.metrics, of_actor.metrics)
        return state, metrics, of_critics.error * now.counts

    def target(
        self,
        state: SACDiscreteState,
        reward: Float[Array, " batch"],
        next_observation: PyTree[Array],
        terminated: Bool[Array, " batch"],
    ) -> Float[Array, " batch"]:
        """r + discount (1 - terminated) sum_a pi(a|s') (min_j Q'_j(s', a) - alpha log pi(a|s'))."""
        probability, log_probability = policies(state.actor, next_observation)
        value = each_value(state.target_critics, next_observation).min(0)
        value = jnp.sum(probability * (value - jnp.exp(state.log_temperature) * log_probability), axis=1)
        return reward + self.discount * jnp.where(terminated, 0.0, value)

    def critic_loss(
        self,
        critics: ActionScores,
        observation: PyTree[Array],
        action: Int[Array, " batch"],
        target: Float[Array, " batch"],
        weight: Float[Array, " batch"],
    ) -> tuple[Float[Array, ""], CriticReport]:
        """`squared_error` of both critics."""
        values = each_value(critics, observation)
        # A one-hot product rather than a gather: its gradient is a product too, not a scatter.
        values = jnp.sum(values * jax.nn.one_hot(action, values.shape[-1]), axis=-1)
        return squared_error(values, target, weight)

    def actor_loss(
        self,
        actor: ActionScores,
        critics: ActionScores,
        log_temperature: Float[Array, ""],
        observation: PyTree[Array],
        counts: Bool[Array, " batch"] | None = None,
    ) -> tuple[Float[Array, ""], ActorReport]:
        """Compute the mean of sum_a pi(a|s) (alpha log pi(a|s) - min_i Q_i(s, a)) over the rows that count.

        Also return the entropies and the loss.
        """
        probability, log_probability = policies(actor, observation)
        value = each_value(critics, observation).min(0)
        expected = jnp.sum(probability * (jnp.exp(log_temperature) * log_probability - value), axis=1)
        loss = weighted_mean(expected, counts)
        return loss, ActorReport(-jnp.sum(probability * log_probability, axis=1), loss)

    def entropy_target(self, actor: ActionScores, observation: PyTree[Array]) -> Float[Array, " batch"]:
        """Return the share `target_entropy` of the entropy of choosing evenly among the actions allowed.

        To one that has left none may be: a target of 0 rather than of no number.
        """
        mask = split_mask(observation)[1]
        allowed = jnp.float32(actor.head.bias.shape[0]) if mask is None else jnp.maximum(mask.sum(1), 1)
        return self.target_entropy * jnp.log(allowed)

    def temperature_loss(
        self,
        log_temperature: Float[Array, ""],
        entropy: Float[Array, " batch"],
        target: Float[Array, " *batch"],
        counts: Bool[Array, " batch"] | None = None,
    ) -> Float[Array, ""]:
        """alpha mean(entropy - H): falls as alpha does while the entropy is above its target, and the other way."""
        return jnp.exp(log_temperature) * weighted_mean(entropy - target, counts)


def policies(
    actor: ActionScores, observation: PyTree[Array]
) -> tuple[Float[Array, "batch actions"], Float[Array, "batch actions"]]:
    """Probabilities and log-probabilities of all actions; those of masked actions are 0 and very low, yet finite."""
    mask = split_mask(observation)[1]
    policy = jax.vmap(Categorical.from_logits, in_axes=(0, None if mask is None else 0))(actor(observation), mask)
    return jnp.exp(policy.log_probabilities), policy.log_probabilities
