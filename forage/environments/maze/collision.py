"""Motion of a ball among walls that are whole cells of a grid: in closed form, at any speed."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

TOUCHING = 1e-5
"""Gaps up to this count as none: far below the ball's radius, far above the rounding of single precision."""

Vector = Float[Array, "xy=2"]


def slide(
    position: Vector,
    velocity: Vector,
    duration: Float[Array, ""] | float,
    walls: Bool[Array, "row column"],
    radius: float,
) -> tuple[Vector, Vector]:
    """Return the position and velocity after a motion of `duration` at `velocity` that slides along walls.

    At a wall the velocity into it becomes zero and the one along it stays: no friction and no rebound. Walls count as
    widened by `radius` to all sides, so that the ball is one point; its corners are thereby square and not round. A
    straight motion among such walls has at most two contacts, one along each axis.
    """
    motion = duration * velocity
    for _ in range(2):
        share, hit, face = first_contact(position, motion, walls, radius)
        position = jnp.where(hit, face, position + share * motion)
        motion = jnp.where(hit, 0.0, (1 - share) * motion)
        velocity = jnp.where(hit, 0.0, velocity)
    return position, velocity


def first_contact(
    position: Vector, motion: Vector, walls: Bool[Array, "row column"], radius: float
) -> tuple[Float[Array, ""], Bool[Array, "xy=2"], Vector]:
    """Return the share of the motion up to the first wall (1 without a wall), the axis it stops, and its face.

    Cell (i, j) of R rows and C columns is the unit square around `(j + 1/2 - C/2, R/2 - i - 1/2)`. A face between two
    walls is inside the wall and stops nothing, so a row of walls is as smooth as one long wall.
    """
    rows, columns = walls.shape
    centre = jnp.stack(
        [
            jnp.broadcast_to(jnp.arange(columns) + 0.5 - columns / 2, (rows, columns)),
            jnp.broadcast_to((rows / 2 - jnp.arange(rows) - 0.5)[:, None], (rows, columns)),
        ]
    )
    low, high = centre - 0.5 - radius, centre + 0.5 + radius  # [xy, row, column]
    padded = jnp.pad(walls, 1, constant_values=True)
    before = (padded[1:-1, :-2], padded[2:, 1:-1])  # the neighbours on the sides of lower x, lower y
    after = (padded[1:-1, 2:], padded[:-2, 1:-1])

    shares, faces = [], []
    for axis in (0, 1):
        other = 1 - axis
        move, along = motion[axis], motion[other]
        face = jnp.where(move > 0, low[axis], high[axis])
        exposed = walls & ~jnp.where(move > 0, before[axis], after[axis])
        gap = jnp.where(move > 0, face - position[axis], position[axis] - face)
        share = jnp.maximum(gap, 0.0) / jnp.where(move == 0, 1.0, jnp.abs(move))
        place = position[other] + share * along
        # A corner that is met exactly stops a motion that goes into the wall, but not one that passes along it.
        lowest = low[other] + jnp.where(along > 0, -TOUCHING, TOUCHING)
        highest = high[other] + jnp.where(along < 0, TOUCHING, -TOUCHING)
        meets = exposed & (move != 0) & (gap > -TOUCHING) & (share <= 1) & (place > lowest) & (place < highest)
        share = jnp.where(meets, share, jnp.inf).reshape(-1)
        shares.append(share.min())
        faces.append(face.reshape(-1)[share.argmin()])
    share = jnp.stack(shares)
    hit = (share <= 1) & (jnp.arange(2) == share.argmin())
    return jnp.minimum(share.min(), 1.0), hit, jnp.stack(faces)
