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
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import Agent, Metrics, State
from forage.core.spaces import check_bounded, seen
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.critics import ActionValue, CriticReport, squared_error, twin_values, twins
from forage.nn.distributions import Actions
from forage.nn.networks import Linear, Style, Torso, input_size
from forage.ops.minibatches import weighted_mean
from forage.ops.optimiser import Optimiser, blend, named


class Actor(equinox.Module):
    """One action in the unit box for each observation."""

    torso: Torso
    head: Linear
    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, hidden_sizes: tuple[int, ...], style: Style):
        torso_key, head_key = jax.random.split(key)
        self.actions = Actions.of(spec.action_space)
        self.torso = Torso(torso_key, spec.observation_space, hidden_sizes, style)
        self.head = Linear(head_key, self.torso.size, self.actions.outputs)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, "batch dimensions"]:
        """Return the actions of a batch (leaves `batch ...`)."""
        return jnp.tanh(self.head(self.torso.rows(observation)))


class TD3State(NamedTuple):
    actor: Actor
    critics: ActionValue  # leaves [critic, ...]
    target_actor: Actor
    target_critics: ActionValue
    actor_optimiser: Any
    critic_optimiser: Any
    updates: Int[Array, ""]


def first(critics: ActionValue) -> ActionValue:
    """Return the one of the critics that TD3's policy follows."""
    return jax.tree.map(lambda x: x[0], critics)


