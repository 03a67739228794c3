"""Dormant units: finding units with almost no output, and resetting them.

Sokar, Agarwal, Castro, Evci (2023), "The Dormant Neuron Phenomenon in Deep Reinforcement Learning", arXiv 2302.12902.
With h_i(x) what unit i of a layer puts out, its score over a batch is

    s_i = mean_x |h_i(x)| / mean_j mean_x |h_j(x)|,       dormant where s_i <= threshold

Recycling (ReDo) draws a dormant unit's incoming weights anew, sets its outgoing ones to zero and forgets what the
optimiser knows of both. A convolution's feature is one unit. As in the authors' code (`weight_recyclers.py` of
google/dopamine) where a weight both comes into one dormant unit and goes out of another, it is zero, and steps that the
optimiser counts go on; there biases become zero, here they are drawn anew as when a network is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from forage.nn.batch_norm import BatchNorm
from forage.nn.hypersphere import Hypersphere
from forage.nn.layers import CNN, MLP, Linear, Norm
from forage.nn.residual import Residual

Network = TypeVar("Network")
PER_UNIT = ("scale", "offset", "mean", "variance")
"""The fields of a layer's or a batch's normalisation that have an entry for each unit."""


class NextLayer(NamedTuple):
    """A layer that takes units as input: its place in a network, and the number of its first inputs that are units."""

    where: Callable[[Any], Linear]
    inputs: int | None = None  # `None`: all


class Units(NamedTuple):
    """The units of one layer: their outputs, and their place in a network."""

    output: Float[Array, "batch units"]
    where: Callable[[Any], Linear]
    norms: tuple[Callable[[Any], Norm | BatchNorm], ...]
    followers: tuple[NextLayer, ...]


def units_of(
    body: CNN | MLP | Residual | Hypersphere | None,
    outputs: Sequence[Float[Array, "batch units"]],
    where: Callable[[Any], Any],
    after: tuple[NextLayer, ...] = (),
) -> list[Units]:
    """Return the units of a network's `body` at `where`, given the outputs of its layers.

    `after`: the layers that hear the last of these units.
    """
    if body is None:
        return []
    if isinstance(body, Residual | Hypersphere):
        return [block_units(body, where, i, output) for i, output in enumerate(outputs)]
    places: list[Callable[[Any], Linear]]
    if isinstance(body, CNN):
        places = [lambda n, i=i: where(n).convolutions[i].linear for i in range(len(body.convolutions))]
        places += [lambda n: where(n).dense] if body.dense else []
    else:
        places = [lambda n, i=i: where(n).layers[i] for i in range(len(body.layers))]
    found = []
    for i, output in enumerate(outputs):
        followers = (NextLayer(places[i + 1]),) if i + 1 < len(places) else after
        norms: tuple[Callable[[Any], Any], ...] = ()
        if isinstance(body, MLP) and body.norms:
            norms = (lambda n, i=i: where(n).norms[i],)
        if isinstance(body, MLP) and body.batch_norms:
            norms = (*norms, lambda n, i=i: where(n).batch_norms[i + 1])
        found.append(Units(output, places[i], norms, followers))
    return found


def block_units(
    body: Residual | Hypersphere, where: Callable[[Any], Any], i: int, output: Float[Array, "batch units"]
) -> Units:
    """Return the units inside one block, which are the input of the block's second layer."""
    if isinstance(body, Hypersphere) or body.torso == "simba":
        return Units(output, lambda n: where(n).blocks[i].up, (), (NextLayer(lambda n: where(n).blocks[i].down),))
    norm = lambda n: where(n).blocks[i].first_norm  # noqa: E731
    return Units(output, lambda n: where(n).blocks[i].first, (norm,), (NextLayer(lambda n: where(n).blocks[i].second),))


def dormant(output: Float[Array, "batch units"], threshold: Any) -> Bool[Array, " units"]:
    """Return the mask of a layer's dormant units."""
    score = jnp.abs(output).mean(0)
    return score <= threshold * (score.mean() + 1e-9)


def share_dormant(layers: Sequence[Units], threshold: Any) -> Float[Array, ""]:
    """Compute the share of dormant units among those of all layers."""
    flags = [dormant(units.output, threshold) for units in layers]
    return jnp.concatenate(flags).mean() if flags else jnp.zeros(())


def recycle_units(
    network: Network, fresh: Network, layers: Sequence[Units], threshold: Any
) -> tuple[Network, PyTree[Array]]:
    """Return the network with its dormant units reset, and the mask of the numbers that changed.

    `fresh` is a network with other random weights.
    """
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, bool), network)
    drawn, silenced = nothing, nothing
    for units in layers:
        flags = dormant(units.output, threshold)
        drawn = mark_units(drawn, lambda n, units=units: units.where(n).weight, flags)
        drawn = mark_units(drawn, lambda n, units=units: units.where(n).bias, flags)
        for norm in units.norms:
            for name in PER_UNIT:
                if hasattr(norm(network), name):
                    drawn = mark_units(drawn, lambda n, norm=norm, name=name: getattr(norm(n), name), flags)
        for follower in units.followers:
            weight = lambda n, follower=follower: follower.where(n).weight  # noqa: E731
            silenced = mark_units(silenced, weight, heard(flags, len(weight(network)), follower.inputs))
    changed = jax.tree.map(jnp.logical_or, drawn, silenced)

    def leaf(old: Array, new: Array, drawn: Array, silenced: Array) -> Array:
        return jnp.where(silenced, 0, jnp.where(drawn, new, old))

    return jax.tree.map(leaf, network, fresh, drawn, silenced), changed


def mark_units(masks: Network, where: Callable[[Any], Array], flags: Array) -> Network:
    """Return the masks with more marks in one of them."""
    return equinox.tree_at(where, masks, replace_fn=lambda mask: mask | flags)


def heard(flags: Bool[Array, " units"], rows: int, inputs: int | None) -> Bool[Array, "rows 1"]:
    """Return the mask of a layer's weight rows for units with a flag; a convolution's features repeat at each place.

    `inputs`: how many of the first rows are for these units; `None`: all.
    """
    inputs = rows if inputs is None else inputs
    return jnp.pad(jnp.tile(flags, inputs // len(flags)), (0, rows - inputs))[:, None]
