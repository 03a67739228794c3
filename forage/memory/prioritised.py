"""Prioritised replay: surprising segments are drawn more often, and weigh less for it."""

from __future__ import annotations

import abc
import math
from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.core.ports import ActContext, Environment, Memory
from forage.core.types import Batch, Clock, Experience, Spec
from forage.ops.ring import Ring, empty_ring, extent, oldest, read_segments, truncate, write_rollout

BRANCHES = 32  # children of a node: a million transitions make four levels, each one gather and one small product
BEYOND = 2**30  # a leaf of no tree, and so are all its parents
SMALLEST = 1e-6  # added to errors, so that nothing is forgotten for good

Tree = tuple[Float[Array, " _"], ...]
"""Sums, level by level: the root's children first, the leaves last. Node n's children are n * BRANCHES and onwards."""


class PrioritisedState(NamedTuple):
    experience: Ring
    tree: Tree  # leaf time * num_envs + env: priority of the segment that starts there
    highest: Float[Array, ""]  # of all priorities so far


class PriorityMemory(Memory):
    """The newest `capacity` transitions, with draws of segments in proportion to their priorities."""

    joint: ClassVar[bool] = True

    capacity: int = equinox.field(static=True, default=100_000)  # newest transitions kept, of all environments
    # together; more replay older ones

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> PrioritisedState:
        experience = empty_ring(self.capacity, example, num_envs, rollout_length, spec.observation_space)
        return PrioritisedState(experience, empty_tree(math.prod(extent(experience))), jnp.ones(()))

    def add(self, state: PrioritisedState, rollout: Experience, clock: Clock) -> PrioritisedState:
        experience = write_rollout(state.experience, rollout, clock)
        length, num_envs = rollout.terminated.shape[:2]
        first = clock.steps % math.prod(extent(experience))
        tree = fill(state.tree, first, length * num_envs, state.highest)
        return PrioritisedState(experience, tree, state.highest)

    def truncate(self, state: PrioritisedState, clock: Clock) -> PrioritisedState:
        return state._replace(experience=truncate(state.experience, clock))

    def sample(self, state: PrioritisedState, size: int, length: int, moment: ActContext) -> Batch:
        left_out = incomplete(state.experience, length, moment.clock)
        index, priority = draw_leaves(state.tree, left_out, size, moment.key)
        return self.weighted_segments(state, index, priority, length, moment.clock)

    def weighted_segments(
        self,
        state: PrioritisedState,
        index: Int[Array, " batch"],
        priority: Float[Array, " batch"],
        length: int,
        clock: Clock,
    ) -> Batch:
        """Return the segments at these places, with the weights that their priorities give them."""
        return Batch(read_segments(state.experience, index, length), self.weight(priority, clock), index)

    def report(self, state: PrioritisedState, batch: Batch, errors: Float[Array, " batch"]) -> PrioritisedState:
        known = ~jnp.isnan(errors)
        priority = jnp.where(known, self.priority(errors), 0.0)
        # What is written beyond the tree is dropped; reading the old priorities would copy all of them.
        tree = assign(state.tree, jnp.where(known, batch.index, BEYOND), priority)
        return state._replace(tree=tree, highest=jnp.maximum(state.highest, priority.max()))

    @abc.abstractmethod
    def priority(self, errors: Float[Array, " batch"]) -> Float[Array, " batch"]:
        """Return the priorities of segments with these errors, in proportion to their frequency of being drawn."""

    @abc.abstractmethod
    def weight(self, priority: Float[Array, " batch"], clock: Clock) -> Float[Array, " batch"]:
        """Return the importance weights of segments drawn with these priorities."""


class PrioritisedReplay(PriorityMemory):
    """The newest `capacity` transitions; a segment i with error d_i is drawn with probability P(i) and weight w_i.

        P(i) = p_i / sum_j p_j,    p_i = (|d_i| + 1e-6)^priority_exponent
        w_i  = (p_i / min_j p_j)^(-beta), the minimum over the batch, so that the largest weight is 1

    beta goes linearly from `importance_exponent` to 1 over the run. New transitions get the highest priority so far.
    Draws are stratified: one in each of `size` equal parts of the total.

    Source: Schaul, Quan, Antonoglou, Silver, 2015, "Prioritized Experience Replay", arXiv:1511.05952, the proportional
    variant (section 3.3, appendix B.2.1), with the exponents of its table 3; it keeps 1,000,000 transitions.
    """

    example: ClassVar[str] = "forage train dqn CartPole-v1 --memory prioritised"

    priority_exponent: float = 0.6  # how far draws follow the errors; 0 is uniform
    importance_exponent: float = 0.4  # how far weights correct for that at first, and wholly (1) at the end of the run

    def priority(self, errors: Float[Array, " batch"]) -> Float[Array, " batch"]:
        return (jnp.abs(errors) + SMALLEST) ** self.priority_exponent

    def weight(self, priority: Float[Array, " batch"], clock: Clock) -> Float[Array, " batch"]:
        beta = self.importance_exponent + (1 - self.importance_exponent) * clock.fraction
        return (priority / priority.min()) ** -beta


class Span(NamedTuple):
    """Leaves `first <= i < end`, or around the end of the ring if `end < first`; empty if they are the same."""

    first: Int[Array, ""]
    end: Int[Array, ""]

    def contains(self, leaf: Int[Array, "*shape"]) -> Bool[Array, "*shape"]:
        from_first, before_end = leaf >= self.first, leaf < self.end
        return jnp.where(self.first <= self.end, from_first & before_end, from_first | before_end)


