"""Stream AC(lambda): an actor-critic with eligibility traces, from each transition once.

Elsayed, Vasan, Mahmood (2024), "Streaming Deep Reinforcement Learning Finally Works", arXiv 2410.14606, on what
`streaming/base.py` describes. After each step, with delta = r + discount (1 - terminated) V(s') - V(s) and a decay of
discount trace_lambda, policy and value have a trace each, and steps with a bound each (`policy_kappa`, `kappa`):

    critic   z <- decay z + grad V(s),                                               w <- w + step delta z
    actor    y <- decay y + grad(log pi(a|s) + entropy_coefficient sign(delta) H),   u <- u + step delta y

so that delta times the sign is positive, and entropy H(pi(.|s)) always rises. Continuous actions are normal, with mean
and deviation softplus(.) from the network, in the unit box; what is beyond the box is cut where the environment takes
it. The authors' program acts in the environment's own units. Actions that somebody else chose teach the critic alone.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import ActInputs, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import split_mask
from forage.core.types import AGENT, Batch, Clock, Spec
from forage.nn.distributions import Actions, Distribution, Gaussian, action_probabilities, draw_action
from forage.nn.normalise import apply_norm
from forage_papers.agents.streaming.base import Statistics, Stream, StreamNetwork, apply_updates, empty_trace


class StreamACState(NamedTuple):
    actor: StreamNetwork
    critic: StreamNetwork
    actor_trace: Any
    critic_trace: Any
    statistics: Statistics


class StreamAC(Stream):
    """Stream AC(lambda), an actor-critic without replay (Elsayed, Vasan, Mahmood, 2024, arXiv 2410.14606)."""

    example: ClassVar[str] = "forage train stream-ac Pendulum-v1 --steps 100k"
    ranges: ClassVar[Ranges] = {"policy_kappa": Range(0)}

    stochastic: ClassVar[bool] = True
    acting: ClassVar[str] = "actor"
    needs: ClassVar[Needs] = Needs(actions="any")

    policy_kappa: float = 3.0  # bound of the policy's steps, as `kappa` is of the value's
    entropy_coefficient: float = 0.01

    def init(self, key: Key[Array, ""], spec: Spec) -> StreamACState:
        actor_key, critic_key = jax.random.split(key)
        actions = Actions.from_space(spec.action_space)
        outputs = actions.outputs if actions.discrete else 2 * actions.outputs
        actor, critic = self.make_network(actor_key, spec, outputs), self.make_network(critic_key, spec, 1)
        traces = self.descent(self.policy_kappa).init(actor), self.descent(self.kappa).init(critic)
        return StreamACState(actor, critic, *traces, self.statistics(spec))

    def act(self, state: StreamACState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        policy = policy_of(state.actor, apply_norm(state.statistics.norm, inputs.observation))
        action = draw_action(policy, inputs)
        actions = state.actor.actions
        return action if actions.discrete else actions.to_box(action), inputs.hidden, ()

    def noise(self, spec: Spec) -> tuple[int, ...] | None:
        actions = Actions.from_space(spec.action_space)
        return None if actions.discrete else (actions.outputs,)

    def probabilities(
        self, state: StreamACState, observation: PyTree[Array], explore: bool
    ) -> Float[Array, " actions"]:
        policy = policy_of(state.actor, apply_norm(state.statistics.norm, observation))
        return action_probabilities(policy, explore, "StreamAC")

    def log_probability(
        self, state: StreamACState, observation: PyTree[Array], action: PyTree[Array]
    ) -> Float[Array, " row"]:
        actions = state.actor.actions

        def one(observation: PyTree[Array], action: Array) -> Float[Array, ""]:
            policy = policy_of(state.actor, apply_norm(state.statistics.norm, observation))
            return policy.log_probability(action if actions.discrete else actions.to_unit(action))

        return jax.vmap(one)(observation, action)

    def learn(
        self, state: StreamACState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[StreamACState, Metrics, Float[Array, " env"]]:
        seen, statistics = self.transition(state.statistics, batch)
        actions = state.actor.actions
        action = seen.raw.action if actions.discrete else actions.to_unit(seen.raw.action)

        value, value_gradient = jax.value_and_grad(lambda c: c(seen.observation)[0])(state.critic)
        error = self.error(seen, value, state.critic(seen.next_observation)[0])

        def actor_objective(actor: StreamNetwork) -> tuple[Float[Array, ""], Float[Array, ""]]:
            policy = policy_of(actor, seen.observation)
            entropy = policy.entropy()
            bonus = self.entropy_coefficient * jnp.sign(error) * entropy
            return jnp.where(seen.raw.source == AGENT, policy.log_probability(action) + bonus, 0.0), entropy

        gradient, entropy = jax.grad(actor_objective, has_aux=True)(state.actor)
        told = {"error": error, "cut": seen.raw.ended}
        actor_step, actor_trace = self.descent(self.policy_kappa).update(gradient, state.actor_trace, **told)
        critic_step, critic_trace = self.descent(self.kappa).update(value_gradient, state.critic_trace, **told)
        actor, critic = apply_updates(state.actor, actor_step), apply_updates(state.critic, critic_step)
        metrics: Metrics = {"value": value, "error": jnp.abs(error), "entropy": entropy}
        metrics |= {"policy_step": actor_trace.step, "step": critic_trace.step}
        return StreamACState(actor, critic, actor_trace, critic_trace, statistics), metrics, jnp.abs(error)[None]

    def truncate(self, state: StreamACState) -> StreamACState:
        traces = {name: empty_trace(getattr(state, name)) for name in ("actor_trace", "critic_trace")}
        return state._replace(**traces, statistics=self.forget(state.statistics))


def policy_of(actor: StreamNetwork, observation: PyTree[Array]) -> Distribution:
    """Return the network's policy in an observation; a deviation is softplus of its output."""
    outputs, actions = actor(observation), actor.actions
    if actions.discrete:
        return actions.distribution(outputs, None, split_mask(observation)[1])
    mean, deviation = jnp.split(outputs, 2)
    return Gaussian(mean, log_softplus(deviation))


def log_softplus(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return log(softplus(x)), which approaches x far below zero."""
    return jnp.where(x < -15.0, x, jnp.log(jax.nn.softplus(jnp.maximum(x, -15.0))))
