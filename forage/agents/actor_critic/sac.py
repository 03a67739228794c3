"""Soft actor-critic for continuous actions.

Haarnoja, Zhou, Hartikainen, Tucker, Ha, Tan, Kumar, Zhu, Gupta, Abbeel, Levine (2018), "Soft Actor-Critic Algorithms
and Applications", arXiv 1812.05905. With temperature alpha, entropy target H, a' ~ pi(.|s') and b ~ pi(.|s), each
update takes one step down each of, in this order,

    critics      sum_i (Q_i(s, a) - r - discount (1 - terminated) (min_j Q'_j(s', a') - alpha log pi(a'|s')))^2 / 2
    actor        alpha log pi(b|s) - min_i Q_i(s, b)
    temperature  -alpha (log pi(b|s) + H)

and moves the target critics Q' a little towards the critics. Choices beside numbers are learned as Hybrid SAC has it
(`forage.agents.actor_critic.hybrid`). Prioritised replay is a matter of the memory: the errors
returned are what it asks for, its weights multiply the critics' loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.agents.actor_critic import hybrid
from forage.agents.actor_critic.base import ActorCritic, ActorCriticState, CriticKeys, UpdateInputs
from forage.core import prng
from forage.core.ports import ActInputs, Metrics, State
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import MixedSpace
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.critics import CriticReport
from forage.nn.distributions import Actions, SquashedGaussian, squash_to
from forage.nn.networks import NetworkConfig, TorsoHead
from forage.nn.normalise import apply_norm, norms_for
from forage.nn.own import OwnTorso, SameOutput, is_plain_module, make_network
from forage.nn.state_noise import log_deviation, standardise_noise
from forage.ops.every import report_every
from forage.ops.losses import join_metrics, loss_gradient
from forage.ops.optimiser import Optimiser, blend
from forage.ops.rows import weighted_mean

CUT, SQUASHED = (-20.0, 2.0), (-10.0, 2.0)
"""Bounds of the logarithm of a policy's deviation: SAC's own, and those for a tanh."""

EDGE = 1 - 1e-5
"""Largest absolute action for densities: actions beyond count as this, because the density has no value at 1."""


class GaussianActor(TorsoHead):
    """Squashed Gaussians with a mean and a standard deviation that depend on the observation."""

    log_std: Float[Array, "features dimensions"] | None  # where noise depends on the state through the features
    actions: Actions = equinox.field(static=True)
    squashed: bool = equinox.field(static=True)  # a tanh brings the deviation's logarithm between its bounds

    def __init__(
        self,
        key: Key[Array, ""],
        spec: Spec,
        hidden_sizes: tuple[int, ...],
        style: NetworkConfig,
        squashed: bool = False,
        log_std: Any = None,
    ):
        """Make the networks. `log_std`: its first value, for noise that depends on the state; else `None`."""
        self.actions, self.squashed = Actions.from_space(spec.action_space), squashed
        dimensions = self.actions.outputs
        outputs = 2 * dimensions if log_std is None else dimensions
        super().__init__(key, spec.observation_space, hidden_sizes, style, outputs, head_gain=style.head_gain)
        self.log_std = None if log_std is None else jnp.full((self.torso.size, dimensions), log_std, jnp.float32)

    def __call__(self, observation: PyTree[Array]) -> SquashedGaussian:
        """Return the policies of a batch (leaves `batch ...`)."""
        return self.policies(self.torso.rows(observation))

    def apply_in_training(
        self, observation: PyTree[Array], counts: Bool[Array, " batch"]
    ) -> tuple[SquashedGaussian, GaussianActor]:
        """Return the policies while it learns, and the actor with its running statistics moved.

        `counts`: as for `Torso.apply_in_training`, of an actor with batch normalisation.
        """
        features, torso = self.torso.apply_in_training(observation, counts)
        return self.policies(features), equinox.tree_at(lambda actor: actor.torso, self, torso)

    def policies(self, features: Float[Array, "batch features"]) -> SquashedGaussian:
        if self.log_std is not None:
            mean = jnp.clip(self.head(features), -2.0, 2.0)  # the bounds of the authors' code for gSDE
            return SquashedGaussian(mean, log_deviation(self.log_std, features))
        mean, log_std = jnp.split(self.head(features), 2, axis=1)
        return SquashedGaussian(mean, squash_to(log_std, *SQUASHED) if self.squashed else jnp.clip(log_std, *CUT))


class OwnGaussianActor(GaussianActor):
    """An actor made of a plain module: its outputs are the means and the logarithms of the deviations."""

    def __init__(self, module: Any, spec: Spec):
        self.actions, self.squashed, self.log_std = Actions.from_space(spec.action_space), False, None
        meaning = "the means before the tanh, then the logarithms of the deviations"
        self.torso: Any = OwnTorso(module, spec, 2 * self.actions.outputs, meaning)
        self.head: Any = SameOutput()


def gaussian_actor(make: Callable[[], Any], spec: Spec, name: str) -> Any:
    """Return the actor that an agent's `make_actor` makes; a plain module becomes an `OwnGaussianActor`."""
    actor = make_network(make, f"make_actor of {name}")
    return OwnGaussianActor(actor, spec) if is_plain_module(actor) else actor