def incomplete(ring: Ring, length: int, clock: Clock) -> Span | None:
    """Return the places without a complete segment of this length; `None` if there are none."""
    capacity, num_envs = extent(ring)
    # Segments that start in the last length - 1 steps are not complete: after them comes the oldest transition.
    after = clock.steps % (capacity * num_envs)
    first, later = oldest(ring, clock.steps // num_envs)
    begin, end = (after - (length - 1) * num_envs) % (capacity * num_envs), after
    if later is not None:
        end = jnp.where(later, first * num_envs % (capacity * num_envs), after)
    return Span(begin, end) if length > 1 or later is not None else None


def empty_tree(leaves: int) -> Tree:
    levels: list[Array] = []
    while not levels or levels[0].size > BRANCHES:
        parents = -(-leaves // BRANCHES)
        levels.insert(0, jnp.zeros(parents * BRANCHES))
        leaves = parents
    return tuple(levels)


def children(level: Float[Array, " nodes"], parent: Int[Array, "*shape"]) -> Float[Array, "*shape branches"]:
    """Return the values of all children of these parents, one level up."""
    return jnp.vectorize(
        lambda n: jax.lax.dynamic_slice_in_dim(level, n * BRANCHES, BRANCHES), signature="()->(branches)"
    )(parent)


def assign(tree: Tree, leaf: Int[Array, " batch"], value: Float[Array, " batch"]) -> Tree:
    """Set leaves, then sums upwards. Parents are summed afresh, so repeated leaves and rounding leave no trace.

    Of a leaf given more than once the largest value counts: errors of two copies of one segment differ where learning
    draws noise, and which of two writes comes last is not defined on every device.
    """
    levels, node = list(tree), leaf
    for depth in reversed(range(len(levels))):
        levels[depth] = levels[depth].at[node].set(0.0).at[node].max(value)
        node = node // BRANCHES
        value = children(levels[depth], node).sum(-1)
    return tuple(levels)


def fill(tree: Tree, first: Int[Array, ""], count: int, value: Float[Array, ""]) -> Tree:
    """Set `count` leaves from `first` on, which do not run over the end: slices, so that it is done in place."""
    levels, values = list(tree), jnp.full(count, value)
    for depth in reversed(range(len(levels))):
        level = levels[depth] = jax.lax.dynamic_update_slice(levels[depth], values, (first,))
        # All parents that may have been touched; summing one that was not does no harm.
        count = min((count - 1) // BRANCHES + 2, level.size // BRANCHES)
        first = jnp.minimum(first // BRANCHES, level.size // BRANCHES - count)
        values = jax.lax.dynamic_slice(level, (first * BRANCHES,), (count * BRANCHES,)).reshape(count, -1).sum(-1)
    return tuple(levels)


def draw_leaves(
    tree: Tree, left_out: Span | None, size: int, key: Key[Array, ""]
) -> tuple[Int[Array, " size"], Float[Array, " size"]]:
    """Draw leaves in proportion to their values, none of those left out. Return `(leaf, value)`."""
    cuts = cut_nodes(tree, left_out) if left_out is not None else None
    uniform = jax.random.uniform(key, (2, size))
    share = (jnp.arange(size) + uniform[0]) / size  # where in the sum, in [0, 1]
    node, value = jnp.zeros(size, jnp.int32), jnp.zeros(size)
    for depth, level in enumerate(tree):
        values = children(level, node)
        if cuts is not None:
            values = cuts[depth].keep_value(node[:, None] * BRANCHES + jnp.arange(BRANCHES), values)
        # A child of value zero reaches nothing and is never chosen, in whatever order the sum was rounded.
        reach = jnp.where(values > 0, jnp.cumsum(values, axis=-1), 0.0)
        target = jnp.minimum(share, 1 - 2**-22) * reach.max(-1)
        branch = jnp.argmax(reach > target[:, None], axis=-1).astype(jnp.int32)
        here = jnp.arange(BRANCHES) == branch[:, None]
        end, value = (jnp.sum(jnp.where(here, x, 0.0), axis=-1) for x in (reach, values))
        value = jnp.maximum(value, jnp.finfo(jnp.float32).tiny)  # zero only when nothing at all is stored
        # Float32 has digits for a thousand nodes at a thousand draws, but not for a million: drawn afresh in between.
        share = uniform[1] if depth == 1 else jnp.clip((target - end + value) / value, 0.0, 1.0)
        node = node * BRANCHES + branch
    return node, value


class Cut(NamedTuple):
    """The share of the leaves left out in the nodes of one level: all but two nodes are kept or left out as a whole."""

    left_out: Span
    width: int  # leaves under one node
    nodes: tuple[Int[Array, ""], ...]  # in which the span begins and ends
    sums: tuple[Float[Array, ""], ...]  # what is left of these

    def keep_value(self, node: Int[Array, "*shape"], value: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        value = jnp.where(self.left_out.contains(node * self.width), 0.0, value)
        for cut, rest in zip(self.nodes, self.sums, strict=True):
            # Summed anew where something is left out, which may round in another way.
            value = jnp.where((node == cut) & (self.left_out.first != self.left_out.end), rest, value)
        return value


def cut_nodes(tree: Tree, left_out: Span) -> list[Cut]:
    """Return one `Cut` for each level, summed from the leaves up."""
    cuts = [Cut(left_out, 1, (), ())]
    for level in reversed(tree[1:]):
        below = cuts[0]
        nodes = tuple(leaf // (below.width * BRANCHES) for leaf in left_out)
        sums = tuple(
            below.keep_value(node * BRANCHES + jnp.arange(BRANCHES), children(level, node)).sum() for node in nodes
        )
        cuts.insert(0, Cut(left_out, below.width * BRANCHES, nodes, sums))
    return cuts
