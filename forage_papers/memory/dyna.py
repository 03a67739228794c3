"""Dyna: replay plus transitions imagined from a table of each action's outcomes."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium.spaces import Discrete, Space
from jaxtyping import Array, Int, Key

from forage.core.ports import ActContext, Agent, Environment, Memory
from forage.core.spaces import OneHot, describe_space
from forage.core.types import GONE, MODEL, NOBODY, Batch, Clock, Experience, ForageError, Spec
from forage.memory.uniform import UniformReplay
from forage.ops.ring import Ring, truncate, write_rollout
from forage.ops.rows import merge_time

MOST = 1_000_000
"""Pairs of an observation and an action that a table may have."""


class Table(NamedTuple):
    """The model: outcomes of each action in each numbered observation."""

    outcomes: Experience  # leaves [observation, action, outcome, ...]: the newest of each pair, a ring
    visits: Int[Array, "observation action"]
    lowest: Int[Array, ""]  # the number that observations count from


class DynaState(NamedTuple):
    experience: Ring
    table: Table


class Dyna(Memory):
    """The newest `capacity` transitions, replayed uniformly, together with transitions that a model imagines.

    The model is a table of all visited pairs of an observation and an action, and keeps the newest outcomes of each:
    reward, next observation and whether the episode terminated. The share `planning` / (`planning` + 1) of each batch
    is imagined: a visited pair and one of its kept outcomes, both drawn uniformly. With one outcome the model is the
    book's, of a deterministic environment; with more it draws each outcome in proportion to how often it is among them,
    for an environment that is not. The table forgets no pair, and its size is that of all pairs times `outcomes`.

    The book learns from one lived and n imagined transitions after each step, and compares n = 0, 5 and 50. Here
    `planning` is that n, and how much is learned after each rollout remains `batch_size` times `updates_per_rollout`.

    An imagined transition is never truncated, as the clock is no part of the model, so one that was truncated is no end
    either. It takes numbered observations, as numbers or one-hot, numbered actions, and agents that learn from single
    transitions: `n_step` 1 and no memory of their own.

    Source: Sutton, 1990, "Integrated Architectures for Learning, Planning, and Reacting Based on Approximating Dynamic
    Programming", ICML; Sutton and Barto, 2018, "Reinforcement Learning: An Introduction", section 8.2, Tabular Dyna-Q.
    """

    example: ClassVar[str] = "forage train dqn tabular:FrozenLake-4 --n-step 1 --memory dyna --memory.outcomes 20"

    capacity: int = equinox.field(static=True, default=100_000)  # transitions of all environments together
    planning: float = 5.0  # imagined transitions for each replayed one; figure 8.2 has 0, 5 and 50
    outcomes: int = equinox.field(static=True, default=1)  # newest outcomes kept of each pair; section 8.2 keeps one

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        super().check(agent, spec, environment)
        seen, actions = spec.observation_space, spec.action_space
        if not (isinstance(seen, Discrete | OneHot) and isinstance(actions, Discrete)):
            raise ForageError(
                f"Dyna keeps a table of numbered observations and actions, and {spec.name} has observations in "
                f"{describe_space(seen)} and actions in {describe_space(actions)}; take an environment with both, "
                f"such as "
                f"tabular:FrozenLake-4, or --memory uniform."
            )
        if (pairs := count_of(seen) * count_of(actions)) > MOST:
            raise ForageError(
                f"Dyna keeps a table of up to {MOST:,} pairs of an observation and an action, and {spec.name} has "
                f"{pairs:,}; use --memory uniform."
            )
        if spec.num_agents > 1:
            raise ForageError(
                f"Dyna models what one agent's action leads to, and {spec.name} has {spec.num_agents} agents that act "
                f"at once; use --memory uniform."
            )
        if agent.segment > 1:
            raise ForageError(
                f"Dyna imagines single transitions, and {type(agent).__name__} learns from segments of "
                f"{agent.segment}; set its n_step to 1 and its gru_size to 0, or use --memory uniform."
            )

    @property
    def uniform(self) -> UniformReplay:
        """Return the replay of the real transitions."""
        return UniformReplay(self.capacity)

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> DynaState:
        ring = self.uniform.init(example, num_envs, rollout_length, spec, environment)
        seen = spec.observation_space
        pairs = (count_of(seen), count_of(spec.action_space))
        outcomes = jax.tree.map(lambda x: jnp.zeros((*pairs, self.outcomes, *x.shape), x.dtype), example)
        return DynaState(ring, Table(outcomes, jnp.zeros(pairs, jnp.int32), jnp.int32(getattr(seen, "start", 0))))

    def add(self, state: DynaState, rollout: Experience, clock: Clock) -> DynaState:
        return DynaState(write_rollout(state.experience, rollout, clock), self.add_outcomes(state.table, rollout))

    def truncate(self, state: DynaState, clock: Clock) -> DynaState:
        return state._replace(experience=truncate(state.experience, clock))

    def sample(self, state: DynaState, size: int, length: int, moment: ActContext) -> Batch:
        replayed = self.uniform.sample(state.experience, size, length, moment)
        share_key, imagine_key = jax.random.split(jax.random.fold_in(moment.key, 1))
        # The number imagined is rounded at random, so that the share is right in the mean for batches of any size.
        share = self.planning / (self.planning + 1)
        number = jnp.floor(size * share + jax.random.uniform(share_key))
        imagined = (jnp.arange(size) < number) & (state.table.visits > 0).any()

        def select_source(model: Array, ring: Array) -> Array:
            return jnp.where(imagined.reshape(1, size, *(1,) * (ring.ndim - 2)), model, ring)

        experience = jax.tree.map(select_source, self.imagine(state.table, size, imagine_key), replayed.experience)
        return replayed._replace(experience=experience, index=jnp.where(imagined, -1, replayed.index))

    def add_outcomes(self, table: Table, rollout: Experience) -> Table:
        """Return the table with the outcomes of a rollout (leaves `time env ...`), without actions that were not
        executed.
        """
        flat = merge_time(rollout)
        observations, actions = table.visits.shape
        observation, action = number_of(flat.observation) - table.lowest, flat.action.astype(jnp.int32)
        pair = observation * actions + action
        heard = (flat.source != NOBODY) & (flat.source != GONE)
        # Of more visits to a pair than it keeps only the last are written, as the order of writes is not defined.
        same = (pair[:, None] == pair) & heard
        earlier = jnp.tril(same, -1).sum(1)
        stays = heard & (earlier >= same.sum(1) - self.outcomes)
        row = jnp.where(stays, observation, observations)  # of the others there is none to write
        slot = (table.visits[observation, action] + earlier) % self.outcomes
        outcomes = jax.tree.map(lambda old, new: old.at[row, action, slot].set(new, mode="drop"), table.outcomes, flat)
        visits = table.visits.at[observation, action].add(heard.astype(jnp.int32))
        return table._replace(outcomes=outcomes, visits=visits)

    def imagine(self, table: Table, size: int, key: Key[Array, ""]) -> Experience:
        """Draw `size` transitions from the model, leaves `1 size ...`; zeros while no pair was visited."""
        pair_key, slot_key = jax.random.split(key)
        # The k-th visited pair is where the number of visited pairs first exceeds k.
        visited = jnp.cumsum(table.visits > 0)
        which = jax.random.randint(pair_key, (size,), 0, jnp.maximum(visited[-1], 1))
        pair = jnp.searchsorted(visited, which, side="right")
        observation, action = jnp.unravel_index(pair, table.visits.shape)
        kept = jnp.clip(table.visits[observation, action], 1, self.outcomes)
        slot = jax.random.randint(slot_key, (size,), 0, kept)
        drawn = jax.tree.map(lambda x: x[observation, action, slot][None], table.outcomes)
        return drawn._replace(truncated=jnp.zeros_like(drawn.truncated), source=jnp.full_like(drawn.source, MODEL))


def count_of(space: Space[Any]) -> int:
    """Return the number of values that a space has, as numbers or one-hot."""
    return int(space.n) if isinstance(space, Discrete) else math.prod(space.shape or ())


def number_of(observation: Array) -> Int[Array, "*batch"]:
    """Return the numbers that are observed, as numbers or one-hot."""
    one_hot = jnp.issubdtype(observation.dtype, jnp.floating)
    return jnp.argmax(observation, -1).astype(jnp.int32) if one_hot else observation.astype(jnp.int32)
