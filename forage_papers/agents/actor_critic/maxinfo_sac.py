"""MaxInfoSAC: soft actor-critic with a reward for informative transitions, weighted towards a target of information.

Sukhija, Coros, Krause, Abbeel, Sferrazza (2024), "MaxInfoRL: Boosting exploration in reinforcement learning through
information gain maximization", arXiv 2412.12098. An ensemble predicts what follows, x = (s' - s, r), from (s, a); what
is learned from a transition is bounded by how far its members disagree beyond the noise:

    I(s, a) = mean_k log(1 + Var_m(x_mk) / noise_variance)          standardised over what was met

With temperature alpha, weight beta of information, a' ~ pi(.|s'), b ~ pi(.|s) and c ~ pi'(.|s) from a policy pi' that
follows slowly, each update takes one step down each of

    critics      sum_i (Q_i(s, a) - r - discount (1 - terminated) (min_j Q'_j(s', a') - alpha log pi(a'|s')
                                                                   + beta I(s', a')))^2 / 2
    actor        alpha log pi(b|s) - beta I(s, b) - min_i Q_i(s, b)
    temperature  -alpha (log pi(b|s) + H)
    information  log beta (I(s, b) - I(s, c))
    ensemble     sum_m mean (x_m - x)^2                              of standardised inputs and targets

so beta falls while the policy learns more than pi' does, and rises when it learns less.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.agents.actor_critic.base import CriticKeys, UpdateInputs
from forage.agents.actor_critic.sac import SAC, ActorReport, GaussianActor, SACState
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.spaces import describe_space, observation_part, split_mask
from forage.core.types import MODEL, NOBODY, Batch, Clock, ForageError, Spec
from forage.nn.distributions import Actions
from forage.nn.networks import input_size
from forage.nn.normalise import RunningNorm
from forage.ops.optimiser import blend
from forage.ops.rows import weighted_mean
from forage_papers.nn.ensemble import Ensemble, prediction_variance


class World(NamedTuple):
    """The dynamics model: an ensemble and its norms."""

    ensemble: Ensemble
    optimiser: Any
    inputs: RunningNorm
    outputs: RunningNorm
    gains: RunningNorm


class MaxInfoSACState(SACState):
    target_actor: GaussianActor
    log_information: Float[Array, ""]
    information_optimiser: Any
    world: World


class MaxInfoSAC(SAC):
    """SAC with information gain (Sukhija et al., 2024, arXiv 2412.12098), its weight tuned as its temperature is.

    Observations are boxes or numbers; the paper's features of images are not here. `noise_variance` is that of targets
    of unit spread, and as small as in the authors' code, so that even slight disagreement tells. What the ensemble sees
    and its gain are standardised by about the last million rows and, unlike there, clipped at 10. There learning begins
    at once, and no action is drawn blindly; here both wait for 1000 steps. There policy and critics begin orthogonal,
    with gain sqrt 2 and biases of zero (`--first-weights orthogonal`), logarithms of deviations stay above -10, its
    temperature goes down -log alpha (log pi + H), which Adam hardly tells from SAC's loss, and a batch counts among
    what was met only after the critics' step (its inputs after the policy's), not before.
    """

    example: ClassVar[str] = "forage train maxinfo-sac MountainCarContinuous-v0"
    ranges: ClassVar[Ranges] = {"noise_variance": Range(0, above=True)}

    initial_information: float = 1.0  # weight of the information gain at first; larger explores more
    noise_variance: float = 1e-6  # variance of the noise in what the ensemble predicts, standardised; larger makes
    # small disagreement count less
    members: int = equinox.field(static=True, default=5)  # networks of the ensemble; more tell better what is unknown,
    # at more computing
    learn_information: bool = equinox.field(static=True, default=True)  # learn that weight; else it stays what it is at
    # first

    def check(self, spec: Spec) -> None:
        super().check(spec)
        space = observation_part(spec.observation_space)
        plain = isinstance(space, gymnasium.spaces.Box) and len(space.shape) < 3
        if not plain and not isinstance(space, gymnasium.spaces.Discrete):
            raise ForageError(
                f"MaxInfoSAC predicts boxes and numbers, and {spec.name} shows {describe_space(space)}; flatten it, "
                f"or try "
                f"sac with --rewards rnd."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> MaxInfoSACState:
        sac_key, world_key = jax.random.split(key)
        sac = super().init(sac_key, spec)
        inputs, actions = (
            input_size(observation_part(spec.observation_space)),
            Actions.from_space(spec.action_space).outputs,
        )
        sizes = (inputs + actions, *self.hidden_sizes, inputs + 1)
        ensemble, optimiser = Ensemble(world_key, self.members, sizes, "silu", 2**0.5), self.descent()
        norms = (
            RunningNorm.from_shape((inputs + actions,)),
            RunningNorm.from_shape((inputs + 1,)),
            RunningNorm.from_shape(()),
        )
        log_information = jnp.log(jnp.asarray(self.initial_information, jnp.float32))
        return MaxInfoSACState.extend(
            sac,
            target_actor=jax.tree.map(jnp.copy, sac.actor),
            log_information=log_information,
            information_optimiser=optimiser.init(log_information),
            world=World(ensemble, optimiser.init(ensemble), *norms),
        )

    def learn(
        self, state: MaxInfoSACState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[MaxInfoSACState, Metrics, Float[Array, " batch"]]:
        now, action = self.transitions(state, batch)
        noise, next_noise, target_noise = jax.random.normal(key, (3, *action.shape))
        before, after = (flat_rows(state.world, action, o) for o in (now.observation, now.next_observation))

        # What inputs and gains are standardised by
        world, asked = state.world, jnp.concatenate([before, action], axis=1)
        world = world._replace(inputs=forgetting(world.inputs.update(asked, now.counts)))
        own = state.actor(now.observation).from_noise(noise)[0]
        slow = state.target_actor(now.observation).from_noise(target_noise)[0]
        own_gain, slow_gain = (self.gain(world, before, a) for a in (own, slow))
        met = jnp.concatenate([now.counts, now.counts])
        world = world._replace(gains=forgetting(world.gains.update(jnp.concatenate([own_gain, slow_gain]), met)))

        # Critics, actor and temperature
        state = state._replace(world=world)
        weight, keys = batch.weight * now.counts, self.critic_keys(key)
        inputs = UpdateInputs(now, action, weight, noise, next_noise, keys)
        state, metrics, error = self.update(state, inputs)

        # Weight of the information
        log_information, information_optimiser = state.log_information, state.information_optimiser
        metrics |= {
            "information": weighted_mean(own_gain, now.counts),
            "information_weight": jnp.exp(log_information),
        }
        if self.learn_information:
            spread = jnp.sqrt(world.gains.variance + 1e-8)
            gradient = weighted_mean(own_gain - slow_gain, now.counts) / spread
            log_information, information_optimiser = self.descent().step(
                gradient, information_optimiser, log_information
            )

        # Ensemble
        followed = jnp.concatenate([after - before, now.reward[:, None]], axis=1)
        happened = now.counts & (now.source != NOBODY) & (now.source != MODEL)
        world, metrics["world_loss"] = self.study(world, asked, followed, happened)

        state = state._replace(
            target_actor=blend(state.actor, state.target_actor, self.polyak),
            log_information=log_information,
            information_optimiser=information_optimiser,
            world=world,
        )
        return state, metrics, error

    def soft_value(
        self,
        state: MaxInfoSACState,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        log_probability: Float[Array, " batch"],
        keys: CriticKeys = CriticKeys(),  # noqa: B008
    ) -> Float[Array, "*samples batch"]:
        """Compute SAC's soft value and the weighted information of the action."""
        information = self.information(state.world, flat_rows(state.world, action, observation), action)
        value = super().soft_value(state, observation, action, log_probability, keys)
        return value + jnp.exp(state.log_information) * information

    def actor_loss(
        self, actor: GaussianActor, state: MaxInfoSACState, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], ActorReport]:
        """Compute SAC's loss less the weighted information of the policy's actions."""
        observation = inputs.now.observation
        action, log_probability = actor(observation).from_noise(inputs.noise)
        value = self.policy_value(state.critics, observation, action, inputs.keys.policy_q)
        information = self.information(state.world, flat_rows(state.world, action, observation), action)
        cost = jnp.exp(state.log_temperature) * log_probability - jnp.exp(state.log_information) * information
        loss = weighted_mean(cost - value, inputs.now.counts)
        return loss, ActorReport(log_probability, loss)

    def gain(
        self, world: World, seen: Float[Array, "batch inputs"], action: Float[Array, "batch dimensions"]
    ) -> Float[Array, " batch"]:
        """mean_k log(1 + Var_m(x_mk) / noise_variance)."""
        predicted = world.ensemble(jax.vmap(world.inputs)(jnp.concatenate([seen, action], axis=1)))
        return jnp.log1p(prediction_variance(predicted) / self.noise_variance).mean(-1)

    def information(
        self, world: World, seen: Float[Array, "batch inputs"], action: Float[Array, "batch dimensions"]
    ) -> Float[Array, " batch"]:
        """Return the gain, standardised."""
        return jax.vmap(world.gains)(self.gain(world, seen, action))

    def study(
        self,
        world: World,
        asked: Float[Array, "batch inputs"],
        followed: Float[Array, "batch outputs"],
        heard: Bool[Array, " batch"],
    ) -> tuple[World, Float[Array, ""]]:
        """Take one step of the ensemble towards the outcomes, at the rows with an executed action."""
        outputs = forgetting(world.outputs.update(followed, heard))
        asked, told = jax.vmap(world.inputs)(asked), jax.vmap(outputs)(followed)
        weight = heard[:, None].astype(jnp.float32)
        loss, gradient = jax.value_and_grad(lambda e: e.loss(asked, told, weight))(world.ensemble)
        ensemble, optimiser = self.descent().step(gradient, world.optimiser, world.ensemble)
        return world._replace(ensemble=ensemble, optimiser=optimiser, outputs=outputs), loss


def forgetting(norm: RunningNorm) -> RunningNorm:
    """Cap the count at a million rows, so that the statistics follow the falling gain."""
    return norm._replace(count=jnp.minimum(norm.count, 1e6))


def flat_rows(
    world: World, action: Float[Array, "batch dimensions"], observation: PyTree[Array]
) -> Float[Array, "batch inputs"]:
    """Return observations and actions as rows of numbers, a discrete observation one-hot."""
    observation, _ = split_mask(observation)
    size = world.inputs.mean.shape[0] - action.shape[1]
    if observation.ndim == 1 and jnp.issubdtype(observation.dtype, jnp.integer):
        return jax.nn.one_hot(observation, size)
    return observation.reshape(len(action), size).astype(jnp.float32)
