"""Wrappers of observations: stacks of the last few observations, and smaller or grey pictures."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import equinox
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from forage.core import spaces
from forage.core.types import ForageError, Step
from forage.environments.wrappers.base import (
    Wrapper,
    WrapperState,
    change_seen,
    check_least,
    environment_name,
    seen_box,
    with_seen_space,
)

LUMA = (0.299, 0.587, 0.114)
"""The brightness of red, green and blue: ITU-R Recommendation BT.601, as in Pillow and OpenCV."""


class FrameStack(Wrapper):
    """Shows the last `frames` observations at once, the oldest first; at the start the first one, repeated.

    They stand side by side on the last axis, so that whatever network took the observation takes the stack: a vector
    `[n]` becomes `[frames * n]`, a picture `[height, width, channels]` becomes `[height, width, frames * channels]`.
    A picture `[height, width]` gets an axis for them.

    Source: Mnih et al. (2015), "Human-level control through deep reinforcement learning", Nature 518.
    """

    example: ClassVar[str] = "forage train ppo CartPole-masked --wrap frame-stack:4"

    frames: int = equinox.field(static=True, default=4)  # observations that are shown at once

    remembers = True

    def __check_init__(self):
        check_least(self, "frames", self.frames, 1)
        seen_box(self, (1, 2, 3))

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        box = self._box
        low, high = (np.concatenate([bound] * self.frames, axis=-1) for bound in self._columns(box.low, box.high))
        return with_seen_space(
            self.environment.observation_space, spaces.StackedBox(low, high, dtype_of(box), self.frames)
        )

    @property
    def _box(self) -> gymnasium.spaces.Box:
        return seen_box(self, (1, 2, 3))

    def _columns(self, *arrays: Any) -> tuple[Any, ...]:
        """Return each array with a last axis for stacking, added to flat pictures."""
        flat_picture = len(self._box.shape) == 2
        return tuple(array[..., None] if flat_picture else array for array in arrays)

    def reset(self, key: Key[Array, ""]) -> tuple[WrapperState, PyTree[Array]]:
        inner, observation = self.environment.reset(key)
        (seen,) = self._columns(spaces.split_mask(observation)[0])
        stack = jnp.concatenate([seen] * self.frames, axis=-1)
        return WrapperState(inner, stack), change_seen(observation, lambda _: stack)

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[WrapperState, Step]:
        inner, step = self.environment.step(state.inner, action, key)
        (seen,) = self._columns(spaces.split_mask(step.observation)[0])
        stack = jnp.concatenate([state.own[..., seen.shape[-1] :], seen], axis=-1)
        return WrapperState(inner, stack), step._replace(observation=change_seen(step.observation, lambda _: stack))


class Resize(Wrapper):
    """Pictures of `height` times `width` pixels, each the mean of the area that it covers in the original.

    A pixel that is covered in part counts by the share that is covered, as in OpenCV's `INTER_AREA`; whole numbers are
    rounded to the nearest. Pictures are `[height, width]` or `[height, width, channels]`.
    """

    example: ClassVar[str] = (
        "forage train ppo my_environments.py:Pictures --wrap grey --wrap resize:84:84 --wrap frame-stack:4"
    )

    height: int = equinox.field(static=True, default=84)  # height in pixels
    width: int = equinox.field(static=True, default=84)  # width in pixels

    def __check_init__(self):
        check_least(self, "height", self.height, 1)
        check_least(self, "width", self.width, 1)
        check_numbers(self, seen_box(self, (2, 3)))

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        box = seen_box(self, (2, 3))
        shape = (self.height, self.width, *box.shape[2:])
        return with_seen_space(self.environment.observation_space, spaces.resize_box(box, shape))

    def observe(self, observation: PyTree[Array]) -> PyTree[Array]:
        return change_seen(observation, self._resize)

    def _resize(self, image: Array) -> Array:
        box = seen_box(self, (2, 3))
        channel = image[..., None] if len(box.shape) == 2 else image
        rows, columns = areas(box.shape[0], self.height), areas(box.shape[1], self.width)
        resized = jnp.einsum("rh,cw,...hwk->...rck", rows, columns, channel.astype(jnp.float32), precision="highest")
        return as_numbers(resized[..., 0] if len(box.shape) == 2 else resized, image.dtype)


class Grey(Wrapper):
    """Pictures in grey: 0.299 red + 0.587 green + 0.114 blue, `[height, width, 1]`; whole numbers are rounded.

    The weights are those of ITU-R Recommendation BT.601, as in Pillow and OpenCV.
    """

    example: ClassVar[str] = "forage train ppo my_environments.py:Pictures --wrap grey"

    def __check_init__(self):
        box = check_numbers(self, seen_box(self, (3,)))
        if box.shape[2] != 3:
            raise ForageError(
                f"Grey needs pictures in red, green and blue; {environment_name(self.environment)}'s have "
                f"{box.shape[2]} "
                f"channels."
            )

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        box = seen_box(self, (3,))
        return with_seen_space(self.environment.observation_space, spaces.resize_box(box, (*box.shape[:2], 1)))

    def observe(self, observation: PyTree[Array]) -> PyTree[Array]:
        return change_seen(observation, self._grey)

    def _grey(self, image: Array) -> Array:
        # A sum of three rather than a product of matrices, which would be less exact on some devices.
        grey = sum(weight * image[..., i : i + 1].astype(jnp.float32) for i, weight in enumerate(LUMA))
        return as_numbers(jnp.asarray(grey), image.dtype)


@functools.cache
def areas(old: int, new: int) -> Float[np.ndarray, "new old"]:
    """Return the share that each of `old` pixels in a row has in each of `new` ones: rows sum to 1."""
    edges = np.arange(new + 1) * old / new
    pixel = np.arange(old)
    covered = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    return (np.clip(covered, 0, None) * new / old).astype(np.float32)


def as_numbers(values: Float[Array, "*shape"], dtype: Any) -> Array:
    """Return values in the dtype of the pictures: rounded if that is an integer."""
    return values.astype(dtype) if jnp.issubdtype(dtype, jnp.floating) else jnp.round(values).astype(dtype)


def dtype_of(box: gymnasium.spaces.Box) -> Any:
    return box.dtype


def check_numbers(wrapper: Wrapper, box: gymnasium.spaces.Box) -> gymnasium.spaces.Box:
    """Raise `ForageError` for pictures that have no means, such as MinAtar's of truth values."""
    if box.dtype == np.bool_:
        raise ForageError(
            f"{environment_name(wrapper)} needs pictures of numbers; {environment_name(wrapper.environment)}'s are "
            f"of truth values."
        )
    return box
