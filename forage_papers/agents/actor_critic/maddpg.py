"""MADDPG: for each member of a team a policy, and a critic of all members' observations and actions.

Lowe, Wu, Tamar, Harb, Abbeel, Mordatch (2017), "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive
Environments", arXiv 1706.02275. Member i has a policy pi_i of its own observation o_i and its own reward r_i. With
x = (o_1, ..., o_N) and slowly moving copies marked ', each update takes one step down

    critics    (Q_i(x, a_1, ..., a_N) - r_i - discount (1 - terminated_i) Q'_i(x', a'_1, ..., a'_N))^2
               a'_j = pi'_j(o'_j)
    policies   -Q_i(x, a_1, ..., pi_i(o_i), ..., a_N)  +  regularisation (mean square of pi_i's outputs)

for all i, the other actions being those that were taken. Without `central_critic` Q_i sees o_i and a_i alone, which is
DDPG for each member (the authors' `local_q_func`). Continuous policies are deterministic and explore by normal noise;
numbered actions are draws, a = argmax(logits + Gumbel noise), whose gradient is that of softmax(logits + noise).

Differences from the authors' program (`openai/maddpg`): numbered actions are passed on as the choice itself, with the
gradient of the relaxed one, where it passes on the relaxed one, as environments here take numbers; continuous policies
are deterministic as in the paper, there normal ones with a learned deviation; gradients are bounded by their norm for
each member's network, there for each array. Members have the same spaces here, and one policy only for each; the
paper's ensembles, and its estimates of the others' policies, are not here.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.actor_critic.base import UpdateInputs
from forage.core import spaces
from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.nn.critics import ActionValue, stack_modules
from forage.nn.networks import NetworkConfig
from forage.ops.losses import LossReport, join_metrics, loss_gradient
from forage.ops.optimiser import Optimiser, blend, make_named_optimiser
from forage.ops.rows import weighted_mean
from forage_papers.nn.team_policies import Actor, TeamActions, draw_actions


class MADDPGState(NamedTuple):
    """Networks of all members and their optimisers, leaves `agent ...`."""

    actors: Actor
    critics: ActionValue
    targets: tuple[Actor, ActionValue]
    optimisers: tuple[Any, Any]  # of policies and of critics


class MADDPG(Agent):
    """Multi-agent deterministic policy gradients (Lowe et al., 2017, arXiv 1706.02275), with the authors' settings.

    It runs in environments of two agents or more.
    """

    example: ClassVar[str] = "forage train maddpg teams:TwoStep --steps 20k --learning-starts 1000"
    ranges: ClassVar[Ranges] = {"exploration_noise": Range(0), "regularisation": Range(0)}

    on_policy: ClassVar[bool] = False
    joint: ClassVar[bool] = True
    acting: ClassVar[str] = "actors"
    needs: ClassVar[Needs] = Needs("numbered or bounded", "any", "team", instead="use td3 or sac-discrete there")

    learning_rate: float = 1e-2  # step size of policies and critics; the authors'
    discount: float = 0.95  # worth of a reward one step later; the authors'
    polyak: float = 0.01  # how far targets move after each update; the authors'
    max_gradient_norm: float = 0.5  # bound of the gradient of each member's network; the authors'
    exploration_noise: float = 0.1  # standard deviation of the noise on continuous actions, in the unit box; larger
    # explores more
    regularisation: float = 1e-3  # weight of the policy's squared outputs, against choices that are too sure; the
    # authors'
    num_envs: int = equinox.field(static=True, default=4)
    rollout_length: int = equinox.field(static=True, default=25)
    updates_per_rollout: int = equinox.field(static=True, default=1)  # one in a hundred steps; the authors'
    batch_size: int = equinox.field(static=True, default=1024)  # transitions of the team; the authors'
    learning_starts: int = equinox.field(static=True, default=25_600)  # the authors', 25 times the batch
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # units of each layer; the authors'
    activation: str = equinox.field(static=True, default="relu")  # function between layers; the authors'
    optimiser: str = equinox.field(static=True, default="adam")  # the optimiser of all networks; the authors'
    central_critic: bool = equinox.field(static=True, default=True)  # each critic sees all observations and actions;
    # false: its own member's alone

    def init(self, key: Key[Array, ""], spec: Spec) -> MADDPGState:
        actor_key, critic_key = jax.random.split(key)
        number, seen = spec.num_agents, spaces.observation_part(spec.observation_space)
        actors = stack_modules(lambda k: Actor(k, spec, self.hidden_sizes, self.activation), actor_key, number)
        size = actors.actions.outputs
        if self.central_critic:
            seen, size = gymnasium.spaces.Dict({str(i): seen for i in range(number)}), number * size
        style = NetworkConfig(self.activation)
        critics = stack_modules(lambda k: ActionValue(k, seen, size, self.hidden_sizes, style), critic_key, number)
        begin = jax.vmap(self.descent().init)
        return MADDPGState(actors, critics, jax.tree.map(jnp.copy, (actors, critics)), (begin(actors), begin(critics)))

    def init_hidden(self, spec: Spec) -> Float[Array, " agent"]:
        return jnp.zeros(spec.num_agents)

    def member(self, hidden: Float[Array, " agent"], number: Int[Array, ""]) -> Float[Array, " agent"]:
        return jax.nn.one_hot(number, hidden.size)

    def descent(self) -> Optimiser:
        return make_named_optimiser(self.optimiser, self.learning_rate, self.max_gradient_norm)

    def act(self, state: MADDPGState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        actors, (seen, mask) = state.actors, spaces.split_mask(inputs.observation)
        # The outputs of all members, of which one counts: no copy of weights for each team
        outputs = inputs.hidden @ jax.vmap(lambda actor: actor(seen))(actors)
        draw = jax.random.gumbel if actors.actions.discrete else jax.random.normal
        noise = draw(inputs.key, outputs.shape) if inputs.explore else jnp.zeros_like(outputs)
        action = actors.choose(outputs, mask, noise)
        if actors.actions.discrete:
            return action.argmax().astype(jnp.int32), inputs.hidden, ()
        action = jnp.clip(action + self.exploration_noise * noise, -1.0, 1.0)
        return actors.actions.to_box(action), inputs.hidden, ()

    def learn(
        self, state: MADDPGState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[MADDPGState, Metrics, Float[Array, " batch"]]:
        now = batch.transitions
        taken = jax.vmap(jax.vmap(state.actors.actions.action_features))(now.action)
        noise, next_noise = jax.random.gumbel(key, (2, *taken.shape))
        inputs = UpdateInputs(now, taken, batch.weight, noise, next_noise)
        step = jax.vmap(self.descent().step)

        gradient, (error, of_critics) = loss_gradient(self.critic_loss, state.critics, state, inputs)
        critics, critic_optimiser = step(gradient, state.optimisers[1], state.critics)
        gradient, of_actors = loss_gradient(self.actor_loss, state.actors, critics, inputs)
        actors, actor_optimiser = step(gradient, state.optimisers[0], state.actors)
        targets = blend((actors, critics), state.targets, self.polyak)
        state = MADDPGState(actors, critics, targets, (actor_optimiser, critic_optimiser))
        return state, join_metrics(of_critics, of_actors), jnp.abs(error).mean(-1)

    def critic_loss(
        self, critics: ActionValue, state: MADDPGState, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], LossReport]:
        """Compute the sum over members of their critic's mean squared error; also return the errors."""
        now, (target_actors, target_critics) = inputs.now, state.targets
        following = draw_actions(target_actors, now.next_observation, inputs.next_noise)[0]
        later = self.values(target_critics, now.next_observation, following, following)
        target = jax.lax.stop_gradient(now.reward + self.discount * jnp.where(now.terminated, 0.0, later))
        value = self.values(critics, now.observation, inputs.action, inputs.action)
        error = (target - value) * now.counts
        loss = jnp.mean(inputs.weight[:, None] * error**2, 0)
        return loss.sum(), LossReport(error, {"critic_loss": loss.mean(), "value": weighted_mean(value, now.counts)})

    def actor_loss(self, actors: Actor, critics: ActionValue, inputs: UpdateInputs) -> tuple[Float[Array, ""], Metrics]:
        """Compute the sum over members of their policy's loss, with the other members' actions of the batch."""
        own, outputs = draw_actions(actors, inputs.now.observation, inputs.noise)
        value = self.values(critics, inputs.now.observation, own, inputs.action)
        loss = jnp.mean(inputs.now.counts * (self.regularisation * jnp.mean(outputs**2, -1) - value), 0)
        return loss.sum(), {"actor_loss": loss.mean()}

    def values(
        self, critics: ActionValue, observation: PyTree[Array], own: TeamActions, others: TeamActions
    ) -> Float[Array, "batch agent"]:
        """Return Q_i of each member i's `own` action and the `others`', for observations `batch agent ...`."""
        seen = jax.tree.map(lambda x: x.swapaxes(0, 1), spaces.split_mask(observation)[0])
        if not self.central_critic:
            return jax.vmap(lambda critic, o, a: critic(o, a))(critics, seen, own.swapaxes(0, 1)).T
        members = own.shape[1]
        all_seen = {str(member): jax.tree.map(lambda x, i=member: x[i], seen) for member in range(members)}
        action = jnp.where(jnp.eye(members, dtype=bool)[:, None, :, None], own, others)
        return jax.vmap(lambda critic, a: critic(all_seen, a))(critics, action.reshape(members, len(own), -1)).T
