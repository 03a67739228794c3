"""Environments with many agents: the loop's handling of the agent axis.

There `observation`, `action`, `reward`, `terminated` and `truncated` carry an axis `agent` behind the environment's,
and spaces are those of one agent. Acting maps over the agents; what they experience is learned from as if each were an
environment of its own, with shared parameters. An agent that is `joint` learns from whole teams: there the axis is
kept. The environment's episode is over when every agent's is.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from forage.core.types import OPPONENT, Experience, Step


def repeat(tree: PyTree[Any], num_agents: int) -> PyTree[Any]:
    """Return one agent's arrays, for all of them: leaves `agent ...`. A single agent has no axis."""
    return tree if num_agents == 1 else jax.tree.map(lambda x: jnp.broadcast_to(x, (num_agents, *x.shape)), tree)


def as_agent_batch(rollout: Experience, num_agents: int) -> Experience:
    """From leaves `time env agent ...` to `time stream ...`: each agent of each environment is a stream."""
    return rollout if num_agents == 1 else jax.tree.map(lambda x: x.reshape(x.shape[0], -1, *x.shape[3:]), rollout)


def as_team(experience: Experience, num_agents: int) -> Experience:
    """Give streams (leaves `time stream ...`) their axis back: leaves `time env agent ...`."""
    return jax.tree.map(lambda x: x.reshape(x.shape[0], -1, num_agents, *x.shape[2:]), experience)


def as_one(told: Any, num_agents: int) -> Any:
    """Return a `Step` or `Experience` as its environment sees it: the agents' mean reward, and over when all are.

    Where all are, the clock ran out if it did for one of them. Works on JAX's arrays and NumPy's.
    """
    if num_agents == 1:
        return told
    assert isinstance(told, Step | Experience)
    if isinstance(told, Experience):  # where every agent has the environment's
        told = told._replace(info={name: values[..., 0] for name, values in told.info.items()})
    ended = (told.terminated | told.truncated).all(-1)
    out_of_time = ended & told.truncated.any(-1)
    reward = told.reward.mean(told.terminated.ndim - 1)
    return told._replace(reward=reward, terminated=ended & ~out_of_time, truncated=out_of_time)


def own_reward(rollout: Experience) -> Float[Array, "time env *objectives"]:
    """Return the mean reward of the agents of a rollout (leaves `time env agent ...`) that are no opponents."""
    own = rollout.source != OPPONENT
    weight = own.reshape(own.shape + (1,) * (rollout.reward.ndim - own.ndim))
    return jnp.where(weight, rollout.reward, 0.0).sum(2) / jnp.maximum(weight.sum(2), 1)


def truncate_teams(told: Any, cut: Any) -> Any:
    """Return `truncated` of a `Step` or `Experience` (leaves `env *agent ...`), after which some episodes are cut,
    for all their agents. Works on JAX's arrays and NumPy's.
    """
    cut = cut.reshape(cut.shape + (1,) * (told.terminated.ndim - 1))
    return told.truncated | (cut & ~told.terminated)
