"""Networks: from an observation to features, and networks with a memory. Their building blocks are in `layers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.core.errors import ForageError
from forage.core.spaces import observation_part, split_mask
from forage.nn.batch_norm import BatchStyle
from forage.nn.dormant import NextLayer, Units, units_of
from forage.nn.encoders import Encoder, Own, encoder, is_image, is_plain
from forage.nn.encoders import input_size as input_size
from forage.nn.hypersphere import Hypersphere
from forage.nn.layers import ACTIVATIONS as ACTIVATIONS
from forage.nn.layers import CNN, MLP, Activation, Linear
from forage.nn.layers import Conv as Conv
from forage.nn.layers import activation as activation
from forage.nn.layers import orthogonal as orthogonal
from forage.nn.residual import GAINS, Residual


class NetworkConfig(NamedTuple):
    """The configuration of a torso, in addition to the sizes of its layers."""

    activation: str | Activation = "relu"
    layer_norm: bool = False
    encoder: Any = None  # a class of one's own, in place of what reads the space (`encoders.Own`)
    dropout: float = 0.0  # share of each layer's numbers that is dropped while a critic is taught
    torso: str = "mlp"  # what follows the encoder: mlp, one of the residual networks (`nn.residual`), or simba-v2
    # (`nn.hypersphere`)
    batch_norm: BatchStyle | None = None  # batch normalisation, of an MLP alone

    @classmethod
    def from_agent(cls, agent: Any) -> NetworkConfig:
        """Return the options of an agent that has all of them, but perhaps no `torso`."""
        return cls(agent.activation, agent.layer_norm, agent.encoder, torso=getattr(agent, "torso", "mlp"))

    @property
    def head_gain(self) -> float | None:
        """Return the gain of the layer that an agent puts behind a torso, as for `Linear`."""
        return GAINS.get(self.torso)


def body(
    key: Key[Array, ""],
    inputs: int,
    sizes: Sequence[int],
    outputs: int | None,
    style: NetworkConfig,
    gain: float | None = None,
) -> MLP | Residual | Hypersphere:
    """Return the layers of a style; `outputs` of the last one, `None`: the last hidden layer gives features.

    `gain` of an MLP's layers is as for `Linear`.
    """
    if style.torso == "simba-v2":
        return Hypersphere(key, inputs, sizes, outputs, style.activation)
    if style.torso != "mlp":
        return Residual(key, style.torso, inputs, sizes, outputs, style.activation)
    layers = (inputs, *sizes) if outputs is None else (inputs, *sizes, outputs)
    more = style.layer_norm, style.dropout, style.batch_norm
    return MLP(key, layers, style.activation, gain, None, outputs is None, *more)


class Torso(equinox.Module):
    """From an observation (but its action mask) to features: CNN for images, one-hot for numbers, else an MLP.

    What is neither of these, a dictionary above all, goes through `encoders` first, leaf by leaf, then the MLP; and so
    does everything through an encoder of one's own. Without sizes there is no MLP.
    """

    body: CNN | MLP | Residual | Hypersphere | None
    encoder: Encoder | None
    size: int = equinox.field(static=True)  # number of features
    categories: int | None = equinox.field(static=True)

    def __init__(
        self,
        key: Key[Array, ""],
        space: spaces.Space[Any],
        sizes: Sequence[int],
        style: NetworkConfig | str | Activation,
        gain: float | None = None,
        dense: bool = True,
    ):
        """`sizes` of an MLP's layers; of a CNN, `dense` is whether a layer follows the convolutions.

        `style`: an activation stands for a style that has it.
        """
        space = observation_part(space)
        style = style if isinstance(style, NetworkConfig) else NetworkConfig(style)
        self.categories = int(space.n) if isinstance(space, spaces.Discrete) and is_plain(space) else None
        self.encoder = None
        if is_image(space) and style.encoder is None:
            self.body = CNN(key, space, gain, dense)  # pyrefly: ignore[bad-argument-type]
            self.size = self.body.size
            return
        if style.encoder is not None or not is_plain(space):
            key, encoder_key = jax.random.split(key)
            own = style.encoder is not None
            self.encoder = Own(style.encoder, encoder_key, space) if own else encoder(encoder_key, space, gain)
        inputs = input_size(space) if self.encoder is None else self.encoder.size
        self.body = body(key, inputs, sizes, None, style, gain) if sizes else None
        self.size = sizes[-1] if sizes else inputs

    @property
    def convolves(self) -> bool:
        """Return whether it reads an image, alone or among other leaves: worth sharing between policy and value."""
        parts = jax.tree.leaves(self, is_leaf=lambda x: isinstance(x, CNN))
        return any(isinstance(part, CNN) for part in parts)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " features"]:
        if isinstance(self.body, CNN):
            return self.body(split_mask(observation)[0])
        read = self.body_input(observation)
        return read if self.body is None else self.body(read)

    def body_input(self, observation: PyTree[Array]) -> Float[Array, " inputs"]:
        """Return the body's input for an observation that is no image."""
        observation, _ = split_mask(observation)
        if self.encoder is not None:
            return self.encoder(observation)
        if self.categories is not None:
            return jax.nn.one_hot(observation, self.categories)
        return observation.reshape(-1).astype(jnp.float32)

    def activations(self, observation: PyTree[Array]) -> tuple[Float[Array, " units"], ...]:
        """Return the output of each layer, except those of encoders."""
        observation, _ = split_mask(observation)
        if self.body is None:
            return ()
        return self.body.activations(observation if isinstance(self.body, CNN) else self.body_input(observation))

    def apply_in_training(
        self, observations: PyTree[Array], counts: Bool[Array, " rows"]
    ) -> tuple[Float[Array, "rows features"], Torso]:
        """Return features of many observations while it learns, and the torso with its running statistics moved.

        `counts`: of which rows, as for `MLP.apply_in_training`; for a torso with batch normalisation.
        """
        assert isinstance(self.body, MLP)
        features, moved = self.body.apply_in_training(jax.vmap(self.body_input)(observations), counts)
        return features, equinox.tree_at(lambda torso: torso.body, self, moved)

    def rows(self, observations: PyTree[Array]) -> Float[Array, "rows features"]:
        """Features of many observations (leaves `rows ...`), as if one by one; of images, sooner."""
        if isinstance(self.body, CNN):
            return self.body.rows(split_mask(observations)[0])
        return jax.vmap(self)(observations)