class SACState(ActorCriticState):
    log_temperature: Float[Array, ""]
    temperature_optimiser: Any
    log_choice_temperature: Float[Array, ""] | None = equinox.field(default=None, kw_only=True)  # of mixed actions
    choice_temperature_optimiser: Any = equinox.field(default=None, kw_only=True)


class ActorReport(NamedTuple):
    """The log-probabilities of the policy's actions in one step of the actor, and its loss."""

    log_probability: Float[Array, " batch"]
    loss: Float[Array, ""]
    metrics: Metrics = {}  # in addition, of an agent of one's own

    def __or__(self, metrics: Metrics) -> ActorReport:
        """Return the report with more metrics."""
        return self._replace(metrics=self.metrics | metrics)


class SAC(ActorCritic):
    """Soft actor-critic with a learned temperature (Haarnoja et al., 2018, arXiv 1812.05905; its table 1).

    Of mixed actions the choices have a temperature of their own (Delalleau et al., 2019, arXiv 1912.11077).
    """

    example: ClassVar[str] = "forage train sac Pendulum-v1"
    ranges: ClassVar[Ranges] = {"choice_entropy": Range(0, 1)}

    # A `State` below is a `SACState`, or that of an agent built on this one, which has more fields.

    stochastic: ClassVar[bool] = True
    signatures: ClassVar[dict[str, str]] = (
        ActorCritic.signatures
        | dict.fromkeys(("update", "evaluate", "improve", "target"), "state, inputs")
        | {"actor_loss": "actor, state, inputs"}
    )

    initial_temperature: float = 1.0
    target_entropy: float = -1.0  # entropy that the temperature aims at, in nats for each dimension of the action, in
    # the unit box; larger explores more
    learn_temperature: bool = equinox.field(static=True, default=True)  # learn the temperature; else it stays what it
    # is at first
    backup_entropy: bool = equinox.field(static=True, default=True)  # values count the entropy of later actions as
    # reward; without, only the policy's loss counts entropy
    squash_deviation: bool = equinox.field(static=True, default=False)  # a tanh brings the logarithm of the policy's
    # deviation between -10 and 2, so that it is near -4 at first; else it is cut at -20 and 2, and near 0
    state_dependent_noise: bool = equinox.field(static=True, default=False)  # noise depends on the state and changes
    # slowly (gSDE)
    initial_log_std: float = -3.0  # logarithm of the deviation of gSDE's noise at first, for each feature; the authors'
    # for SAC

    choice_entropy: float = (
        0.25  # entropy of the choices of mixed actions that their temperature aims at, as a share of
    )
    # that of choosing evenly among those allowed; larger explores more

    @property
    def needs(self) -> Needs:
        """Return the needs: numbers, also with choices if the class changes no method that knows mixed actions."""
        own = all(getattr(type(self), name) is getattr(SAC, name) for name in FOR_MIXED)
        return Needs(actions="bounded or bounded mixed" if own else "bounded")

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if isinstance(spec.action_space, MixedSpace):
            hybrid.check_combinations(type(self).__name__, spec)
            if self.state_dependent_noise:
                raise ForageError(
                    f"{type(self).__name__} has noise that depends on the state where all actions are numbers, and "
                    f"{spec.name} has choices; leave state_dependent_noise out."
                )

    def __check_init__(self):
        if self.squash_deviation and self.state_dependent_noise:
            raise ForageError(
                "Noise that depends on the state has a deviation of its own; leave state_dependent_noise out, or set "
                "squash_deviation to false."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> State:
        actor_key, critic_key = jax.random.split(key)
        norm, spec = norms_for(spec, self.normalise_observation), self.read_spec(spec)
        actor = gaussian_actor(lambda: self.make_actor(actor_key, spec), spec, type(self).__name__)
        critics = self.make_critics(critic_key, spec, actor.actions.outputs)
        log_temperature = jnp.log(jnp.asarray(self.initial_temperature, jnp.float32))
        optimiser = self.temperature_descent().init(log_temperature)
        choices: dict[str, Any] = {}
        if isinstance(actor, hybrid.HybridActor):
            choices = {"log_choice_temperature": log_temperature, "choice_temperature_optimiser": optimiser}
        return SACState(
            **choices,
            actor=actor,
            critics=critics,
            target_critics=jax.tree.map(jnp.copy, critics),
            log_temperature=log_temperature,
            actor_optimiser=self.policy_descent().init(actor),
            critic_optimiser=self.descent().init(critics),
            temperature_optimiser=optimiser,
            updates=jnp.int32(0),
            norm=norm,
        )

    def temperature_descent(self) -> Optimiser:
        """Return the optimiser of the temperature."""
        return self.policy_descent()

    def make_actor(self, key: Key[Array, ""], spec: Spec) -> Any:
        if isinstance(spec.action_space, MixedSpace):
            bounds = SQUASHED if self.squash_deviation else CUT
            sizes = self.hidden_sizes, self.style(), bounds, self.squash_deviation
            return self.with_first_weights(key, hybrid.HybridActor(key, spec, *sizes))
        log_std = self.initial_log_std if self.state_dependent_noise else None
        actor = GaussianActor(key, spec, self.hidden_sizes, self.style(), self.squash_deviation, log_std)
        return self.with_first_weights(key, actor)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        if isinstance(state.actor, hybrid.HybridActor):
            return hybrid.act(state, inputs)
        noise = inputs.noise
        observation = apply_norm(state.norm, inputs.observation)
        features = jax.vmap(state.actor.torso)(jax.tree.map(lambda x: x[None], observation))
        policy = jax.tree.map(lambda x: x[0], state.actor.policies(features))
        if noise is None:
            noise = jax.random.normal(inputs.key, policy.mean.shape)
        elif state.actor.log_std is not None:
            noise = standardise_noise(state.actor.log_std, features[0], noise)
        action = policy.from_noise(noise)[0] if inputs.explore else policy.mode()
        return state.actor.actions.to_box(action), inputs.hidden, ()

    def exploring(self, state: State, observation: PyTree[Array]) -> SquashedGaussian:
        """Return the policies that explore in a batch of observations as the networks read them."""
        return state.actor(observation)

    def log_probability(self, state: State, observation: PyTree[Array], action: PyTree[Array]) -> Float[Array, " row"]:
        observation = jax.vmap(lambda o: apply_norm(state.norm, o))(observation)
        if isinstance(state.actor, hybrid.HybridActor):
            return hybrid.log_probability(state.actor, observation, action, EDGE)
        policy = self.exploring(state, observation)
        unit = jax.vmap(state.actor.actions.action_features)(action)
        before = jnp.arctanh(jnp.clip(unit, -EDGE, EDGE))
        return policy.from_noise((before - policy.mean) / jnp.exp(policy.log_std))[1]

    def noise(self, spec: Spec) -> tuple[int, ...] | None:
        if isinstance(spec.action_space, MixedSpace):
            return None
        log_std = jax.eval_shape(lambda: self.init(prng.key(0), spec)).actor.log_std
        return (Actions.from_space(spec.action_space).outputs,) if log_std is None else log_std.shape

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        now, action = self.transitions(state, batch)
        shape = action.shape
        if isinstance(actor := state.actor, hybrid.HybridActor):
            shape = len(action), len(actor.combinations), actor.dimensions
        noise, next_noise = jax.random.normal(key, (2, *shape))
        weight, keys = batch.weight * now.counts, self.critic_keys(key)
        return self.update(state, UpdateInputs(now, action, weight, noise, next_noise, keys))

    def update(self, state: State, inputs: UpdateInputs) -> tuple[State, Metrics, Float[Array, " batch"]]:
        """Update the critics and, if it is time, actor and temperature; return the same as `learn`."""
        state, report = self.evaluate(state, inputs)
        temperature = jnp.exp(state.log_temperature)
        turn = lambda state: self.improve(state, inputs)  # noqa: E731
        state, of_actor = report_every(self.policy_delay, state.updates, turn, state)
        state = self.follow(state)
        metrics = {"critic_loss": report.loss, "actor_loss": of_actor.pop("actor_loss"), "value": report.value}
        metrics |= {"entropy": of_actor.pop("entropy"), "temperature": temperature}
        return state, join_metrics(metrics, report.metrics, of_actor), report.error * inputs.now.counts

    def follow(self, state: State) -> State:
        """Move the targets a little towards the critics."""
        return state._replace(target_critics=blend(state.critics, state.target_critics, self.polyak))

    def evaluate(self, state: State, inputs: UpdateInputs) -> tuple[State, CriticReport]:
        """Take one step of the critics towards their target."""
        target = self.target(state, inputs)
        gradient, report = loss_gradient(self.critic_loss, state.critics, inputs, target)
        return self.step_critics(state, gradient), report

    def improve(self, state: State, inputs: UpdateInputs) -> tuple[State, Metrics]:
        """Take one step of the actor, then one of the temperature."""
        state, report = self.improve_actor(state, inputs)
        if isinstance(report, hybrid.Entropies):
            return hybrid.step_temperatures(self, state, report, inputs)
        counts = inputs.now.counts
        if self.learn_temperature:
            dimensions = state.actor.actions.outputs
            gradient = jax.grad(self.temperature_loss)(
                state.log_temperature, report.log_probability, dimensions, counts
            )
            log_temperature, optimiser = self.temperature_descent().step(
                gradient, state.temperature_optimiser, state.log_temperature
            )
            state = state._replace(log_temperature=log_temperature, temperature_optimiser=optimiser)
        metrics = {"actor_loss": report.loss, "entropy": -weighted_mean(report.log_probability, counts)}
        return state, join_metrics(metrics, report.metrics)

    def improve_actor(self, state: State, inputs: UpdateInputs) -> tuple[State, Any]:
        """Take one step of the actor."""
        gradient, report = loss_gradient(self.actor_loss, state.actor, state, inputs)
        return self.step_actor(state, gradient), report

    def target(self, state: State, inputs: UpdateInputs) -> Float[Array, "*samples batch"]:
        """Compute r + discount (1 - terminated) times the soft value of s' and a' ~ pi(.|s')."""
        now = inputs.now
        if isinstance(state.actor, hybrid.HybridActor):
            value = hybrid.next_value(self, state, inputs)
        else:
            action, log_probability = state.actor(now.next_observation).from_noise(inputs.next_noise)
            value = self.soft_value(state, now.next_observation, action, log_probability, inputs.keys)
        return now.reward + self.discount * jnp.where(now.terminated, 0.0, value)

    def soft_value(
        self,
        state: State,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        log_probability: Float[Array, " batch"],
        keys: CriticKeys = CriticKeys(),  # noqa: B008
    ) -> Float[Array, "*samples batch"]:
        """Compute `next_value`, min_j Q'_j(s, a) as a rule, less alpha log pi(a|s).

        Without `backup_entropy` it is the first term alone.
        """
        value = self.next_value(state.target_critics, observation, action, keys)
        if not self.backup_entropy:
            return value
        return value - jnp.exp(state.log_temperature) * log_probability

    def actor_loss(self, actor: Any, state: State, inputs: UpdateInputs) -> tuple[Float[Array, ""], Any]:
        """Compute the mean of alpha log pi(b|s) - Q(s, b), b ~ pi(.|s), over rows that count; Q is `policy_value`.

        A subclass adds a term, and its metrics by `report | {"name": number}`; `inputs.key` is a random key.
        """
        if isinstance(actor, hybrid.HybridActor):
            return hybrid.actor_loss(self, actor, state, inputs)
        observation = inputs.now.observation
        action, log_probability = actor(observation).from_noise(inputs.noise)
        value = self.policy_value(state.critics, observation, action, inputs.keys.policy_q)
        loss = weighted_mean(jnp.exp(state.log_temperature) * log_probability - value, inputs.now.counts)
        return loss, ActorReport(log_probability, loss)

    def temperature_loss(
        self,
        log_temperature: Float[Array, ""],
        log_probability: Float[Array, " batch"],
        dimensions: int,
        counts: Bool[Array, " batch"] | None = None,
    ) -> Float[Array, ""]:
        """Compute -alpha mean(log pi + H): while the entropy is above its target, it falls as alpha does."""
        return -jnp.exp(log_temperature) * weighted_mean(log_probability + self.target_entropy * dimensions, counts)


FOR_MIXED = (
    *("make_actor", "act", "exploring", "log_probability", "learn", "update", "evaluate", "target", "soft_value"),
    *("improve", "improve_actor", "actor_loss", "temperature_loss"),
)
"""Methods that know mixed actions: a class that changes one of them is for numbers alone unless it declares needs."""
