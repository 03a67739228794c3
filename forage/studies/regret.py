"""Exact regret: an agent's loss in each episode of a tabular MDP, for its known policy and the optimal one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from forage.behaviours.policy import AgentPolicy
from forage.config.defaults import default_behaviour, default_memory
from forage.core import prng
from forage.core.ports import Agent
from forage.core.types import Clock, ForageError
from forage.environments import spec_of
from forage.environments.tabular.mdp import Tabular
from forage.environments.tabular.values import action_values, finite_horizon
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same


def regret(agent: Agent, mdp: Tabular, episodes: int, seeds: Sequence[int]) -> Float[np.ndarray, "seed episode"]:
    """Return the expected return that each episode's policy falls short of the best one, of H steps from the first
    state on.

        regret_k = E[V*_1(s_1)] - E[V^(pi_k)_1(s_1)]

    Both are worked out from the arrays, so what is left to chance is only what the agent learned from. Its cumulative
    sum over episodes is what regret bounds are about. The agent learns after every episode, in one environment.

    Raises `ForageError` for an MDP without a time limit, or with ends of its own: there episodes differ in length, and
    for an agent whose policy cannot be told, or is not all that it plays while it learns.
    """
    if mdp.max_steps is None or bool(np.asarray(mdp.terminal).any()):
        raise ForageError(
            "Regret is counted in episodes of the same length; give the MDP max_steps and no terminal states."
        )
    horizon = int(mdp.max_steps)
    agent = dataclasses.replace(agent, num_envs=1, rollout_length=horizon)  # type: ignore[call-arg]
    behaviour = default_behaviour(agent)
    if not isinstance(behaviour, AgentPolicy) or behaviour.random_steps:
        raise ForageError(
            f"Regret is of the policy that is played while learning, and {type(agent).__name__} plays at random as "
            f"well; an agent that explores by its own policy works, such as ucbvi, psrl or ppo."
        )
    spec = spec_of(mdp, "the MDP")
    learner = Learner(agent, behaviour, EnvironmentReward(), default_memory(agent), spec)
    loop = DeviceLoop(learner, mdp, Same(), Reset())
    loop.check()

    @jax.jit
    def run(loop: DeviceLoop, key: Array) -> Float[Array, " episode"]:
        best = mdp.initial @ finite_horizon(mdp, horizon)[0][0]

        def episode(carry: tuple[Any, Clock], _: None):
            state, clock = carry
            missed = best - expected_return(mdp, policy(agent, state.learner.agent, mdp, horizon))
            following, _tally = loop.iterate(state, clock)
            return (following, clock._replace(steps=clock.steps + horizon)), missed

        clock = Clock(jnp.int32(0), jnp.float32(episodes * horizon))
        return jax.lax.scan(episode, (loop.init(key), clock), None, episodes)[1]

    return np.stack([np.asarray(run(loop, prng.key(seed))) for seed in seeds])


def policy(agent: Agent, state: Any, mdp: Tabular, horizon: int) -> Float[Array, "time state action"]:
    """Return the probabilities of actions at each step, from a tabular agent's plan or another agent's policy."""
    if hasattr(state, "plan"):
        return jax.nn.one_hot(state.plan.argmax(-1), mdp.num_actions)
    seen = jnp.eye(mdp.num_states)
    table = jax.vmap(lambda observation: agent.probabilities(state, observation, explore=True))(seen)
    return jnp.broadcast_to(table, (horizon, *table.shape))


def expected_return(mdp: Tabular, policy: Float[Array, "time state action"]) -> Float[Array, ""]:
    """Return the return of a policy that may depend on the time, from the first state on."""

    def backup(values: Float[Array, " state"], now: Float[Array, "state action"]):
        return (now * action_values(mdp, values, 1.0)).sum(-1), None

    return mdp.initial @ jax.lax.scan(backup, jnp.zeros(mdp.num_states), policy, reverse=True)[0]
