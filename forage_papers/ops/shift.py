"""Pictures that are moved by whole pixels, their edges repeated."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int


def shift_picture(picture: Array, by: Int[Array, "2"], axes: Sequence[int]) -> Array:
    """Move one picture down and right by `by` pixels; the first two of `axes` are its height and width."""
    for step, axis in zip(by, axes[:2], strict=True):
        size = picture.shape[axis]
        picture = jnp.take(picture, jnp.clip(np.arange(size) - step, 0, size - 1), axis=axis)
    return picture
