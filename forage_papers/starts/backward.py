"""The backward algorithm: episodes begin near the end of the best one, and ever earlier as they succeed.

Salimans, Chen (2018), "Learning Montezuma's Revenge from a Single Demonstration", arXiv 1812.03381.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage_papers.starts.cell_archive import FAR, Archive, Link, Path, no_link, pick


class Best(NamedTuple):
    """The best episode that came to its end; of equals the shortest."""

    found: Bool[Array, ""]
    path: Path
    link: Link  # its last entry


class BackwardProgress(NamedTuple):
    """The progress of robustifying."""

    on: Bool[Array, ""]
    trail: Int[Array, " trail"]  # slots on the way of the best episode, from its end to its beginning
    length: Int[Array, ""]
    stage: Int[Array, ""]  # where episodes begin, from 0 at the end to `length`, a reset
    successes: Int[Array, ""]  # of the episodes that began in this stage
    episodes: Int[Array, ""]


def first_lesson(trail: int) -> BackwardProgress:
    """Return the lesson before any success: a trail of at most `trail` entries."""
    return BackwardProgress(jnp.bool_(False), jnp.full(trail, -1), *jnp.zeros((4,), jnp.int32))


def compare(best: Best, paths: Path, links: Link, finished: Bool[Array, "time env"]) -> Best:
    """Return the best episode so far, of those that finished and the one before."""
    score = jnp.where(finished, paths.score, -jnp.inf)
    steps = jnp.where(score == score.max(), paths.steps, FAR).reshape(-1)
    row = jnp.argmin(steps)
    path, link = jax.tree.map(lambda x: x.reshape(-1)[row], (paths, links))
    higher = (path.score > best.path.score) | ((path.score == best.path.score) & (path.steps < best.path.steps))
    return pick(finished.any() & (~best.found | higher), Best(jnp.bool_(True), path, link), best)


def judge(
    lesson: BackwardProgress,
    successful: Bool[Array, "time env"],
    ended: Bool[Array, "time env"],
    episodes: int,
    threshold: Float[Array, ""] | float,
    stride: int,
) -> BackwardProgress:
    """Count the successes among this stage's finished episodes, and advance if there are enough.

    The stage is judged whenever `episodes` of them are over; it is passed where a share of `threshold` succeeded.
    """
    ended = ended & lesson.on
    successes = lesson.successes + (ended & successful).sum()
    number = lesson.episodes + ended.sum()
    judged = number >= episodes
    passed = judged & (successes >= threshold * number)
    return lesson._replace(
        stage=jnp.minimum(lesson.stage + stride * passed, lesson.length),
        successes=jnp.where(judged, 0, successes),
        episodes=jnp.where(judged, 0, number),
    )


def trail_to(lesson: BackwardProgress, archive: Archive, link: Link) -> BackwardProgress:
    """Return the way to an entry, parent by parent, as far as the entries are still there."""

    def step(link: Link, _: None) -> tuple[Link, Int[Array, ""]]:
        there = (link.slot >= 0) & (archive.serial[link.slot] == link.serial)
        before = jax.tree.map(lambda x: x[link.slot], archive.parent)
        return pick(there, before, no_link(())), jnp.where(there, link.slot, -1)

    trail = jax.lax.scan(step, link, None, lesson.trail.shape[0])[1]
    return lesson._replace(on=jnp.bool_(True), trail=trail, length=(trail >= 0).sum())
