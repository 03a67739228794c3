"""Rings of the newest transitions, leaves `[time, env, ...]`: rollouts written in place, segments copied out.

Of a whole team's transitions the leaves are `[time, env, agent, ...]`; what is seen is what all its members see.

Large observations, such as pictures, are kept once: what a step leads to is what the next one begins with, and of
pictures that are stacked all but the newest were seen before. Whether that holds is found by comparing bits as a
rollout is written, and what does not repeat is kept beside: a segment is read as it was lived through.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from forage.core import mesh, spaces
from forage.core.types import GONE, Clock, Experience, ForageError

LARGE = 1024
"""Bytes of an observation (or of an entry of one) from which on it is kept once."""

SPARE = 4
"""The number of transitions for each spare picture: an episode's last picture is spare."""

FEW, LATER = 100_000, 32
"""Beyond `FEW` transitions there is one spare picture for `LATER`: a million frames of Atari's take 7.5 GB, not 8.9."""

SURE = 128
"""Steps that always fit, or all if the ring has fewer: each may need spare pictures only."""


class Frames(NamedTuple):
    """The pictures of one large entry of observations. An observation is some of them, the oldest first.

    In `store` come first those that observations end with, one for each environment and each step that the ring holds
    or that its oldest observations reach back to; then the spare ones, a ring of their own; then those that the newest
    step led to.
    """

    store: Array  # [picture, ...]
    newest: Array  # [env, ...]: the newest step's observation
    places: Int[Array, "env frames"]  # of its pictures in the store
    after: Array  # [env, ...]: the picture that the newest step led to
    next_spare: Int[Array, ""]
    owner: Int[Array, " spare"]  # the step that each spare picture is of; -1: none
    lost: Int[Array, ""]  # spare pictures of steps before this one may be gone

    @property
    def layout(self) -> tuple[int, int]:
        """Return the number of pictures in an observation, and the axis along which they are stacked."""
        whole, one = self.newest.shape[1:], self.store.shape[1:]
        axis = next((i for i, (size, part) in enumerate(zip(whole, one, strict=True)) if size != part), 0)
        return whole[axis] // one[axis], axis

    @property
    def sure(self) -> int:
        """Return the number of steps that fit for any observations."""
        frames = self.layout[0]
        return self.owner.size // most_spare(frames, len(self.newest)) - frames


class FrameRing(NamedTuple):
    """A ring whose large observations are places in a store of pictures."""

    experience: Experience  # leaves [time, env, ...]; of large observations the places, [time, env, frames]
    observation: PyTree[Frames | None]  # `None` where an entry is small, and kept as it is


Ring = Experience | FrameRing


def empty_ring(
    capacity: int,
    example: Experience,
    num_envs: int,
    rollout_length: int,
    observation_space: gymnasium.Space[Any],
) -> Ring:
    """Zeros for `capacity` transitions, rounded down to whole rollouts; leaves `[time, env, ...]`."""
    rollouts = capacity // (num_envs * rollout_length)
    if rollouts == 0:
        raise ForageError(
            f"A replay memory of {capacity} transitions does not hold one rollout of {num_envs} environments times "
            f"{rollout_length} steps; give it a capacity of at least {num_envs * rollout_length}."
        )
    shape = (rollouts * rollout_length, num_envs)
    parts = spaces.spaces_by_path(observation_space)

    def frames_of(path: Any, leaf: Array) -> Frames | None:
        if leaf.size * leaf.dtype.itemsize < LARGE:
            return None
        return empty_frames(leaf, shape, rollout_length, parts.get(tuple(part.key for part in path)))

    frames = jax.tree_util.tree_map_with_path(frames_of, example.observation)
    if not jax.tree.leaves(frames):
        return jax.tree.map(lambda x: jnp.zeros(shape + x.shape, x.dtype), example)

    def keep_leaf(leaf: Array, frames: Frames | None) -> Array:
        return leaf if frames is None else frames.places[0]

    places = jax.tree.map(keep_leaf, example.observation, frames)
    example = example._replace(observation=places, next_observation=places)
    return FrameRing(jax.tree.map(lambda x: jnp.zeros(shape + x.shape, x.dtype), example), frames)


