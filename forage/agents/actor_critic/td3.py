"""Twin delayed deep deterministic policy gradient.

Fujimoto, van Hoof, Meger (2018), "Addressing Function Approximation Error in Actor-Critic Methods", arXiv 1802.09477.
Targets, marked ', come from slowly moving copies of the networks. Each update takes a step down

    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) min_j Q'_j(s', a'))^2 / 2
              a' = clip(pi'(s') + clip(e, -target_noise_clip, target_noise_clip), -1, 1),  e ~ N(0, target_noise^2)

and every `policy_delay`-th one also a step down -Q_1(s, pi(s)), after which the targets move. Actions are in the unit
box. Prioritised replay is a matter of the memory: the errors returned are what it asks for, its weights multiply the
critics' loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.actor_critic.base import ActorCritic, ActorCriticState, UpdateInputs
from forage.core.ports import ActInputs, Metrics, State
from forage.core.types import Batch, Clock, Spec
from forage.nn.critics import ActionValue
from forage.nn.distributions import Actions
from forage.nn.networks import NetworkConfig, TorsoHead
from forage.nn.normalise import apply_norm, norms_for
from forage.nn.own import OwnTorso, SameOutput, is_plain_module, make_network
from forage.ops.every import report_every
from forage.ops.losses import join_metrics, loss_gradient
from forage.ops.optimiser import blend
from forage.ops.rows import weighted_mean


class DeterministicActor(TorsoHead):
    """One action in the unit box for each observation."""

    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, hidden_sizes: tuple[int, ...], style: NetworkConfig):
        self.actions, gain = Actions.from_space(spec.action_space), style.head_gain
        super().__init__(key, spec.observation_space, hidden_sizes, style, self.actions.outputs, head_gain=gain)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, "batch dimensions"]:
        """Return the actions of a batch (leaves `batch ...`)."""
        return jnp.tanh(self.head(self.torso.rows(observation)))


class OwnDeterministicActor(DeterministicActor):
    """An actor made of a plain module: the action is the tanh of its outputs."""

    def __init__(self, module: Any, spec: Spec):
        self.actions = Actions.from_space(spec.action_space)
        self.torso: Any = OwnTorso(module, spec, self.actions.outputs, "the action before the tanh")
        self.head: Any = SameOutput()


def deterministic_actor(make: Callable[[], Any], spec: Spec, name: str) -> Any:
    """Return the actor that an agent's `make_actor` makes; a plain module becomes an `OwnDeterministicActor`."""
    actor = make_network(make, f"make_actor of {name}")
    return OwnDeterministicActor(actor, spec) if is_plain_module(actor) else actor


class TD3State(ActorCriticState):
    target_actor: DeterministicActor


