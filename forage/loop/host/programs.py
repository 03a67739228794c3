"""The compiled programs of the loop on the host: begin a run, act, judge and learn for one seed."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import mesh, spaces
from forage.core.compiling import Flat
from forage.core.ports import Decision, HiddenState, Metrics
from forage.core.types import Clock, Experience
from forage.loop.learner import Learner, LearnerState, where_tree


def init_learner(
    learner: Learner, key: Key[Array, ""], start_id: PyTree[Array] = ()
) -> tuple[Key[Array, ""], LearnerState]:
    """Return the next key, and the learner's first state."""
    key, init_key = jax.random.split(key)
    return key, mesh.lay_out_weights(learner.init(init_key, start_id=start_id))


def actor_of(learner: Learner, state: LearnerState) -> Flat:
    """Return the part of the learner that acts, agent and behaviour only: fewer arrays to pass at every step."""
    return Flat.flatten((learner, state._replace(rewards=(), memory=())))


def act(
    actor: Flat,
    hidden: PyTree[Array],
    ended: Bool[Array, "env *agent"],
    observation: PyTree[Array],
    clock: Clock,
    key: Key[Array, ""],
    explore: bool = True,
    sampled: bool | Bool[Array, ""] = False,
) -> tuple[Key[Array, ""], PyTree[Array], Decision]:
    """Choose the actions of all environments; without `explore` those of evaluation, greedy or `sampled`.

    `actor`: the learner and its state, as `actor_of` gives them. Returns the next key, the actions to execute, and the
    decisions with the actions before clipping.
    """
    key, act_key = jax.random.split(key)
    keys = jax.random.split(act_key, ended.shape[0])
    if explore:
        return key, *decide(actor, hidden, ended, observation, clock, keys, jnp.arange(len(keys)))
    learner, state = actor.tree
    hidden = where_tree(ended, jax.tree.map(lambda x: x[None], learner.init_hidden(explore)), hidden)
    action, hidden = jax.vmap(learner.play, in_axes=(None, 0, 0, 0, None))(state, hidden, observation, keys, sampled)
    return key, spaces.clip(learner.spec.action_space, action), Decision(action, hidden, policy_info=())


def decide(
    actor: Flat,
    hidden: HiddenState,
    ended: Bool[Array, "row *agent"],
    observation: PyTree[Array],
    clock: Clock,
    keys: Key[Array, " row"],
    rows: Int[Array, " row"],
    own_clocks: bool = False,
) -> tuple[PyTree[Array], Decision]:
    """Choose exploring actions in the environments with the numbers `rows`, each with a key of its own.

    `own_clocks`: the clock's steps are each environment's own, `[row]`. Returns the actions to execute, and the
    decisions with the actions before clipping.
    """
    learner, state = actor.tree
    hidden = where_tree(ended, jax.tree.map(lambda x: x[None], learner.init_hidden()), hidden)
    axes: Any = Clock(0, None) if own_clocks else None  # type: ignore[arg-type]
    act = jax.vmap(learner.act, in_axes=(None, 0, 0, axes, 0, 0))
    decision = act(state, hidden, observation, clock, keys, rows)
    return spaces.clip(learner.spec.action_space, decision.action), decision


def keys_of(key: Key[Array, ""], steps: int, num_envs: int) -> tuple[Key[Array, ""], Key[Array, "time env"]]:
    """Return the next key, and each environment's for the next steps: those that `act` splits one by one."""

    def one(key: Key[Array, ""], _: None) -> tuple[Key[Array, ""], Key[Array, " env"]]:
        key, act_key = jax.random.split(key)
        return key, jax.random.split(act_key, num_envs)

    return jax.lax.scan(one, key, None, steps)


def observe_actions(actor: Flat, hidden: HiddenState, action: PyTree[Array]) -> HiddenState:
    """Update the agents' memories with the actions that were taken, after a possible intervention."""
    learner, state = actor.tree
    tell = jax.vmap(learner.observe_action, in_axes=(None, 0, 0))
    return (tell if learner.spec.num_agents == 1 else jax.vmap(tell, in_axes=(None, 0, 0)))(state, hidden, action)


def observe_rewards(actor: Flat, hidden: PyTree[Array], reward: Float[Array, " env"]) -> PyTree[Array]:
    """Update the agents' memories with the rewards of their steps."""
    learner, state = actor.tree
    return learner.observe_reward(state, hidden, reward)


def estimate(learner: Learner, state: LearnerState, rollout: Experience, clock: Clock, key: Key[Array, ""]) -> Any:
    return learner.estimate(state, rollout, clock, key)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TurnMetrics:
    """The metrics of one turn of the loop as one array, as each array that a program returns takes time."""

    values: Float[Array, " metric"]
    names: tuple[str, ...] = dataclasses.field(metadata={"static": True})

    @classmethod
    def from_dict(cls, metrics: Metrics) -> TurnMetrics:
        names = tuple(sorted(metrics))
        return cls(jnp.stack([metrics[name] for name in names]), names)


def learn(
    learner: Flat, state: Flat, rollout: Experience, clock: Clock, key: Key[Array, ""]
) -> tuple[Key[Array, ""], Flat, TurnMetrics]:
    """Learn from a rollout. Learner and state come and go flattened: parts are flattened slowly, at every call."""
    key, learn_key = jax.random.split(key)
    learned, metrics = learner.tree.learn(state.tree, rollout, clock, learn_key)
    return key, Flat.flatten(mesh.lay_out_weights(learned)), TurnMetrics.from_dict(metrics)