def empty_frames(leaf: Array, shape: tuple[int, int], rollout_length: int, space: Any) -> Frames:
    """No pictures yet. `leaf`: an observation; `shape`: the ring's steps and environments."""
    frames, axis = 1, 0
    if isinstance(space, spaces.StackedBox):
        frames, axis = space.frames, space.axis + leaf.ndim - len(space.shape)  # behind an axis `agent`, of a team
    one = (*leaf.shape[:axis], leaf.shape[axis] // frames, *leaf.shape[axis + 1 :])
    length, num_envs = shape
    # The oldest observation's pictures are older than it, and a rollout never runs over the end.
    steps = length + -(-(frames - 1) // rollout_length) * rollout_length
    each = most_spare(frames, num_envs)
    transitions = length * num_envs
    spare = min(transitions, FEW) // SPARE + max(transitions - FEW, 0) // LATER
    spare = max(spare, (SURE + frames) * each)
    spare = min(spare, (length + frames) * each)
    return Frames(
        store=jnp.zeros((steps * num_envs + spare + num_envs, *one), leaf.dtype),
        newest=jnp.zeros((num_envs, *leaf.shape), leaf.dtype),
        places=jnp.zeros((num_envs, frames), jnp.int32),
        after=jnp.zeros((num_envs, *one), leaf.dtype),
        next_spare=jnp.int32(0),
        owner=jnp.full(spare, -1, jnp.int32),
        lost=jnp.int32(0),
    )


def most_spare(frames: int, num_envs: int) -> int:
    """Return the number of spare pictures a step can need: all but one of its observation, and all of its next
    observation.
    """
    return (2 * frames - 1) * num_envs


def stored_transitions(ring: Ring) -> Experience:
    """Return the transitions, in which of large observations there are places only."""
    return ring.experience if isinstance(ring, FrameRing) else ring


def extent(ring: Ring) -> tuple[int, int]:
    """Return the capacity in steps, and the number of environments."""
    steps, num_envs = stored_transitions(ring).terminated.shape[:2]
    return steps, num_envs


def oldest(ring: Ring, newest: Int[Array, ""]) -> tuple[Int[Array, ""], Bool[Array, ""] | None]:
    """Return the first step that can be read, and whether it is a later one than the first that the ring has room for.

    `newest`: steps since the run began. Where episodes are so short that spare pictures were overwritten, older steps
    are not read. `None`: that does not happen to this ring.
    """
    first = newest - jnp.minimum(newest, len(stored_transitions(ring).terminated))
    if not isinstance(ring, FrameRing):
        return first, None
    lost = jnp.stack([leaf.lost for leaf in all_frames(ring)]).max()
    return jnp.maximum(first, lost), lost > first


def all_frames(ring: FrameRing) -> list[Frames]:
    return [leaf for leaf in jax.tree.leaves(ring.observation, is_leaf=is_frames) if is_frames(leaf)]


def is_frames(node: Any) -> bool:
    return isinstance(node, Frames)


def write_rollout(ring: Ring, rollout: Experience, clock: Clock) -> Ring:
    """Overwrite the oldest rollout. `clock` reads as it did when the new one began."""
    capacity, num_envs = extent(ring)
    newest = clock.steps // num_envs
    position = newest % capacity  # a whole number of rollouts, so a rollout never runs over the end
    if isinstance(ring, FrameRing):
        structure = jax.tree.structure(rollout.observation)
        written = []
        for frames, *leaves in zip(
            structure.flatten_up_to(ring.observation),
            jax.tree.leaves(rollout.observation),
            jax.tree.leaves(rollout.next_observation),
            jax.tree.leaves(ring.experience.next_observation),
            strict=True,
        ):
            seen, after, before = leaves
            if frames is not None:
                frames, seen, after, last = add_pictures(frames, seen, after, newest)
                # Only now it is known where the picture is that the step before led to.
                row = (position - 1) % capacity
                before = jax.lax.dynamic_update_slice(before, last[None, :, None], (row, 0, before.shape[2] - 1))
            written.append((frames, seen, after, before))
        frames, seen, after, before = (structure.unflatten(leaves) for leaves in zip(*written, strict=True))
        experience = ring.experience._replace(next_observation=before)
        rollout = rollout._replace(observation=seen, next_observation=after)
        return FrameRing(update_ring(experience, rollout, position), frames)
    return update_ring(ring, rollout, position)


def update_ring(ring: Experience, rollout: Experience, position: Int[Array, ""]) -> Experience:
    return jax.tree.map(lambda x, new: jax.lax.dynamic_update_slice_in_dim(x, new, position, 0), ring, rollout)


def add_pictures(
    frames: Frames, seen: Array, after: Array, newest: Int[Array, ""]
) -> tuple[Frames, Int[Array, "time env frames"], Int[Array, "time env frames"], Int[Array, " env"]]:
    """Store a rollout's observations and next observations (`[time, env, ...]`).

    Return the places of their pictures, and of the one that the step before the rollout led to.
    """
    (length, num_envs), count, axes = seen.shape[:2], frames.layout[0], frames.store.ndim - 1
    spare = frames.owner.size
    first_spare = len(frames.store) - num_envs - spare
    last_seen = seen[-1]
    seen, after, before = (split_frames(x, frames) for x in (seen, after, frames.newest))
    begun = newest > 0

    # Which pictures are known: of what is seen those that were seen a step before, or the newest again (as at an
    # episode's start); of what it leads to those that are seen now, or at the next step.
    same = equal(seen[:, :, :-1], jnp.concatenate([before[None], seen[:-1]])[:, :, 1:], axes)
    same = same.at[0].set(same[0] & begun)
    again = equal(seen[:, :, :-1], seen[:, :, -1:], axes)
    follows = equal(after[:, :, :-1], seen[:, :, 1:], axes)
    shared = equal(after[:-1, :, -1:], seen[1:, :, -1:], axes)
    waits = jnp.ones((1, num_envs, 1), bool)  # of the last step it is not known yet
    ended = begun & ~equal(frames.after, seen[0, :, -1], axes)

    # The others are spare pictures, in the order of time; where there are too many the newest count.
    alone = jnp.concatenate([~(same | again), ~follows, ~jnp.concatenate([shared, waits])], axis=2)
    step = jnp.broadcast_to((newest + jnp.arange(length))[:, None, None], alone.shape)
    flags = jnp.concatenate([ended, alone.reshape(-1)])
    step = jnp.concatenate([jnp.full(num_envs, newest - 1), step.reshape(-1)])
    pictures = jnp.concatenate([seen[:, :, :-1], after], axis=2)
    pictures = jnp.concatenate([frames.after, pictures.reshape(-1, *pictures.shape[3:])])
    number = jnp.cumsum(flags) - 1
    total = number[-1] + 1
    place = (frames.next_spare + number) % spare
    stays = flags & (number >= total - spare)
    overwritten = frames.owner[(frames.next_spare + jnp.minimum(total, spare) - 1) % spare]
    gone = jnp.max(jnp.where(flags & ~stays, step, -1), initial=-1)
    gone = jnp.maximum(gone, jnp.where(total > 0, overwritten, -1))

    # Where each picture is.
    now = (newest + jnp.arange(length))[:, None] % (first_spare // num_envs) * num_envs + jnp.arange(num_envs)
    found = first_spare + place
    last = jnp.where(ended, found[:num_envs], now[0])
    found = found[num_envs:].reshape(alone.shape)
    seen_at = [now]
    for i in reversed(range(count - 1)):
        earlier = jnp.concatenate([frames.places[None, :, i + 1], seen_at[0][:-1]])
        seen_at.insert(0, jnp.where(same[..., i], earlier, jnp.where(again[..., i], now, found[..., i])))
    seen_at = jnp.stack(seen_at, axis=-1)
    waiting = (first_spare + spare + jnp.arange(num_envs))[None, :]
    next_at = jnp.concatenate([jnp.where(shared[..., 0], now[1:], found[:-1, :, -1]), waiting])[..., None]
    next_at = jnp.concatenate([jnp.where(follows, seen_at[..., 1:], found[..., count - 1 : -1]), next_at], axis=-1)

    store = frames.store.at[jnp.where(stays, first_spare + place, len(frames.store))].set(pictures, mode="drop")
    for x, start in ((seen[:, :, -1], now[0, 0]), (after[-1:, :, -1], first_spare + spare)):
        store = jax.lax.dynamic_update_slice_in_dim(store, x.reshape(-1, *x.shape[2:]), start, 0)
    kept = Frames(
        store,
        last_seen,
        seen_at[-1],
        after[-1, :, -1],
        (frames.next_spare + total) % spare,
        frames.owner.at[jnp.where(stays, place, spare)].set(step, mode="drop"),
        # An observation reaches back that far.
        jnp.maximum(frames.lost, jnp.where(gone >= 0, gone + count, 0)),
    )
    return kept, seen_at, next_at, last


def split_frames(observations: Array, frames: Frames) -> Array:
    """Observations `[*batch, ...]` as their pictures, `[*batch, frames, ...]`."""
    count, axis = frames.layout
    whole = frames.newest.shape[1:]
    batch = observations.shape[: observations.ndim - len(whole)]
    apart = observations.reshape(*batch, *whole[:axis], count, whole[axis] // count, *whole[axis + 1 :])
    return jnp.moveaxis(apart, len(batch) + axis, len(batch))


def join_frames(pictures: Array, frames: Frames) -> Array:
    """Return the inverse of `split_frames`."""
    whole = frames.newest.shape[1:]
    batch = pictures.shape[: pictures.ndim - len(whole) - 1]
    return jnp.moveaxis(pictures, len(batch), len(batch) + frames.layout[1]).reshape(*batch, *whole)


def equal(one: Array, other: Array, axes: int) -> Bool[Array, "*batch"]:
    """Return whether all bits along the last `axes` axes are the same, so that NaN equals NaN."""
    if jnp.issubdtype(one.dtype, jnp.floating):
        one, other = (jax.lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}") for x in (one, other))
    return jnp.all(one == other, axis=tuple(range(-axes, 0)))


def truncate(ring: Ring, clock: Clock) -> Ring:
    """Truncate the episodes of the newest step, which will not be continued. `clock` reads as after that step."""
    experience = stored_transitions(ring)
    capacity, num_envs = extent(ring)
    newest = (clock.steps // num_envs - 1) % capacity
    truncated = experience.truncated.at[newest].set(~experience.terminated[newest])
    experience = experience._replace(truncated=truncated)
    return ring._replace(experience=experience) if isinstance(ring, FrameRing) else experience


def cut_before_lost(segments: Experience) -> Experience:
    """Truncate the episodes (leaves `time batch *agent ...`) that a lost step follows: they did not lead to it.

    Such a step is `GONE` for every agent; where some have left and others go on, nothing was lost.
    """
    if len(segments.source) == 1:
        return segments
    lost = segments.source[1:] == GONE
    if lost.ndim > 2:
        lost = jnp.broadcast_to(lost.all(-1, keepdims=True), lost.shape)
    cut = segments.truncated[:-1] | (lost & ~segments.terminated[:-1])
    return segments._replace(truncated=jnp.concatenate([cut, segments.truncated[-1:]]))


def read_segments(ring: Ring, index: Int[Array, " batch"], length: int) -> Experience:
    """Copy out the segments of `length` transitions that start at `index = time * num_envs + env`."""
    experience = stored_transitions(ring)
    capacity, num_envs = extent(ring)
    if length > capacity:
        raise ForageError(
            f"A replay memory of {capacity} time steps ({num_envs} environments side by side) holds no segment of "
            f"{length}; give it a capacity of more than {length * num_envs} transitions."
        )
    every = all_frames(ring) if isinstance(ring, FrameRing) else []
    sure = min([capacity, *(frames.sure for frames in every)])
    if length > sure:
        raise ForageError(
            f"A replay memory of {capacity} time steps ({num_envs} environments side by side) is sure of {sure} where "
            f"observations are as large as here, and holds no segment of {length}; give it a larger capacity."
        )
    time = (index // num_envs + jnp.arange(length)[:, None]) % capacity
    segments = cut_before_lost(mesh.replicate(jax.tree.map(lambda x: x[time, index % num_envs], experience)))
    if not isinstance(ring, FrameRing):
        return segments

    def whole(frames: Frames | None, places: Array) -> Array:
        return places if frames is None else join_frames(frames.store[places], frames)

    seen, after = (
        jax.tree.map(whole, ring.observation, tree, is_leaf=lambda x: x is None or is_frames(x))
        for tree in (segments.observation, segments.next_observation)
    )
    return segments._replace(observation=seen, next_observation=after)
