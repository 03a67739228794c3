"""Rollouts as networks read them: helpers that PPO, IMPALA and their relatives share."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from forage.core import mesh
from forage.core.types import Experience
from forage.nn.actor_critic import ActorCritic
from forage.nn.distributions import Distribution
from forage.nn.networks import GRU, GRUState
from forage.nn.normalise import Norms, apply_norm
from forage.ops.returns import gae
from forage.ops.rows import merge_time

Tree = TypeVar("Tree")


class Sequence(NamedTuple):
    """The links between the steps of segments, for an agent with memory."""

    start: Float[Array, "env memory"]  # the GRU's state before the first step
    first: Bool[Array, "time env"]  # an episode begins here
    action: Float[Array, "time env actions"]  # the one before, as the memory hears it


class Reading(NamedTuple):
    """A rollout as the network that acted in it reads it; leaves `time env ...`."""

    observation: PyTree[Array]
    action: PyTree[Array]
    sequence: Sequence | None
    log_probability: Float[Array, "time env"]
    value: Float[Array, "time env streams"]
    next_value: Float[Array, "time env streams"]


def over_rollout(function: Any) -> Any:
    """Map a function of one transition over axes `time env`."""
    return jax.vmap(jax.vmap(function))


# Ends of estimates

estimate = jax.vmap(gae, in_axes=(1, 1, 1, 1, 1, None, None), out_axes=1)
"""GAE of each environment of a rollout."""


def before_lost(experience: Experience) -> Bool[Array, "time env"]:
    """Return whether the next step is at hand and does not count: its agent had left, or it was lost."""
    return jnp.zeros_like(experience.terminated).at[:-1].set(~experience.counts[1:])


def cut_short(experience: Experience) -> Bool[Array, "time env"]:
    """Return a mask of truncated estimates: at time limits, and before steps that do not count."""
    return experience.truncated | (before_lost(experience) & ~experience.terminated)


def estimate_across_ends(
    reward: Float[Array, "time env"],
    value: Float[Array, "time env"],
    next_value: Float[Array, "time env"],
    experience: Experience,
    discount: Any,
    gae_lambda: Any,
) -> Float[Array, "time env"]:
    """Compute GAE across the ends of episodes (Burda et al., 2018, arXiv 1810.12894, section 2.3).

    After an end comes the beginning of the next episode. Estimates end only before an agent leaves ahead of the others:
    the steps that it is gone are not to its credit.
    """
    after = jnp.concatenate([value[1:], next_value[-1:]])  # the last step bootstraps from its own next observation
    left = before_lost(experience)
    after = jnp.where(experience.ended & ~left, after, next_value)
    ends = left & experience.terminated, left & ~experience.terminated
    return estimate(reward, value, after, *ends, discount, gae_lambda)


# Networks


def scan_gru(
    gru: GRU, start: Float[Array, "env memory"], first: Bool[Array, "time env"], inputs: Float[Array, "time env gates"]
) -> Float[Array, "time env memory"]:
    """Return the GRU's state after each step; it restarts from zero where an episode is `first`."""

    def step(hidden: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        x, first = now
        hidden = jax.vmap(gru.step)(jnp.where(first[:, None], 0.0, hidden), x)
        return hidden, hidden

    return jax.lax.scan(step, start, (inputs, first))[1]


def policy_outputs(
    network: ActorCritic, observation: PyTree[Array], sequence: Sequence | None
) -> tuple[Float[Array, "*batch outputs"], Float[Array, "*batch streams"]]:
    """Return the policy's outputs and the values, of rows `batch` or, with memory, of segments `time batch`."""
    if sequence is None:
        return network.rows(observation)
    assert network.gru is not None
    gru = network.gru
    inputs = over_rollout(lambda o, a: gru.hear(network.features(o), a))(observation, sequence.action)
    features = scan_gru(gru, sequence.start, sequence.first, inputs)
    return over_rollout(network.outputs)(features), over_rollout(network.value)(observation, features)


def rollout_policy(network: ActorCritic, observation: PyTree[Array], sequence: Sequence | None) -> Distribution:
    """Return the policy's distributions in a whole rollout, leaves `time env ...`, their deviations included."""
    if sequence is not None:
        return over_rollout(network.distribution)(policy_outputs(network, observation, sequence)[0], observation)
    time, envs = jax.tree.leaves(observation)[0].shape[:2]
    rows = mesh.split_leaves(jax.tree.map(lambda x: x.reshape(time * envs, *x.shape[2:]), observation))
    policy = jax.vmap(network.distribution)(policy_outputs(network, rows, None)[0], rows)
    return jax.tree.map(lambda x: x.reshape(time, envs, *x.shape[1:]), policy)


def score_actions(
    network: ActorCritic, observation: PyTree[Array], action: PyTree[Array], sequence: Sequence | None
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"], Float[Array, "*batch streams"]]:
    """Return log-probability, entropy and value of rows `batch` or, with memory, of segments `time batch`."""

    def judge(outputs: Array, observation: PyTree[Array], action: Array):
        policy = network.distribution(outputs, observation)
        return policy.log_probability(action), policy.entropy()

    outputs, value = policy_outputs(network, observation, sequence)
    over: Any = jax.vmap if sequence is None else over_rollout
    return *over(judge)(outputs, observation, action), value


def read_rollout(network: ActorCritic, norm: Norms, experience: Experience) -> Reading:
    """Apply the network that acted to the whole rollout at once, including the values of next observations."""
    observation, next_observation = (
        over_rollout(lambda o: apply_norm(norm, o))(o) for o in (experience.observation, experience.next_observation)
    )
    action = experience.action
    if not network.actions.discrete:
        action = over_rollout(network.actions.to_unit)(action)
    if network.gru is not None:
        first = jnp.concatenate([jnp.zeros_like(experience.ended[:1]), experience.ended[:-1]])
        sequence = Sequence(experience.policy_info.features[0], first, experience.policy_info.action)
        log_probability, _, value = score_actions(network, observation, action, sequence)
    else:
        sequence = None
        rows = mesh.split_leaves(merge_time((observation, action)))
        log_probability, _, value = score_actions(network, rows[0], rows[1], sequence)
        log_probability = log_probability.reshape(experience.reward.shape)
        value = value.reshape(*experience.reward.shape, -1)
    next_value = next_values(network, experience, observation, next_observation)
    return Reading(observation, action, sequence, log_probability, value, next_value)


def next_values(
    network: ActorCritic, experience: Experience, observation: PyTree[Array], next_observation: PyTree[Array]
) -> Float[Array, "time env streams"]:
    """Compute the values of next observations, also at the ends of episodes; with memory, as if they continued."""

    def remembering(hidden: GRUState, observation: PyTree[Array], action: Array, next_observation: PyTree[Array]):
        after = GRUState(network.remember(hidden, observation), network.actions.action_features(action))
        return network.value(next_observation, network.remember(after, next_observation))

    if network.gru is not None:
        return over_rollout(remembering)(experience.policy_info, observation, experience.action, next_observation)
    time, envs = jax.tree.leaves(next_observation)[0].shape[:2]
    rows = mesh.split_leaves(jax.tree.map(lambda x: x.reshape(time * envs, *x.shape[2:]), next_observation))
    return network.values(rows).reshape(time, envs, -1)


# Losses and minibatches

LARGEST = 20.0
"""The logarithm of the largest ratio that counts: an infinite one times an advantage of zero would not be a number."""


def value_error(
    value: Float[Array, "*batch streams"],
    target: Float[Array, "*batch streams"],
    old: Float[Array, "*batch streams"] | None,
    clip: Any,
) -> Float[Array, "*batch streams"]:
    """Compute half the squared error of values, or the larger one of values within `clip` of the `old` ones."""
    error = 0.5 * (value - target) ** 2
    if old is None:
        return error
    near = old + jnp.clip(value - old, -clip, clip)
    return jnp.maximum(error, 0.5 * (near - target) ** 2)


def cut_minibatches(
    order: Int[Array, " units"],
    minibatches: int,
    observation: PyTree[Array],
    targets: Tree,
    sequence: Sequence | None,
) -> tuple[PyTree[Array], Tree, Sequence | None]:
    """Put into this order and cut into minibatches: transitions, or with memory whole segments."""
    if sequence is None:
        rows = mesh.take_rows((observation, targets), order)
        return *jax.tree.map(lambda x: x.reshape(minibatches, -1, *x.shape[1:]), rows), None

    def segments(x: Array) -> Array:
        return mesh.split_leaves(x[:, order], 1).reshape(x.shape[0], minibatches, -1, *x.shape[2:]).swapaxes(0, 1)

    start = segments(sequence.start[None])[:, 0]
    first, before = segments(sequence.first), segments(sequence.action)
    return *jax.tree.map(segments, (observation, targets)), Sequence(start, first, before)
