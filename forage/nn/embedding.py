"""Embeddings: the features of observations that bonuses use, for observations given as rows of floats."""

from __future__ import annotations

from collections.abc import Sequence

import equinox
import jax
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float, Key

from forage.nn.layers import MLP, is_large
from forage.nn.networks import Torso

LIMIT = 5.0
"""Normalised observations are clipped to plus or minus this (Burda et al., 2018, arXiv 1810.12894, section 2.4)."""


class Embedding(equinox.Module):
    """From a normalised observation to `size` numbers: CNN for an image, else MLP; then `extra_layers`, then linear.

    Of images of 64 pixels and more the convolutions' own features are what the linear layer sees, as in the papers of
    bonuses, and extra layers have 512 units; smaller ones have a dense layer between.
    """

    torso: Torso
    head: MLP

    def __init__(
        self, key: Key[Array, ""], shape: tuple[int, ...], hidden_sizes: Sequence[int], size: int, extra_layers: int = 0
    ):
        torso_key, head_key = jax.random.split(key)
        # Normalised observations are floats about zero, also where the environment's are bytes.
        space = spaces.Box(-LIMIT, LIMIT, shape, np.float32)
        gain = 2**0.5
        large = is_large(space)
        self.torso = Torso(torso_key, space, hidden_sizes, "relu", gain, dense=not large)
        width = 512 if large else self.torso.size
        sizes = (self.torso.size, *(width,) * extra_layers, size)
        self.head = MLP(head_key, sizes, "relu", gain, last_gain=gain)

    def __call__(self, observation: Float[Array, "*shape"]) -> Float[Array, " embedding"]:
        return self.head(self.torso(observation))

    def rows(self, observations: Float[Array, "rows *shape"]) -> Float[Array, "rows embedding"]:
        """Embed many observations, as if one by one."""
        return self.head(self.torso.rows(observations))