class TD3(ActorCritic):
    """Twin delayed DDPG (Fujimoto et al., 2018, arXiv 1802.09477; sizes of the authors' later code)."""

    example: ClassVar[str] = "forage train td3 Pendulum-v1"

    # A `State` below is a `TD3State`, or that of an agent built on this one, which has more fields.

    signatures: ClassVar[dict[str, str]] = ActorCritic.signatures | {
        "target": "state, inputs",
        "actor_loss": "actor, state, inputs",
    }

    exploration_noise: float = 0.1  # standard deviation of the noise on actions, in the unit box; larger explores more
    target_noise: float = 0.2  # standard deviation of target policy smoothing, in the unit box; larger smooths target
    # values more
    target_noise_clip: float = 0.5  # bound of that noise, in the unit box; larger smooths target values more widely
    policy_delay: int = equinox.field(static=True, default=2)  # critic updates for each update of policy and targets
    policy_q: str = equinox.field(static=True, default="first")

    def init(self, key: Key[Array, ""], spec: Spec) -> State:
        actor_key, critic_key = jax.random.split(key)
        norm, spec = norms_for(spec, self.normalise_observation), self.read_spec(spec)
        actor = deterministic_actor(lambda: self.make_actor(actor_key, spec), spec, type(self).__name__)
        critics = self.make_critics(critic_key, spec, actor.actions.outputs)
        target_actor, target_critics = jax.tree.map(jnp.copy, (actor, critics))
        return TD3State(
            actor=actor,
            critics=critics,
            target_actor=target_actor,
            target_critics=target_critics,
            actor_optimiser=self.descent().init(actor),
            critic_optimiser=self.descent().init(critics),
            updates=jnp.int32(0),
            norm=norm,
        )

    def make_actor(self, key: Key[Array, ""], spec: Spec) -> Any:
        return self.with_first_weights(key, DeterministicActor(key, spec, self.hidden_sizes, self.style()))

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        noise = inputs.noise
        observation = apply_norm(state.norm, inputs.observation)
        action = state.actor(jax.tree.map(lambda x: x[None], observation))[0]
        if inputs.explore:
            noise = jax.random.normal(inputs.key, action.shape) if noise is None else noise
            action = self.noisy(action, self.exploration_noise * noise)
        return state.actor.actions.to_box(action), inputs.hidden, ()

    def noisy(
        self, action: Float[Array, "*batch dimensions"], noise: Float[Array, "*batch dimensions"]
    ) -> Float[Array, "*batch dimensions"]:
        """Return actions with noise, no further than the bounds."""
        return jnp.clip(action + noise, -1.0, 1.0)

    def noise(self, spec: Spec) -> tuple[int, ...]:
        return (Actions.from_space(spec.action_space).outputs,)

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        now, action = self.transitions(state, batch)
        inputs = UpdateInputs(now, action, batch.weight * now.counts, keys=self.critic_keys(key))
        gradient, error, metrics = self.critic_gradient(state, inputs, key)
        state, of_actor = self.step(state, gradient, inputs)
        return state, join_metrics(metrics, of_actor), error * now.counts

    def critic_gradient(
        self, state: State, inputs: UpdateInputs, key: Key[Array, ""]
    ) -> tuple[ActionValue, Float[Array, " batch"], Metrics]:
        """Compute the gradient of the critics' loss, each transition's error, and metrics."""
        inputs = inputs._replace(next_noise=jax.random.normal(key, inputs.action.shape))
        target = self.target(state, inputs)
        gradient, report = loss_gradient(self.critic_loss, state.critics, inputs, target)
        metrics = join_metrics({"critic_loss": report.loss, "value": report.value}, report.metrics)
        return gradient, report.error, metrics

    def step(self, state: State, gradient: ActionValue, inputs: UpdateInputs) -> tuple[State, Metrics]:
        """Take one step of the critics down their gradient and, if it is time, one of the policy and the targets.

        Also return the metrics of the policy's loss.
        """
        state = self.step_critics(state, gradient)
        slow = state.actor, state.actor_optimiser, state.target_actor, state.target_critics
        turn = lambda slow: self.delayed_step(slow, state, inputs)  # noqa: E731
        slow, metrics = report_every(self.policy_delay, state.updates, turn, slow)
        actor, actor_optimiser, target_actor, target_critics = slow
        state = state._replace(
            actor=actor,
            target_actor=target_actor,
            target_critics=target_critics,
            actor_optimiser=actor_optimiser,
        )
        return state, metrics

    def policy_critics(self, state: State, critics: ActionValue) -> ActionValue:
        """Return the critics that the policy follows, as the option `policy_q` selects them."""
        return critics

    def target(self, state: State, inputs: UpdateInputs) -> Float[Array, "*samples batch"]:
        """Compute r + discount (1 - terminated) min_j Q'_j(s', a'), a' being the target policy's action, smoothed.

        `inputs.keys` draw which critics j are asked, and what they drop.
        """
        now = inputs.now
        noise = jnp.clip(self.target_noise * inputs.next_noise, -self.target_noise_clip, self.target_noise_clip)
        action = self.noisy(state.target_actor(now.next_observation), noise)
        value = self.next_value(state.target_critics, now.next_observation, action, inputs.keys)
        return now.reward + self.discount * jnp.where(now.terminated, 0.0, value)

    def actor_loss(
        self, actor: DeterministicActor, state: State, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the mean of -Q(s, pi(s)) over the rows that count; Q is `policy_value`. The action has no effect.

        A subclass adds a term, and its metrics to those returned; `inputs.key` is a random key.
        """
        observation = inputs.now.observation
        value = self.policy_value(state.critics, observation, actor(observation))
        return -weighted_mean(value, inputs.now.counts), {}

    def delayed_step(
        self, slow: tuple[DeterministicActor, Any, DeterministicActor, ActionValue], state: State, inputs: UpdateInputs
    ) -> tuple[tuple[DeterministicActor, Any, DeterministicActor, ActionValue], Metrics]:
        """Take one step of the policy, then one of both targets. Also return the metrics of the policy's loss."""
        actor, actor_optimiser, target_actor, target_critics = slow
        followed = state._replace(critics=self.policy_critics(state, state.critics))
        gradient, metrics = loss_gradient(self.actor_loss, actor, followed, inputs)
        actor, actor_optimiser = self.descent().step(gradient, actor_optimiser, actor)
        target_actor, target_critics = blend((actor, state.critics), (target_actor, target_critics), self.polyak)
        return (actor, actor_optimiser, target_actor, target_critics), metrics
