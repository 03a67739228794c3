"""Long short-term memory, in layers, over single steps and over whole sequences.

Hochreiter and Schmidhuber (1997), "Long Short-Term Memory", Neural Computation 9, with the forget gate of Gers and
others (2000):  i, f, g, o = W x + U h + b,  c' = sigma(f) c + sigma(i) tanh(g),  h' = sigma(o) tanh(c').
"""

from __future__ import annotations

import math

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.types import Spec
from forage.nn.networks import NetworkConfig, Torso


class Cell(equinox.Module):
    """One layer; weights start uniform in +-1/sqrt(size), as in PyTorch."""

    weight: Float[Array, "inputs gates"]
    inner: Float[Array, "size gates"]
    bias: Float[Array, " gates"]

    def __init__(self, key: Key[Array, ""], inputs: int, size: int):
        bound, keys = 1 / math.sqrt(size), jax.random.split(key, 3)
        shapes = ((inputs, 4 * size), (size, 4 * size), (4 * size,))
        self.weight, self.inner, self.bias = (
            jax.random.uniform(k, shape, minval=-bound, maxval=bound) for k, shape in zip(keys, shapes, strict=True)
        )

    def hear(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch gates"]:
        """Compute the inputs of the gates that do not depend on time, in one product for a whole sequence."""
        return x @ self.weight + self.bias

    def step(self, state: Float[Array, "2 *batch size"], heard: Float[Array, "*batch gates"]) -> Array:
        """Return the state after one step: the output, and the cell."""
        put_in, forget, new, put_out = jnp.split(heard + state[0] @ self.inner, 4, axis=-1)
        kept = jax.nn.sigmoid(forget) * state[1] + jax.nn.sigmoid(put_in) * jnp.tanh(new)
        return jnp.stack([jax.nn.sigmoid(put_out) * jnp.tanh(kept), kept])


class LSTM(equinox.Module):
    """Layers, each with the output of the one before as its input."""

    cells: tuple[Cell, ...]

    def __init__(self, key: Key[Array, ""], inputs: int, size: int, layers: int):
        keys = jax.random.split(key, layers)
        self.cells = tuple(Cell(k, inputs if i == 0 else size, size) for i, k in enumerate(keys))

    def step(
        self, state: Float[Array, "layers 2 size"], x: Float[Array, " inputs"]
    ) -> tuple[Float[Array, "layers 2 size"], Float[Array, " size"]]:
        after = []
        for cell, before in zip(self.cells, state, strict=True):
            after.append(cell.step(before, cell.hear(x)))
            x = after[-1][0]
        return jnp.stack(after), x

    def sequence(self, x: Float[Array, "time batch inputs"]) -> Float[Array, "time batch size"]:
        """Return the outputs after each step of sequences that start from an empty memory."""
        for cell in self.cells:
            start = jnp.zeros((2, x.shape[1], cell.inner.shape[0]))

            def forward(state: Array, heard: Array, cell: Cell = cell) -> tuple[Array, Array]:
                state = cell.step(state, heard)
                return state, state[0]

            x = jax.lax.scan(forward, start, cell.hear(x))[1]
        return x


class Summary(equinox.Module):
    """The summary of all observations so far in an episode, by an LSTM."""

    torso: Torso
    lstm: LSTM

    def __init__(self, key: Key[Array, ""], spec: Spec, style: NetworkConfig, size: int, layers: int):
        torso_key, lstm_key = jax.random.split(key)
        self.torso = Torso(torso_key, spec.observation_space, (), style)
        self.lstm = LSTM(lstm_key, self.torso.size, size, layers)

    def step(
        self, state: Float[Array, "layers 2 size"], observation: PyTree[Array]
    ) -> tuple[Float[Array, "layers 2 size"], Float[Array, " size"]]:
        return self.lstm.step(state, self.torso(observation))

    def sequence(self, observations: PyTree[Array]) -> Float[Array, "time batch size"]:
        """Summarise each beginning of histories (leaves `time batch ...`)."""
        time, batch = jax.tree.leaves(observations)[0].shape[:2]
        rows = jax.tree.map(lambda x: x.reshape(time * batch, *x.shape[2:]), observations)
        return self.lstm.sequence(self.torso.rows(rows).reshape(time, batch, -1))
