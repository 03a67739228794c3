"""Shared base of tabular agents: numbered states, counts of transitions, and planning over a finite horizon."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Int, PyTree

from forage.core.ports.needs import Needs
from forage.core.spaces import observation_part, split_mask
from forage.core.types import Experience, Spec
from forage.ops.action_values import best_action

NUMBERED = Needs(actions="numbered", observations="numbered")
"""The needs of agents with a table of states and actions."""
PLANNING = Needs(actions="numbered", observations="numbered", unmasked=True, horizon=True)
"""The needs of agents that plan over whole episodes: a forbidden action is never tried, and would stay the best."""

Plan = Float[Array, "time state action"]
"""Action values at each step of an episode."""


class Counts(NamedTuple):
    """Counts of all transitions. The end of an episode has no next state."""

    next: Float[Array, "state action next"]  # times that s, a led to s'
    taken: Float[Array, "state action"]  # times that a was taken in s
    reward: Float[Array, "state action"]  # sum of what was paid
    square: Float[Array, "state action"]  # sum of its squares

    @classmethod
    def nothing(cls, states: int, actions: int) -> Counts:
        none = jnp.zeros((states, actions))
        return cls(jnp.zeros((states, actions, states)), none, none, none)

    def add(self, experience: Experience) -> Counts:
        """Count the transitions of a rollout (leaves `time env ...`)."""
        state, following = index(experience.observation).ravel(), index(experience.next_observation).ravel()
        action, reward = experience.action.ravel(), experience.reward.ravel()
        counts = experience.counts.ravel().astype(jnp.float32)
        goes_on = jnp.where(experience.terminated.ravel(), 0.0, counts)
        return Counts(
            self.next.at[state, action, following].add(goes_on),
            self.taken.at[state, action].add(counts),
            self.reward.at[state, action].add(counts * reward),
            self.square.at[state, action].add(counts * reward**2),
        )

    @property
    def num_ends(self) -> Float[Array, "state action"]:
        """Times that s, a ended an episode."""
        return self.taken - self.next.sum(-1)

    def model(self) -> tuple[Float[Array, "state action next"], Float[Array, "state action"]]:
        """Compute the shares of next states and mean rewards; zero for untried pairs."""
        number = jnp.maximum(self.taken, 1.0)
        return self.next / number[..., None], self.reward / number


def pairs(spec: Spec) -> tuple[int, int]:
    """Return the numbers of states and actions."""
    space = observation_part(spec.observation_space)
    states = int(space.n) if isinstance(space, spaces.Discrete) else int(np.prod(space.shape or ()))
    assert isinstance(spec.action_space, spaces.Discrete)
    return states, int(spec.action_space.n)


def table_sizes(spec: Spec) -> tuple[int, int, int]:
    """Return the numbers of states, actions and steps in an episode."""
    assert spec.horizon is not None
    return *pairs(spec), int(spec.horizon)


def index(observation: PyTree[Array]) -> Int[Array, "*batch"]:
    """Return the number of the state that is seen."""
    observation, _ = split_mask(observation)
    if jnp.issubdtype(observation.dtype, jnp.floating):
        return jnp.argmax(observation, -1).astype(jnp.int32)
    return observation.astype(jnp.int32)


def backward(
    transition: Float[Array, "state action next"], reward: Float[Array, "*time state action"], horizon: int, most: Any
) -> Plan:
    """Q_t(s, a) = min(most, r_t(s, a) + sum_s' p(s'|s, a) max_b Q_(t+1)(s', b)), zero after the last step."""
    reward = jnp.broadcast_to(reward, (horizon, *transition.shape[:2]))

    def step(values: Float[Array, " state"], paid: Float[Array, "state action"]):
        q = jnp.minimum(most, paid + transition @ values)
        return q.max(-1), q

    return jax.lax.scan(step, jnp.zeros(transition.shape[0]), reward, reverse=True)[1]


def plan_action(plan: Plan, time: Int[Array, ""], observation: PyTree[Array]) -> Int[Array, ""]:
    """Return the best action at this step of the episode; of equally good ones the first."""
    return best_action(plan[jnp.minimum(time, plan.shape[0] - 1), index(observation)], None)
