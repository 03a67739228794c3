"""Encoders: features of the leaves of an observation that is neither a plain box nor a plain number.

Each leaf has an encoder by its space; a dictionary's are side by side. They have the form `encoder(leaf) -> features`
for one observation, and `size`, the number of features.

| space                                 | features                                                   |
|---------------------------------------|------------------------------------------------------------|
| picture: `forage.core.spaces.picture` | `CNN`                                                      |
| other Box, MultiBinary                | its numbers, flattened; each large whole one over its bound|
| Discrete, MultiDiscrete               | one-hot, each choice after the other                       |
| Tokens                                | `SequenceReader`: embeddings with their places, averaged           |
| Dict                                  | its parts', in the order of the space                      |
"""

from __future__ import annotations

import math
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.spaces import (
    Entries,
    Tokens,
    describe_space,
    example,
    has_no_numbers,
    is_read_raw,
    offset_of,
    picture,
    scale_of,
    unknown_space,
)
from forage.core.types import ForageError
from forage.nn.layers import CNN, Linear


class Numbers(equinox.Module):
    """A box or bits, flattened, as floats; each whole number over its own bound where that is large.

    See `forage.core.spaces.scale_of` and `offset_of`.
    """

    size: int = equinox.field(static=True)
    scale: float | Entries = equinox.field(static=True, default=1.0)
    offset: Entries | None = equinox.field(static=True, default=None)

    @classmethod
    def from_space(cls, space: spaces.Space[Any]) -> Numbers:
        """Return the encoder of a box or of bits."""
        scale, offset = scale_of(space), offset_of(space)
        return cls(
            input_size(space),
            Entries(scale.reshape(-1).astype(np.float32)) if isinstance(scale, np.ndarray) else scale,
            None if offset is None else Entries(offset.reshape(-1)),
        )

    def __call__(self, x: Array) -> Float[Array, " features"]:
        x = x.reshape(-1)
        if self.offset is not None:  # as whole numbers, which are exact where floats of their size are not
            x = (x.astype(jnp.int32) if jnp.issubdtype(x.dtype, jnp.integer) else x) - self.offset.values
        scale = self.scale.values if isinstance(self.scale, Entries) else self.scale
        return x.astype(jnp.float32) * scale


class OneHot(equinox.Module):
    """One or more choices, each as a one-hot vector."""

    sizes: tuple[int, ...] = equinox.field(static=True)
    starts: tuple[int, ...] = equinox.field(static=True)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def __call__(self, x: Int[Array, "*choices"]) -> Float[Array, " features"]:
        choices = zip(self.sizes, self.starts, x.reshape(-1), strict=True)
        return jnp.concatenate([jax.nn.one_hot(choice - start, size) for size, start, choice in choices])


class SequenceReader(equinox.Module):
    """A sequence of tokens: mean over the words of relu(linear(embedding + place)), then one more layer.

        h_i = relu(W (e[token_i] + p_i) + b),   features = relu(V mean_{i: token_i is no pad} h_i + c)

    A mean of embeddings alone would read "red key, blue door" and "blue key, red door" alike. Learned places
    (Gehring et al., 2017, "Convolutional Sequence to Sequence Learning", arXiv 1705.03122) with a layer before the mean
    (Zaheer et al., 2017, "Deep Sets", arXiv 1703.06114) tell them apart in one matrix product; a GRU would take as many
    steps, one after the other, as there are words, at every observation.
    """

    embedding: Float[Array, "vocabulary embedding"]
    place: Float[Array, "length embedding"]
    word: Linear
    summary: Linear

    def __init__(self, key: Key[Array, ""], space: Tokens, gain: float | None, embedding: int = 32, size: int = 64):
        keys = jax.random.split(key, 4)
        self.embedding = jax.random.normal(keys[0], (space.vocabulary, embedding))
        self.place = jax.random.normal(keys[1], (space.length, embedding))
        self.word = Linear(keys[2], embedding, size, gain)
        self.summary = Linear(keys[3], size, size, gain)

    @property
    def size(self) -> int:
        return self.summary.bias.shape[-1]

    def __call__(self, tokens: Int[Array, " length"]) -> Float[Array, " features"]:
        is_word = (tokens != Tokens.PAD).astype(jnp.float32)
        words = jax.nn.relu(self.word(self.embedding[tokens] + self.place))
        mean = is_word @ words / jnp.maximum(is_word.sum(), 1.0)
        return jax.nn.relu(self.summary(mean))


