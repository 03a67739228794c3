"""Cells: partitions of states into equal places, as 32-bit fingerprints."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, UInt32

from forage.core import spaces
from forage.core.ports import Environment, Part
from forage.core.ports.needs import Choices
from forage.core.types import ForageError

KINDS = ("observation", "binned", "image", "position")
NONE = np.uint32(0xFFFFFFFF)
"""The fingerprint of no cell."""
FAR = 1e9
"""Largest bound of a space that counts as one."""


class Scale(NamedTuple):
    """The scale of bins and shades: bounds, or the range of the first rollout.

    NaN where neither is known yet.
    """

    low: Float[Array, " number"]
    high: Float[Array, " number"]


class Cells(Part):
    """Rules for the cell of a state. Two states are in one cell if they have the same

    - `observation`: observation: whole numbers as they are, others in bins, for they hardly come twice.
    - `binned`: bins floor((x - low) / width) of all numbers seen, whole ones too. `width` is given, one for each or one
      for all, and `low` is 0; or else it is 1 / `bins` of the range that begins at `low`: that of the observation
      space, or of numbers without bounds that of the first rollout (where they did not change in it, 1).
    - `image`: picture, made grey (of stacked frames, their mean), shrunk to `size` (columns, rows), and its range
      parted into `shades`: that of the observation space, or where it has no bounds that of the first rollout. The
      defaults are those of Ecoffet et al. (2019), arXiv 1901.10995: 11 x 8 with 8 shades.
    - `position`: `environment.map_position`, where the environment has a map; what is carried or opened does not count.

    A cell's fingerprint is a hash of 32 bits: among ten thousand cells, two are taken for one in about one run of a
    hundred. Where levels are drawn anew, those that look the same from within are one cell, and others are not.
    """

    choices: ClassVar[Choices] = {"kind": KINDS}

    kind: str = equinox.field(static=True, default="observation")
    width: tuple[float, ...] = equinox.field(static=True, default=())
    bins: int = equinox.field(static=True, default=20)
    size: tuple[int, ...] = equinox.field(static=True, default=(11, 8))
    shades: int = equinox.field(static=True, default=8)

    def __check_init__(self):
        if self.bins < 1 or self.shades < 2 or len(self.size) != 2 or min((*self.size, *self.width), default=1) <= 0:
            raise ForageError(
                f"Cells need bins of 1 or more, widths above 0, a size of columns and rows, and 2 shades or more; got "
                f"bins={self.bins}, width={self.width}, size={self.size}, shades={self.shades}."
            )

    def check(self, environment: Environment) -> None:
        """Raise `ForageError` if this environment has no such cells."""
        name = type(environment).__name__
        if self.kind == "position" and environment.map_shape is None:
            raise ForageError(f"{name} has no map to make cells of; cells of kind observation or binned need none.")
        example, _ = spaces.split_mask(spaces.example(environment.observation_space))
        if self.kind == "image" and getattr(example, "ndim", 0) not in (2, 3):
            raise ForageError(f"{name} shows no image; use cells of kind binned or observation.")
        numbers = sum(leaf.size for leaf in jax.tree.leaves(example) if self.bins_of(leaf))
        if self.kind in ("binned", "observation") and len(self.width) not in (0, 1, numbers):
            raise ForageError(f"Give 1 width or {numbers}, one for each number of {name}; not {len(self.width)}.")

    def bins_of(self, leaf: Array) -> bool:
        """Return whether the numbers of this leaf are put into bins."""
        return self.kind == "binned" or (self.kind == "observation" and jnp.issubdtype(leaf.dtype, jnp.floating))

    def bounds(self, space: gymnasium.spaces.Space[Any]) -> Scale:
        """Return the scale that the observation space gives."""
        low, high = [np.zeros(0)], [np.zeros(0)]
        for _, leaf in sorted(spaces.spaces_by_path(spaces.observation_part(space)).items()):  # in the order of JAX
            example = spaces.example(leaf)
            if self.kind == "image":
                low.append(np.full(math.prod(self.size), np.min(leaf.low)))  # pyrefly: ignore[missing-attribute]
                high.append(np.full(math.prod(self.size), np.max(leaf.high)))  # pyrefly: ignore[missing-attribute]
            elif self.bins_of(example):
                given = isinstance(leaf, gymnasium.spaces.Box)
                low.append(leaf.low.ravel().astype(float) if given else np.full(example.size, np.nan))
                high.append(leaf.high.ravel().astype(float) if given else np.full(example.size, np.nan))
        least, most = np.concatenate(low), np.concatenate(high)
        known = (np.abs(least) < FAR) & (np.abs(most) < FAR)
        return Scale(*(jnp.where(known, x, jnp.nan).astype(jnp.float32) for x in (least, most)))

    def fit_bounds(self, scale: Scale, observations: PyTree[Array]) -> Scale:
        """Return `scale` with its unknown bounds set by these observations (leaves `row ...`)."""
        rows, known = self.numbers(observations), ~jnp.isnan(scale.low)
        return Scale(jnp.where(known, scale.low, rows.min(0)), jnp.where(known, scale.high, rows.max(0)))

    def numbers(self, observations: PyTree[Array]) -> Float[Array, "row number"]:
        """Return the numbers to be binned, or the shrunk grey image (leaves `row ...`)."""
        seen, _ = spaces.split_mask(observations)
        if self.kind == "image":
            grey = seen.astype(jnp.float32)
            grey = grey.mean(1 if spaces.channels_first(grey.shape[1:]) else -1) if grey.ndim == 4 else grey
            columns, rows = self.size
            shrunk = jax.image.resize(grey, (grey.shape[0], rows, columns), "linear")
            return shrunk.reshape(grey.shape[0], -1)
        leaves = jax.tree.leaves(seen)
        nothing = jnp.zeros((leaves[0].shape[0], 0))
        return jnp.concatenate(
            [nothing, *(flatten_rows(leaf).astype(jnp.float32) for leaf in leaves if self.bins_of(leaf))], 1
        )

    def __call__(
        self, environment: Environment, scale: Scale, env_states: Any, observations: PyTree[Array]
    ) -> UInt32[Array, " row"]:
        """Return the fingerprints of states and of their observations (leaves `row ...`)."""
        if self.kind == "position":
            return row_hash(jax.vmap(environment.map_position)(env_states)[:, None])
        rows = self.numbers(observations)
        if self.kind == "image":
            low, high = scale.low.min(), scale.high.max()
            share = (rows - low) / jnp.maximum(high - low, 1e-8)
            return row_hash(
                integer_words(jnp.clip(jnp.floor(self.shades * share), 0, self.shades - 1).astype(jnp.int32))
            )
        low, width = jnp.zeros(()), jnp.array(self.width)
        if not self.width:
            low, width = scale.low, jnp.where(scale.high > scale.low, (scale.high - scale.low) / self.bins, 1.0)
        bins = jnp.floor((rows - low) / width).astype(jnp.int32)
        exact = [leaf for leaf in jax.tree.leaves(spaces.split_mask(observations)[0]) if not self.bins_of(leaf)]
        return row_hash(jnp.concatenate([integer_words(leaf) for leaf in (*exact, bins)], axis=1))


def integer_words(leaf: Array) -> UInt32[Array, "row word"]:
    """Whole numbers as 32-bit words."""
    return flatten_rows(leaf).astype(jnp.int32).astype(jnp.uint32)


def flatten_rows(leaf: Array) -> Array:
    """Return each row of `leaf` as one line."""
    return leaf.reshape(leaf.shape[0], -1)


def row_hash(rows: Array) -> UInt32[Array, " row"]:
    """Return a hash of each row of whole numbers, never `NONE`.

    Every word is mixed with its place by the finaliser of MurmurHash3 (Appleby, 2011), and the sum is mixed again.
    """
    place = jnp.arange(1, rows.shape[1] + 1, dtype=jnp.uint32) * jnp.uint32(0x9E3779B9)
    total = mix_bits(mix_bits(rows.astype(jnp.uint32)) ^ place).sum(1, dtype=jnp.uint32)
    return jnp.minimum(mix_bits(total), NONE - np.uint32(1))


def mix_bits(x: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """Return one number for each number, far apart for neighbours."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
