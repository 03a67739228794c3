"""Episodic control: a table, for each action, of states and of the best return that ever followed.

Blundell, Uria, Pritzel, Li, Ruderman, Leibo, Rae, Wierstra, Hassabis (2016), "Model-Free Episodic Control", arXiv
1606.04460. When an episode has ended, each of its steps, from the last to the first, writes

    Q(s, a) <- max(Q(s, a), R)     where s is stored for a already
    Q(s, a) <- R                   elsewhere: a new entry

and where no entry is free, the one that was written to longest ago makes room. R is the discounted sum of rewards from
that step to the episode's end. In a state that is stored for an action the action is worth what is stored, in any other
the mean of the `neighbours` nearest entries.

With state aggregation (Pinto, 2020, "Model-Free Episodic Control with State Aggregation", arXiv 2008.09685) a state
counts as stored where an entry of the action is no further away than `radius`, so that near states share an entry: the
table stays small, and so does the search in it. Of equally near entries the first is taken, and an entry stays where it
was made.

Of both papers only abstracts could be looked up. The two rules and the mean are those of a program that others wrote
after the first one (astier/model-free-episodic-control: mfec/qec.py, mfec/agent.py), and so are 11 neighbours and the
discount of 1. How the second moves an entry that is shared could not be looked up. Four things are ours: an action that
has fewer entries than `neighbours` is worth the mean of those there are; looking at an entry does not make it newer; a
table of 2,000 entries, where the program has a million for pictures; and a last epsilon of 0.05, that of
`epsilon-greedy`, where the program has 0.005 (`--behaviour.end 0.005`).

No value is bootstrapped, so an episode that only ran out of time counts as if nothing came after.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import observation_part, split_mask
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.encoders import Numbers, OneHot, input_size
from forage.ops.action_values import best_action


class Table(NamedTuple):
    """The entries of each action; unused ones are infinitely far from all states."""

    state: Float[Array, "action entry features"]
    value: Float[Array, "action entry"]
    written: Int[Array, "action entry"]  # when it was last written to; 0: never


class Pending(NamedTuple):
    """The running episodes."""

    state: Float[Array, "env step features"]
    action: Int[Array, "env step"]
    reward: Float[Array, "env step"]
    length: Int[Array, " env"]


class Features(equinox.Module):
    """The numbers of an observation in one row: boxes flattened, choices one-hot, parts of a dictionary in turn."""

    parts: tuple[Numbers | OneHot, ...]

    def __init__(self, spec: Spec):
        input_size(observation_part(spec.observation_space))  # where nothing can read it
        self.parts = tuple(part_of(space) for space in observation_spaces(observation_part(spec.observation_space)))

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " features"]:
        rows = jax.tree.leaves(split_mask(observation)[0])
        return jnp.concatenate([part(row) for part, row in zip(self.parts, rows, strict=True)])


def observation_spaces(space: spaces.Space[Any]) -> list[spaces.Space[Any]]:
    """Return the spaces of an observation's leaves, in the order that JAX has them."""
    if not isinstance(space, spaces.Dict):
        return [space]
    return [leaf for name in sorted(space.spaces) for leaf in observation_spaces(space.spaces[name])]


def part_of(space: spaces.Space[Any]) -> Numbers | OneHot:
    """Return the converter of one leaf to numbers."""
    if isinstance(space, spaces.Discrete):
        return OneHot((int(space.n),), (int(space.start),))
    return Numbers.from_space(space)


class EpisodicControlState(NamedTuple):
    table: Table
    pending: Pending
    features: Features
    projection: Float[Array, "inputs features"] | None
    writes: Int[Array, ""]


