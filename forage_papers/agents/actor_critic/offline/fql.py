"""Flow Q-learning: a flow imitates the data, and a policy of one step that stays near it maximises the critics.

Park, Li, Levine (2025), "Flow Q-Learning", arXiv 2502.02538. Three kinds of networks learn together; a policy draws its
action as mu(s, z), z standard normal. Each update takes one step of Adam down

    critics   mean (Q_i(s, a) - r - discount (1 - terminated) Q'(s', mu(s', z)))^2 / 2,   Q' the mean of the targets
    flow      mean |v(s, x_t, t) - (a - z)|^2,   x_t = (1 - t) z + t a                       (`nn/flow.py`)
    policy    -mean Q(s, mu(s, z)) + alpha mean |mu(s, z) - flow(s, z)|^2

Q is the mean of the critics, flow(s, z) where v carries z in `flow_steps` Euler steps, squares are means over the
action's numbers, and actions are cut to the unit box before a critic sees them. So the flow, which can take any shape,
is trained on the data alone, and no gradient goes back through its steps. Targets move after each update.

It learns from a data set, and as well from a replay memory, whose policy then explores by its own draws.

Losses, sizes and numbers are those of the authors' program (agents/fql.py of github.com/seohongpark/fql); the paper's
tables could not be looked up. There one Adam holds all networks, which is the same; targets move towards the critics as
they were before the step; a critic's layer is normalised after its activation, and here before; and weights begin
uniform in +-sqrt(6 / (inputs + outputs)) with biases at zero, here both in +-1 / sqrt(inputs).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.actor_critic.base import ActorCritic, ActorCriticState, CriticKeys, UpdateInputs, run_every
from forage.core.ports import ActInputs, Metrics
from forage.core.ports.needs import Choices, Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.critics import ActionValue, each_value
from forage.nn.distributions import Actions
from forage.nn.dormant import Units
from forage.nn.networks import NetworkConfig
from forage.ops.losses import loss_gradient
from forage.ops.optimiser import blend
from forage.ops.rows import weighted_mean
from forage_papers.nn.flow import integrate_field, matching_error

TARGETS = ("mean", "least")


class OneStep(ActionValue):
    """mu(s, z): an action in one step from noise, and no further out than the unit box once it is `cut`."""

    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, hidden_sizes: tuple[int, ...], style: NetworkConfig):
        self.actions = Actions.from_space(spec.action_space)
        outputs = self.actions.outputs
        super().__init__(key, spec.observation_space, outputs, hidden_sizes, style, outputs)

    def cut(
        self, observation: PyTree[Array], noise: Float[Array, "batch dimensions"]
    ) -> Float[Array, "batch dimensions"]:
        """Return the actions of a batch (leaves `batch ...`) within the unit box."""
        return jnp.clip(self.outputs(observation, noise), -1.0, 1.0)

    def units(self, observation: PyTree[Array], action: Float[Array, "batch dimensions"] | None = None) -> list[Units]:
        """Return the units of all layers but the last, of a batch, with noise that is the same every time."""
        if action is None:
            rows = len(jax.tree.leaves(observation)[0])
            action = jax.random.normal(jax.random.key(0), (rows, self.actions.outputs))
        return super().units(observation, action)


class FQLState(ActorCriticState):
    flow: ActionValue  # v(s, x, t): x and t beside the observation, as an action would be
    flow_optimiser: Any


class FQL(ActorCritic):
    """Flow Q-learning (Park et al., 2025, arXiv 2502.02538), from a data set or a replay memory."""

    example: ClassVar[str] = "forage train fql Pendulum-v1 --data mixed.npz"
    ranges: ClassVar[Ranges] = {"alpha": Range(0), "flow_steps": Range(1)}
    choices: ClassVar[Choices] = {"target_value": TARGETS}
    unused: ClassVar[Unused] = {
        "normalise_observation": ("FQL reads observations as they are", "take sac"),
        "quantiles": "Targets of flow Q-learning are the mean of all critics",
    }

    alpha: float = (
        10.0  # how strongly the policy stays near the flow, beside the critics' values; larger imitates more;
    )
    # the authors choose it for each task
    flow_steps: int = equinox.field(
        static=True, default=10
    )  # Euler steps from noise to an action of the flow, as there
    normalise_value: bool = equinox.field(static=True, default=False)  # values that the policy maximises are divided by
    # their mean size, so that alpha means the same for all rewards
    target_value: str = equinox.field(static=True, default="mean")  # what targets make of the critics' values: mean or
    # least; the authors take least where values grow too large
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(512, 512, 512, 512))  # layers of each network,
    # as in the authors' program
    activation: str | Callable[[Any], Any] = equinox.field(static=True, default="gelu")
    policy_q: str = equinox.field(static=True, default="mean")
    critic_norm: str = equinox.field(static=True, default="layer")

    def __check_init__(self):
        if self.target_value == "mean" and self.target_subset:
            raise ForageError("The mean of all critics has no target_subset; leave it out, or take target_value=least.")

    def init(self, key: Key[Array, ""], spec: Spec) -> FQLState:
        actor_key, flow_key, critic_key = jax.random.split(key, 3)
        style, space = NetworkConfig.from_agent(self), spec.observation_space
        actor = self.with_first_weights(actor_key, OneStep(actor_key, spec, self.hidden_sizes, style))
        outputs = actor.actions.outputs
        flow = self.with_first_weights(
            flow_key, ActionValue(flow_key, space, outputs + 1, self.hidden_sizes, style, outputs)
        )
        critics = self.make_critics(critic_key, spec, outputs)
        for_actor, for_flow, for_critics = (self.descent().init(network) for network in (actor, flow, critics))
        return FQLState(
            actor=actor,
            flow=flow,
            critics=critics,
            target_critics=jax.tree.map(jnp.copy, critics),
            actor_optimiser=for_actor,
            flow_optimiser=for_flow,
            critic_optimiser=for_critics,
            updates=jnp.int32(0),
        )

    def act(self, state: FQLState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        actions = state.actor.actions
        noise = jax.random.normal(inputs.key, (actions.outputs,)) if inputs.noise is None else inputs.noise
        batch = jax.tree.map(lambda x: x[None], (inputs.observation, noise))
        return actions.to_box(state.actor.cut(*batch)[0]), inputs.hidden, ()

    def noise(self, spec: Spec) -> tuple[int, ...]:
        return (Actions.from_space(spec.action_space).outputs,)

    def learn(
        self, state: FQLState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[FQLState, Metrics, Float[Array, " batch"]]:
        now, action = self.transitions(state, batch)
        weight, shape = batch.weight * now.counts, action.shape
        target_key, flow_key, noise_key = jax.random.split(key, 3)
        keys = self.critic_keys(key)
        inputs = UpdateInputs(now, action, weight, jax.random.normal(noise_key, shape), keys=keys)

        # Critics
        following = state.actor.cut(now.next_observation, jax.random.normal(target_key, shape))
        value = self.next_value(state.target_critics, now.next_observation, following, keys)
        target = now.reward + self.discount * jnp.where(now.terminated, 0.0, value)
        gradient, report = loss_gradient(self.critic_loss, state.critics, inputs, target)
        critics, critic_optimiser = self.descent().step(gradient, state.critic_optimiser, state.critics)

        # Flow, then the policy that follows it; both as all networks were before the update
        def turn(slow: tuple[Any, ...]) -> tuple[Any, ...]:
            actor, flow, actor_optimiser, flow_optimiser, targets = slow
            imitated = self.flow_to_end(flow, now.observation, inputs.noise)
            flow_gradient = jax.grad(self.flow_loss)(flow, now.observation, action, now.counts, flow_key)
            actor_gradient = jax.grad(self.actor_loss)(actor, state, inputs, imitated)
            actor, actor_optimiser = self.descent().step(actor_gradient, actor_optimiser, actor)
            flow, flow_optimiser = self.descent().step(flow_gradient, flow_optimiser, flow)
            return actor, flow, actor_optimiser, flow_optimiser, blend(critics, targets, self.polyak)

        slow = state.actor, state.flow, state.actor_optimiser, state.flow_optimiser, state.target_critics
        count = state.updates + 1
        actor, flow, actor_optimiser, flow_optimiser, targets = run_every(self.policy_delay, count, turn, slow)
        learned = state._replace(
            actor=actor,
            flow=flow,
            critics=critics,
            target_critics=targets,
            actor_optimiser=actor_optimiser,
            flow_optimiser=flow_optimiser,
            critic_optimiser=critic_optimiser,
            updates=count,
        )
        metrics = {"critic_loss": report.loss, "value": report.value} | report.metrics
        return learned, metrics, report.error * now.counts

    def next_value(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        keys: CriticKeys,
    ) -> Float[Array, " batch"]:
        """Compute the value that targets are made of: the mean of the target critics, or the least."""
        if self.target_value == "least":
            return super().next_value(critics, observation, action, keys)
        return each_value(critics, observation, action, key=keys.target).mean(0)

    def flow_to_end(
        self, flow: ActionValue, observation: PyTree[Array], noise: Float[Array, "batch dimensions"]
    ) -> Float[Array, "batch dimensions"]:
        """Return the end of the flow from noise, within the unit box."""
        return jnp.clip(integrate_field(self.field(flow, observation), noise, self.flow_steps), -1.0, 1.0)

    def field(self, flow: ActionValue, observation: PyTree[Array]) -> Callable[..., Any]:
        """Return the velocities v(x, t) at these observations."""
        return lambda x, time: flow.outputs(observation, jnp.concatenate([x, time], axis=-1))

    def flow_loss(
        self,
        flow: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        counts: Any,
        key: Key[Array, ""],
    ) -> Float[Array, ""]:
        """Compute the flow's matching error on the actions of the data."""
        return weighted_mean(matching_error(self.field(flow, observation), action, key), counts)

    def actor_loss(
        self, actor: OneStep, state: FQLState, inputs: UpdateInputs, imitated: Float[Array, "batch dimensions"]
    ) -> Float[Array, ""]:
        """Compute the policy's loss above. `imitated`: the flow's actions from the same noise."""
        observation, counts = inputs.now.observation, inputs.now.counts
        action = actor.outputs(observation, inputs.noise)
        distance = weighted_mean(jnp.mean((action - imitated) ** 2, axis=-1), counts)
        value = self.policy_value(state.critics, observation, jnp.clip(action, -1.0, 1.0), inputs.keys.policy_q)
        size = jax.lax.stop_gradient(weighted_mean(jnp.abs(value), counts)) if self.normalise_value else 1.0
        return self.alpha * distance - weighted_mean(value, counts) / jnp.maximum(size, 1e-8)