class TorsoHead(equinox.Module):
    """A torso with a linear layer on its features."""

    torso: Torso
    head: Linear

    def __init__(
        self,
        key: Key[Array, ""],
        space: spaces.Space[Any],
        sizes: Sequence[int],
        style: NetworkConfig | str | Activation,
        outputs: int,
        gain: float | None = None,
        head_gain: float | None = None,
    ):
        """Make both; `gain` of the torso's layers, `head_gain` of the last."""
        torso_key, head_key = jax.random.split(key)
        self.torso = Torso(torso_key, space, sizes, style, gain)
        self.head = Linear(head_key, self.torso.size, outputs, head_gain)

    def units(self, observation: PyTree[Array]) -> list[Units]:
        """Return the units of all layers but the last, of a batch."""
        outputs = jax.vmap(self.torso.activations)(observation)
        return units_of(self.torso.body, outputs, lambda n: n.torso.body, (NextLayer(lambda n: n.head),))


class GRUState(NamedTuple):
    """The state that an agent with memory keeps from step to step."""

    features: Float[Array, " memory"]  # the state of the GRU or LSTM
    action: Float[Array, " actions"]  # the action before (`Actions.action_features`), all zeros at an episode's start

    @classmethod
    def nothing(cls, memory: int, actions: int) -> GRUState:
        return cls(jnp.zeros(memory), jnp.zeros(actions))

    @classmethod
    def from_agent(cls, agent: Any, actions: int) -> GRUState:
        """Return the state at an episode's start, of an agent with the options `cell` and `gru_size`."""
        return cls.nothing(CELLS[agent.cell].parts * agent.gru_size, actions)


class GRU(equinox.Module):
    """Gated recurrent unit (Cho et al., 2014, arXiv 1406.1078): h' = (1 - z) n + z h. The last action is an input,
    too.
    """

    parts: ClassVar[int] = 1  # numbers of a state for each unit
    gates: ClassVar[int] = 3

    inputs: Linear
    hidden: Linear

    def __init__(self, key: Key[Array, ""], inputs: int, actions: int, size: int):
        input_key, hidden_key = jax.random.split(key)
        self.inputs = Linear(input_key, inputs + actions, self.gates * size, gain=1.0)
        self.hidden = Linear(hidden_key, size, self.gates * size, gain=1.0)

    def __call__(self, before: GRUState, features: Float[Array, " inputs"]) -> Float[Array, " size"]:
        return self.step(before.features, self.hear(features, before.action))

    def hear(self, features: Float[Array, " inputs"], action: Float[Array, " actions"]) -> Float[Array, " gates"]:
        """Compute the inputs of the gates that do not depend on time, from an observation's features and the action
        before it.
        """
        return self.inputs(jnp.concatenate([features, action]))

    def step(self, h: Float[Array, " size"], x: Float[Array, " gates"]) -> Float[Array, " size"]:
        """Compute the next state; `x` is the result of `hear`, computed in one product for a whole sequence."""
        x_reset, x_update, x_new = jnp.split(x, 3)
        h_reset, h_update, h_new = jnp.split(self.hidden(h), 3)
        reset, update = jax.nn.sigmoid(x_reset + h_reset), jax.nn.sigmoid(x_update + h_update)
        new = jnp.tanh(x_new + reset * h_new)
        return (1 - update) * new + update * h

    def output(self, state: Float[Array, "*batch state"]) -> Float[Array, "*batch size"]:
        """Return the part of a state that later layers read."""
        return state


class LSTMCell(GRU):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997) with forget gates (Gers et al., 2000).

        c' = f c + i g,   h' = o tanh c'

    Later layers read h; a state is h and c, one after the other. The last action is an input, too.
    """

    parts: ClassVar[int] = 2
    gates: ClassVar[int] = 4

    def step(self, h: Float[Array, " state"], x: Float[Array, " gates"]) -> Float[Array, " state"]:
        hidden, cell = jnp.split(h, 2)
        now, forget, new, out = jnp.split(x + self.hidden(hidden), 4)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(now) * jnp.tanh(new)
        return jnp.concatenate([jax.nn.sigmoid(out) * jnp.tanh(cell), cell])

    def output(self, state: Float[Array, "*batch state"]) -> Float[Array, "*batch size"]:
        return state[..., : state.shape[-1] // 2]


CELLS: dict[str, type[GRU]] = {"gru": GRU, "lstm": LSTMCell}
"""Memories by the word of the option `cell`."""


def check_cell(agent: Any) -> None:
    """Raise `ForageError` for a `cell` of an agent without units of memory."""
    if agent.cell != "gru" and not agent.gru_size:
        raise ForageError(f"An {agent.cell.upper()} needs units; add gru_size=64, or leave cell out.")