class EpisodicControl(Agent):
    """Model-free episodic control (Blundell et al., 2016, arXiv 1606.04460), with state aggregation (Pinto, 2020).

    It works at once what worked once, which suits environments without much chance; luck it takes for skill. States are
    compared by Euclidean distance, so entries of an observation should have like scales.
    """

    example: ClassVar[str] = "forage train episodic-control CartPole-v1 --radius 0.1 --steps 20k"
    own_choices: ClassVar[str] = (
        "the value of actions with few entries, the age of entries, the table's size, and the last epsilon"
    )
    ranges: ClassVar[Ranges] = {
        "neighbours": Range(1),
        "capacity": Range(1),
        "radius": Range(0),
        "projection": Range(0),
    }

    on_policy: ClassVar[bool] = True
    usual_behaviour: ClassVar[str] = "epsilon-greedy"
    needs: ClassVar[Needs] = Needs(actions="numbered", horizon=True)

    discount: float = 1.0  # worth of a reward one step later; that program's for Atari
    neighbours: int = equinox.field(static=True, default=11)  # nearest entries whose mean is the value of an action in
    # a state that is not stored, as there; more are smoother
    radius: float = 0.0  # distance within which a state counts as stored; 0 merges equal states alone, larger ones keep
    # the table small and tell fewer states apart
    capacity: int = equinox.field(static=True, default=2000)  # entries of each action; more remember longer and are
    # searched longer
    projection: int = equinox.field(static=True, default=0)  # features that observations are projected to at random,
    # by standard normal numbers over the root of their count; 0: observations as they are; that program has 64
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=1)

    def check(self, spec: Spec) -> None:
        Features(spec)

    def init(self, key: Key[Array, ""], spec: Spec) -> EpisodicControlState:
        features, actions = Features(spec), int(spec.action_space.n)  # pyrefly: ignore[missing-attribute]
        size = self.projection or features.size
        streams, horizon = self.num_envs * spec.num_agents, int(spec.horizon or 0)
        projection = jax.random.normal(key, (features.size, size)) / math.sqrt(size) if self.projection else None
        shape = (actions, self.capacity)
        table = Table(jnp.zeros((*shape, size)), jnp.zeros(shape), jnp.zeros(shape, jnp.int32))
        room = (streams, horizon)
        nothing = jnp.zeros(room, jnp.int32), jnp.zeros(room), jnp.zeros(streams, jnp.int32)
        return EpisodicControlState(
            table, Pending(jnp.zeros((*room, size)), *nothing), features, projection, jnp.int32(0)
        )

    def neighbour_features(self, state: EpisodicControlState, observation: PyTree[Array]) -> Float[Array, " features"]:
        """Return the features used to find nearest neighbours."""
        features = state.features(observation)
        return features if state.projection is None else features @ state.projection

    def action_values(
        self, state: EpisodicControlState, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"]:
        """Return the value of each action; an action that was never taken has an infinite one."""
        table = state.table
        count = min(self.neighbours, self.capacity)
        distance = distances(table, self.neighbour_features(state, observation))
        far, nearest = jax.lax.top_k(-distance, count)
        there = jnp.isfinite(far)
        value = jnp.take_along_axis(table.value, nearest, axis=-1)
        mean = jnp.where(there, value, 0.0).sum(-1) / jnp.maximum(there.sum(-1), 1)
        stored = -far[:, 0] <= self.radius**2
        return jnp.where(there[:, 0], jnp.where(stored, value[:, 0], mean), jnp.inf)

    def act(self, state: EpisodicControlState, inputs: ActInputs) -> tuple[Int[Array, ""], PyTree[Array], tuple[()]]:
        ties = self.probabilities(state, inputs.observation, inputs.explore) > 0
        return best_action(jax.random.uniform(inputs.key, ties.shape), ties), inputs.hidden, ()

    def probabilities(
        self, state: EpisodicControlState, observation: PyTree[Array], explore: bool
    ) -> Float[Array, " actions"]:
        """Return the greedy policy; of equally good actions it draws one."""
        q, mask = self.action_values(state, (), observation), split_mask(observation)[1]
        allowed = q if mask is None else jnp.where(mask, q, -jnp.inf)
        ties = allowed == allowed.max()
        return ties / ties.sum()

    def truncate(self, state: EpisodicControlState) -> EpisodicControlState:
        return state._replace(pending=state.pending._replace(length=jnp.zeros_like(state.pending.length)))

    def learn(
        self, state: EpisodicControlState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[EpisodicControlState, Metrics, Float[Array, " env"]]:
        def step(carry: tuple[Table, Pending, Array], now: Experience) -> tuple[tuple[Table, Pending, Array], None]:
            table, pending, writes = carry
            pending = self.add_step(state, pending, now)

            def one(env: Array, found: tuple[Table, Array]) -> tuple[Table, Array]:
                steps = jnp.where(now.ended[env], pending.length[env], 0)
                return self.write_episode(*found, jax.tree.map(lambda x: x[env], pending), steps)

            table, writes = jax.lax.fori_loop(0, len(now.ended), one, (table, writes))
            return (table, pending._replace(length=jnp.where(now.ended, 0, pending.length)), writes), None

        carry = state.table, state.pending, state.writes
        (table, pending, writes), _ = jax.lax.scan(step, carry, batch.experience)
        used = table.written > 0
        metrics: Metrics = {
            "entries": used.sum().astype(jnp.float32),
            "best": jnp.where(used.any(), jnp.where(used, table.value, -jnp.inf).max(), 0.0),
        }
        state = state._replace(table=table, pending=pending, writes=writes)
        return state, metrics, jnp.zeros(batch.experience.reward.shape[1])

    def add_step(self, state: EpisodicControlState, pending: Pending, now: Experience) -> Pending:
        """Return the running episodes with one more step of each (leaves `env ...`), if that step counts."""
        env, room = jnp.arange(len(pending.length)), pending.action.shape[1]
        place = jnp.where(now.counts, pending.length, room)  # beyond the end nothing is written
        rows = jax.vmap(lambda observation: self.neighbour_features(state, observation))(now.observation)
        return Pending(
            pending.state.at[env, place].set(rows, mode="drop"),
            pending.action.at[env, place].set(now.action, mode="drop"),
            pending.reward.at[env, place].set(now.reward, mode="drop"),
            jnp.minimum(pending.length + now.counts, room),
        )

    def write_episode(
        self, table: Table, writes: Int[Array, ""], episode: Pending, steps: Int[Array, ""]
    ) -> tuple[Table, Int[Array, ""]]:
        """Write the last `steps` of an episode (leaves `step ...`) into the table, from its end on."""

        def one(number: Array, carry: tuple[Table, Array, Array]) -> tuple[Table, Array, Array]:
            table, writes, later = carry
            at = steps - 1 - number
            total = episode.reward[at] + self.discount * later
            action, row = episode.action[at], episode.state[at]
            distance = distances(jax.tree.map(lambda x: x[action][None], table), row)[0]
            near = jnp.argmin(distance)
            stored = distance[near] <= self.radius**2
            entry = jnp.where(stored, near, jnp.argmin(table.written[action]))
            value = jnp.where(stored, jnp.maximum(table.value[action, near], total), total)
            table = Table(
                table.state.at[action, entry].set(jnp.where(stored, table.state[action, near], row)),
                table.value.at[action, entry].set(value),
                table.written.at[action, entry].set(writes + 1),
            )
            return table, writes + 1, total

        table, writes, _ = jax.lax.fori_loop(0, steps, one, (table, writes, jnp.float32(0)))
        return table, writes


def distances(table: Table, row: Float[Array, " features"]) -> Float[Array, "action entry"]:
    """Return the squared distance of each entry; infinite for empty entries."""
    return jnp.where(table.written > 0, jnp.sum((table.state - row) ** 2, -1), jnp.inf)
