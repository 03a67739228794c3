"""A variational autoencoder of vectors, as a measure of the distance of a vector from the training data.

Kingma, Welling (2014), "Auto-Encoding Variational Bayes", arXiv 1312.6114. An encoder says mean m and deviation s of a
code z = m + s e, e standard normal, and a decoder u(z) what that stands for. It learns by steps down

    mean (x - u(z))^2 + beta mean(m^2 + s^2 - 1 - log s^2) / 2

the means over the numbers of x and of the code. That loss of one x is larger the less often the like was seen.
"""

from __future__ import annotations

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.nn.layers import MLP

LEAST_LOG_STD, MOST_LOG_STD = -4.0, 15.0  # of a code, as in SUNG's program (guosyjlu/SUNG: vae.py)


class Autoencoder(equinox.Module):
    """Encoder and decoder with two hidden layers each; decoded values are between -1 and 1."""

    encoder: MLP
    decoder: MLP

    def __init__(self, key: Key[Array, ""], inputs: int, code: int, hidden: int):
        encoder_key, decoder_key = jax.random.split(key)
        self.encoder = MLP(encoder_key, (inputs, hidden, hidden, 2 * code))
        self.decoder = MLP(decoder_key, (code, hidden, hidden, inputs))

    def error(
        self, x: Float[Array, "*batch inputs"], key: Key[Array, ""], beta: float | Float[Array, ""] = 0.5
    ) -> Float[Array, "*batch"]:
        """Compute the loss of each vector, its code drawn with the key."""
        mean, log_std = jnp.split(self.encoder(x), 2, axis=-1)
        log_std = jnp.clip(log_std, LEAST_LOG_STD, MOST_LOG_STD)
        std = jnp.exp(log_std)
        decoded = jnp.tanh(self.decoder(mean + std * jax.random.normal(key, mean.shape)))
        apart = jnp.mean((x - decoded) ** 2, axis=-1)
        return apart + beta * jnp.mean(mean**2 + std**2 - 1 - 2 * log_std, axis=-1) / 2
