"""Cells: which states count as the same place, as 32-bit fingerprints."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, UInt32

from forage import spaces
from forage.ports import Environment, Part
from forage.types import ForageError

KINDS = ("observation", "binned", "image", "position")
NONE = np.uint32(0xFFFFFFFF)
"""The fingerprint of no cell."""


class Scale(NamedTuple):
    """What the bins of numbers and the shades of images are measured by: the range of the first rollout."""

    low: Float[Array, " number"]
    high: Float[Array, " number"]


class Cells(Part):
    """Two states are in one cell where they have the same

    - `observation`: observation, exactly; for grids and tables.
    - `binned`: whole numbers floor((x - low) / width) of all numbers seen. `width` is given, one for each or one for
      all, or else it is 1 / `bins` of the range of the first rollout, whose lowest value is `low`.
    - `image`: picture, made grey (of stacked frames, their mean), shrunk to `size` (columns, rows), and its range
      parted into `shades`: that of the observation space, or where it has no bounds that of the first rollout. The
      defaults are those of Ecoffet et al. (2019), arXiv 1901.10995: 11 x 8 with 8 shades.
    - `position`: `environment.place`, where the environment has a map; what is carried or opened does not count.

    A cell's fingerprint is a hash of 32 bits: among ten thousand cells, two are taken for one in about one run of a
    hundred. Where levels are drawn anew, those that look the same from within are one cell, and others are not.
    """

    kind: str = equinox.field(static=True, default="observation")
    width: tuple[float, ...] = equinox.field(static=True, default=())
    bins: int = equinox.field(static=True, default=20)
    size: tuple[int, ...] = equinox.field(static=True, default=(11, 8))
    shades: int = equinox.field(static=True, default=8)

    def __check_init__(self):
        if self.kind not in KINDS:
            raise ForageError(f"There are no cells by {self.kind!r}; there are {', '.join(KINDS)}.")
        if self.bins < 1 or self.shades < 2 or len(self.size) != 2 or min((*self.size, *self.width), default=1) <= 0:
            raise ForageError(
                f"Cells need bins of 1 or more, widths above 0, a size of columns and rows, and 2 shades or more; got "
                f"bins={self.bins}, width={self.width}, size={self.size}, shades={self.shades}."
            )

    def check(self, environment: Environment) -> None:
        """Raises `ForageError` where this environment has no such cells."""
        name = type(environment).__name__
        if self.kind == "position" and environment.places is None:
            raise ForageError(f"{name} has no map to make cells of; cells of kind observation or binned need none.")
        example, _ = spaces.split_mask(spaces.example(environment.observation_space))
        if self.kind == "image" and getattr(example, "ndim", 0) not in (2, 3):
            raise ForageError(f"{name} shows no image; use cells of kind binned or observation.")
        numbers = sum(leaf.size for leaf in jax.tree.leaves(example))
        if self.kind == "binned" and len(self.width) not in (0, 1, numbers):
            raise ForageError(f"Give 1 width or {numbers}, one for each number of {name}; not {len(self.width)}.")

    def unmeasured(self, observation: PyTree[Array]) -> Scale:
        """The scale before anything was seen, shaped as for one observation."""
        size = self.numbers(jax.tree.map(lambda x: x[None], observation)).shape[-1]
        return Scale(jnp.zeros(size), jnp.ones(size))

    def measured(self, observations: PyTree[Array]) -> Scale:
        """The scale by what was seen in the first rollout (leaves `row ...`)."""
        rows = self.numbers(observations)
        return Scale(rows.min(0), rows.max(0))

    def numbers(self, observations: PyTree[Array]) -> Float[Array, "row number"]:
        """What bins are made of, or the shrunk grey image (leaves `row ...`)."""
        seen, _ = spaces.split_mask(observations)
        if self.kind == "binned":
            leaves = jax.tree.leaves(seen)
            return jnp.concatenate([leaf.reshape(leaf.shape[0], -1).astype(jnp.float32) for leaf in leaves], axis=1)
        if self.kind == "image":
            grey = seen.astype(jnp.float32)
            grey = grey.mean(-1) if grey.ndim == 4 else grey
            columns, rows = self.size
            shrunk = jax.image.resize(grey, (grey.shape[0], rows, columns), "linear")
            return shrunk.reshape(grey.shape[0], -1)
        return jnp.zeros((jax.tree.leaves(seen)[0].shape[0], 0))

    def __call__(
        self, environment: Environment, scale: Scale, env_states: Any, observations: PyTree[Array]
    ) -> UInt32[Array, " row"]:
        """The fingerprints of states and what is seen in them (leaves `row ...`)."""
        if self.kind == "position":
            return fingerprint(jax.vmap(environment.place)(env_states)[:, None])
        if self.kind == "observation":
            leaves = jax.tree.leaves(spaces.split_mask(observations)[0])
            return fingerprint(jnp.concatenate([words(leaf) for leaf in leaves], axis=1))
        rows = self.numbers(observations)
        if self.kind == "image":
            low, high = bounds(environment) or (scale.low.min(), scale.high.max())
            share = (rows - low) / jnp.maximum(high - low, 1e-8)
            return fingerprint(words(jnp.clip(jnp.floor(self.shades * share), 0, self.shades - 1).astype(jnp.int32)))
        low = 0.0 if self.width else scale.low
        width = jnp.array(self.width) if self.width else jnp.maximum(scale.high - scale.low, 1e-8) / self.bins
        return fingerprint(words(jnp.floor((rows - low) / width).astype(jnp.int32)))


def bounds(environment: Environment) -> tuple[float, float] | None:
    """The least and the greatest value of an image, where the observation space says so."""
    space = spaces.seen(environment.observation_space)
    low, high = float(np.min(space.low)), float(np.max(space.high))  # pyrefly: ignore[missing-attribute]
    return (low, high) if np.isfinite([low, high]).all() and high - low < 1e9 else None


def words(leaf: Array) -> UInt32[Array, "row word"]:
    """Any array as 32-bit words; numbers that are equal give equal words."""
    rows = leaf.reshape(leaf.shape[0], -1)
    if jnp.issubdtype(rows.dtype, jnp.floating):
        rows = jnp.where(rows == 0, 0.0, rows.astype(jnp.float32))  # minus zero becomes zero
        return jax.lax.bitcast_convert_type(rows, jnp.uint32)
    return rows.astype(jnp.int32).astype(jnp.uint32)


def fingerprint(rows: Array) -> UInt32[Array, " row"]:
    """A hash of each row of whole numbers, never `NONE`.

    Every word is mixed with its place by the finaliser of MurmurHash3 (Appleby, 2011), and the sum is mixed again.
    """
    place = jnp.arange(1, rows.shape[1] + 1, dtype=jnp.uint32) * jnp.uint32(0x9E3779B9)
    total = mixed(mixed(rows.astype(jnp.uint32)) ^ place).sum(1, dtype=jnp.uint32)
    return jnp.minimum(mixed(total), NONE - np.uint32(1))


def mixed(x: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """One number for each number, far apart for neighbours."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