class TD3(Agent):
    """Twin delayed DDPG (Fujimoto et al., 2018, arXiv 1802.09477; sizes of the authors' later code)."""

    example: ClassVar[str] = "forage train td3 Pendulum-v1"

    # A `State` below is a `TD3State`, or that of an agent built on this one, which has more fields.

    on_policy: ClassVar[bool] = False
    acting: ClassVar[str] = "actor"
    critics: ClassVar[int] = 2  # critics, of whose targets the smallest counts; the policy follows the first

    learning_rate: float = 3e-4
    discount: float = 0.99
    polyak: float = 0.005  # how far each policy update moves the targets towards the networks
    exploration_noise: float = 0.1  # standard deviation of the noise on actions, in the unit box; larger explores more
    target_noise: float = 0.2  # standard deviation of target policy smoothing, in the unit box; larger smooths target
    # values more
    target_noise_clip: float = 0.5  # bound of that noise, in the unit box; larger smooths target values more widely
    policy_delay: int = equinox.field(static=True, default=2)  # critic updates for each update of policy and targets
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

    def check(self, spec: Spec) -> None:
        check_bounded(type(self).__name__, spec)
        input_size(seen(spec.observation_space))

    def init(self, key: Key[Array, ""], spec: Spec) -> State:
        actor_key, critic_key = jax.random.split(key)
        style = Style.of(self)
        actor = Actor(actor_key, spec, self.hidden_sizes, style)
        dimensions = actor.actions.outputs
        sizes = self.value_sizes or self.hidden_sizes
        make = lambda k: ActionValue(k, spec.observation_space, dimensions, sizes, style)  # noqa: E731
        critics = twins(make, critic_key, self.critics)
        targets = jax.tree.map(jnp.copy, (actor, critics))
        optimiser = self.descent()
        return TD3State(
            actor, critics, targets[0], targets[1], optimiser.init(actor), optimiser.init(critics), jnp.int32(0)
        )

    def descent(self) -> Optimiser:
        return named(self.optimiser, self.learning_rate)

    def act(
        self,
        state: State,
        hidden: PyTree[Array],
        observation: PyTree[Array],
        key: Key[Array, ""],
        explore: bool,
        noise: Float[Array, " dimensions"] | None = None,
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        action = state.actor(jax.tree.map(lambda x: x[None], observation))[0]
        if explore:
            noise = jax.random.normal(key, action.shape) if noise is None else noise
            action = jnp.clip(action + self.exploration_noise * noise, -1.0, 1.0)
        return state.actor.actions.to_box(action), hidden, ()

    def noise(self, spec: Spec) -> tuple[int, ...]:
        return (Actions.of(spec.action_space).outputs,)

    def learn(
        self, state: State, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, Metrics, Float[Array, " batch"]]:
        now = jax.tree.map(lambda x: x[0], batch.experience)  # segments of one transition
        action = jax.vmap(state.actor.actions.heard)(now.action)
        gradient, error, metrics = self.critic_gradient(state, now, action, batch.weight * now.counts, key)
        return self.step(state, gradient, now.observation, now.counts), metrics, error * now.counts

    def critic_gradient(
        self,
        state: State,
        now: Experience,
        action: Float[Array, "batch dimensions"],
        weight: Float[Array, " batch"],
        key: Key[Array, ""],
    ) -> tuple[ActionValue, Float[Array, " batch"], Metrics]:
        """Compute the gradient of the critics' loss, each transition's error, and metrics."""
        noise = jax.random.normal(key, action.shape)
        target = self.target(state, now.reward, now.next_observation, now.terminated, noise)
        gradient, (error, critic_loss, value) = jax.grad(self.critic_loss, has_aux=True)(
            state.critics, now.observation, action, target, weight
        )
        return gradient, error, {"critic_loss": critic_loss, "value": value}

    def step(
        self,
        state: State,
        gradient: ActionValue,
        observation: PyTree[Array],
        counts: Bool[Array, " batch"] | None = None,
    ) -> State:
        """Take one step of the critics down their gradient and, when it is time, one of the policy and the targets.

        `counts`: where the policy learns; `None`: everywhere.
        """
        critics, critic_optimiser = self.descent().step(gradient, state.critic_optimiser, state.critics)
        count = state.updates + 1
        # A loop of at most one turn rather than `cond`: under `vmap` over seeds a loop runs only when some seed needs
        # it, whereas both branches of a `cond` would run at every update.
        slow = (state.actor, state.actor_optimiser, state.target_actor, state.target_critics)
        turns = jnp.where(count % self.policy_delay == 0, 1, 0)
        turn = lambda _, slow: self.delayed(slow, state, critics, observation, counts)  # noqa: E731
        actor, actor_optimiser, target_actor, target_critics = jax.lax.fori_loop(0, turns, turn, slow)
        return state._replace(
            actor=actor,
            critics=critics,
            target_actor=target_actor,
            target_critics=target_critics,
            actor_optimiser=actor_optimiser,
            critic_optimiser=critic_optimiser,
            updates=count,
        )

    def followed(self, state: State, critics: ActionValue) -> ActionValue:
        """Return the one of the critics that the policy follows."""
        return first(critics)

    def target(
        self,
        state: State,
        reward: Float[Array, " batch"],
        next_observation: PyTree[Array],
        terminated: Bool[Array, " batch"],
        noise: Float[Array, "batch dimensions"],
    ) -> Float[Array, " batch"]:
        """Compute r + discount (1 - terminated) min_j Q'_j(s', a'), a' being the target policy's action, smoothed."""
        noise = jnp.clip(self.target_noise * noise, -self.target_noise_clip, self.target_noise_clip)
        action = jnp.clip(state.target_actor(next_observation) + noise, -1.0, 1.0)
        value = twin_values(state.target_critics, next_observation, action).min(0)
        return reward + self.discount * jnp.where(terminated, 0.0, value)

    def critic_loss(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        target: Float[Array, " batch"],
        weight: Float[Array, " batch"],
    ) -> tuple[Float[Array, ""], CriticReport]:
        """Compute the `squared_error` of all critics."""
        values = twin_values(critics, observation, action)
        return squared_error(values, target, weight)

    def actor_loss(
        self,
        actor: Actor,
        critic: ActionValue,
        observation: PyTree[Array],
        counts: Bool[Array, " batch"] | None = None,
    ) -> Float[Array, ""]:
        """Compute the mean of -Q(s, pi(s)) over what counts."""
        return -weighted_mean(critic(observation, actor(observation)), counts)

    def delayed(
        self,
        slow: tuple[Actor, Any, Actor, ActionValue],
        state: State,
        critics: ActionValue,
        observation: PyTree[Array],
        counts: Bool[Array, " batch"] | None,
    ) -> tuple[Actor, Any, Actor, ActionValue]:
        """Take one step of the policy, then one of both targets."""
        actor, actor_optimiser, target_actor, target_critics = slow
        gradient = jax.grad(self.actor_loss)(actor, self.followed(state, critics), observation, counts)
        actor, actor_optimiser = self.descent().step(gradient, actor_optimiser, actor)
        target_actor, target_critics = blend((actor, critics), (target_actor, target_critics), self.polyak)
        return actor, actor_optimiser, target_actor, target_critics