class Parts(equinox.Module):
    """A dictionary: the features of its parts, side by side."""

    encoders: tuple[Encoder, ...]
    names: tuple[str, ...] = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], space: spaces.Dict, gain: float | None):
        if not space.spaces:
            raise ForageError("There is nothing to see in an observation that is an empty dictionary.")
        keys = jax.random.split(key, len(space.spaces))
        self.names = tuple(space.spaces)
        self.encoders = tuple(encoder(k, part, gain) for k, part in zip(keys, space.spaces.values(), strict=True))

    @property
    def size(self) -> int:
        return sum(part.size for part in self.encoders)

    def __call__(self, observation: dict[str, PyTree[Array]]) -> Float[Array, " features"]:
        parts = zip(self.names, self.encoders, strict=True)
        return jnp.concatenate([part(observation[name]) for name, part in parts])


class Own(equinox.Module):
    """An encoder of a person's own: an Equinox module `Class(key, observation_space)`.

    It makes a vector of features of one observation when it is called; its `size`, if it has one, is their number.
    What is no array in it, such as its functions, is kept apart, so that all of JAX applies.
    """

    arrays: PyTree[Array]
    rest: Any = equinox.field(static=True)
    size: int = equinox.field(static=True)

    def __init__(self, cls: Any, key: Key[Array, ""], space: spaces.Space[Any]):
        module = cls(key, space)
        if not isinstance(module, equinox.Module):  # its numbers would be constants, and never learned
            raise TypeError(f"{type(module).__name__} is no equinox.Module")
        if (size := getattr(module, "size", None)) is None:
            features = jax.eval_shape(module, example(space))  # pyrefly: ignore[bad-argument-type]
            size = math.prod(features.shape)
        self.size = int(size)
        self.arrays, self.rest = equinox.partition(module, equinox.is_inexact_array)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " features"]:
        return equinox.combine(self.arrays, self.rest)(observation)


Encoder = Numbers | OneHot | SequenceReader | CNN | Parts | Own


def encoder(key: Key[Array, ""], space: spaces.Space[Any], gain: float | None) -> Encoder:
    """Return the encoder for a space; `gain` as for `Linear`. Raise `ForageError` if networks cannot read it."""
    if isinstance(space, spaces.Dict):
        return Parts(key, space, gain)
    if has_no_numbers(space):
        return Numbers(0)
    if isinstance(space, Tokens):
        return SequenceReader(key, space, gain)
    if isinstance(space, spaces.Discrete):
        return OneHot((int(space.n),), (int(space.start),))
    if isinstance(space, spaces.MultiDiscrete):
        sizes, starts = (tuple(int(x) for x in np.ravel(values)) for values in (space.nvec, space.start))
        return OneHot(sizes, starts)
    if is_image(space):
        return CNN(key, space, gain)  # pyrefly: ignore[bad-argument-type]
    return Numbers.from_space(space)


def is_image(space: spaces.Space[Any]) -> bool:
    """Return whether a space is read by convolutions, as decided by `forage.core.spaces.picture`."""
    return picture(space) is not None


def is_plain(space: spaces.Space[Any]) -> bool:
    """Return whether a space needs no encoder: floats, bits, an image, or a number that counts from 0."""
    if isinstance(space, spaces.Discrete):
        return int(space.start) == 0
    return (
        is_image(space)
        or isinstance(space, spaces.MultiBinary)
        or (isinstance(space, spaces.Box) and is_read_raw(space))
    )


def input_size(space: spaces.Space[Any]) -> int:
    """Return the number of inputs of a network without convolutions for one observation; each token counts as one.

    Raise `ForageError` if networks cannot read the space.
    """
    if isinstance(space, spaces.Dict):
        return sum(input_size(part) for part in space.spaces.values())
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete) and not isinstance(space, Tokens):
        return int(space.nvec.sum())
    if not isinstance(space, spaces.Box | spaces.MultiBinary | Tokens):
        raise ForageError(f"Networks cannot read {describe_space(space)}. {unknown_space(space)}")
    return math.prod(space.shape)
