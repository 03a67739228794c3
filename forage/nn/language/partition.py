"""The division of a transformer among the devices of a mesh: one table of rules, by the kind of an array.

A mesh has the axes `data` and `model`. Rows of text are divided by `data`, and so is each array of weights, as
somewhere to keep it: a device has its part alone, and gets the rest of a layer when it computes that layer (Zhao et
al., 2023, "PyTorch FSDP", arXiv 2304.11277; Rajbhandari et al., 2020, "ZeRO", arXiv 1910.02054, stage 3). By `model`
devices divide the computation too: heads, units of an MLP, the vocabulary (Shoeybi et al., 2019, "Megatron-LM", arXiv
1909.08053, section 3), of which each device has a part of the results, and adds what it computed of the layer's output
to that of the others. The papers' own pages could not be looked up.

What `model` does not divide evenly, every device computes whole; the array is kept in parts all the same, along the
next axis that divides. Attention whose heads of keys do not divide, such as two by four devices, is computed and cached
by rows in their place, which all devices divide. An array without such an axis is whole on every device, and so are
norms. XLA adds the communication (GSPMD); the numbers differ from one device's in the order of sums alone.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, PyTree

from forage.core import mesh
from forage.core.mesh import ENV, MODEL, ONE, Shape
from forage.nn.language.architecture import Architecture


class DivisionRule(NamedTuple):
    """The axes of an array along which devices divide it."""

    parallel: int | None  # the axis of which devices of `model` compute a part each; `None`: there is none
    order: tuple[int, ...]  # the axes to keep it in parts by, in order of preference
    units: str = ""  # what of an architecture `model` has to divide for that


COLUMNS = {"queries": "kv_heads", "keys": "kv_heads", "values": "kv_heads", "gate": "inner", "up": "inner"}
"""Projections whose outputs are divided by `model`, with the number of their units."""
ROWS = {"out": "kv_heads", "down": "inner"}
"""Projections whose inputs are divided by `model`."""

RULES: dict[str, DivisionRule] = {
    "table": DivisionRule(0, (1, 0), "vocabulary"),  # vocabulary width
    "head": DivisionRule(0, (1, 0), "vocabulary"),
    "positions": DivisionRule(None, (1, 0)),  # length width
    **{f"{name}.weight": DivisionRule(1, (0, 1), units) for name, units in COLUMNS.items()},  # inputs outputs
    **{f"{name}.bias": DivisionRule(0, (), units) for name, units in COLUMNS.items()},
    **{f"{name}.lora_a": DivisionRule(None, (0,)) for name in COLUMNS},  # inputs rank
    **{f"{name}.lora_b": DivisionRule(1, (1,), units) for name, units in COLUMNS.items()},  # rank outputs
    **{f"{name}.weight": DivisionRule(0, (1, 0), units) for name, units in ROWS.items()},
    **{f"{name}.lora_a": DivisionRule(0, (0,), units) for name, units in ROWS.items()},
    **{f"{name}.lora_b": DivisionRule(None, (1,)) for name in ROWS},
    "experts.router": DivisionRule(None, (0, 1)),  # width expert
    "experts.gate": DivisionRule(2, (1, 2, 0), "expert_inner"),  # expert width inner
    "experts.up": DivisionRule(2, (1, 2, 0), "expert_inner"),
    "experts.down": DivisionRule(1, (2, 1, 0), "expert_inner"),  # expert inner width
}
"""The rule of each kind of array; norms, and biases of outputs, have none and are whole on every device."""
DIMENSIONS = {"bias": 1, "gate": 3, "up": 3, "down": 3}
"""The number of axes of arrays by the ends of their names; of all others 2."""
WORDS = {
    "vocabulary": "a vocabulary of {}, computed whole",
    "kv_heads": "{} heads of keys, computed by rows",
    "inner": "{} units of an MLP, computed whole",
    "expert_inner": "{} units of an expert, computed whole",
}
"""The units that `model` divides, in words."""


def array_kind(path: Sequence[Any]) -> str:
    """Return the kind of the array at a path into a transformer or a block: its name, with that of its projection."""
    names = [key.name for key in path if hasattr(key, "name")]
    inner = len(names) > 1 and names[-2] != "blocks"
    return ".".join(names[-2:] if inner else names[-1:])


def divides(architecture: Architecture, units: str, model: int) -> bool:
    """Return whether devices of `model` can compute an equal part of these units each."""
    return getattr(architecture, units) % model == 0


def kept_in_parts(kind: str, sizes: Sequence[int], architecture: Architecture, shape: Shape, before: int = 0) -> P:
    """Return the axes of the mesh by which an array of a kind is kept in parts.

    `before`: the number of axes in front of those of the rule.
    """
    rule, sizes = RULES.get(kind), sizes[before:]
    if rule is None or len(sizes) != DIMENSIONS.get(kind.rpartition(".")[2], 2):
        return P()
    first = () if rule.parallel is None else (rule.parallel,)
    names: dict[int, tuple[str, ...]] = {}
    taken = [1] * len(sizes)
    together = first and divides(architecture, rule.units, shape.model)
    for name, count, axes in (
        (MODEL, shape.model, (*first, *rule.order) if together else (*rule.order, *first)),
        (ENV, shape.env, (*rule.order, *first) if rule.order else ()),
    ):
        axis = next((one for one in axes if sizes[one] % (count * taken[one]) == 0), None)
        if count > 1 and axis is not None:
            names[axis] = (*names.get(axis, ()), name)
            taken[axis] *= count
    found = [names.get(axis, ()) for axis in range(len(sizes))]
    return P(*[None] * before, *(one[0] if len(one) == 1 else one or None for one in found))


def computed_in_parts(kind: str, sizes: Sequence[int], architecture: Architecture, shape: Shape) -> P:
    """Return the axes of the mesh by which devices compute with an array in parts: at most `model`."""
    rule = RULES.get(kind)
    if rule is None or rule.parallel is None or shape.model == 1 or len(sizes) <= rule.parallel:
        return P()
    return P(*[None] * rule.parallel, MODEL) if divides(architecture, rule.units, shape.model) else P()


def partition(network: Any, architecture: Architecture, shape: Shape, before: int = 0) -> PyTree[P]:
    """Return the axes by which each array of a transformer, or of a tree like it, is kept in parts."""
    return jax.tree_util.tree_map_with_path(
        lambda path, x: kept_in_parts(array_kind(path), x.shape, architecture, shape, before), network
    )


def indivisible_units(architecture: Architecture, shape: Shape) -> list[str]:
    """Return phrases about the units that devices of `model` do not divide, as their number leaves a rest."""
    units = ["vocabulary", "kv_heads", "expert_inner" if architecture.experts else "inner"]
    return [
        WORDS[name].format(getattr(architecture, name))
        for name in units
        if not divides(architecture, name, shape.model)
    ]


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _gather(x: Array, kept: P, computed: P) -> Array:
    """Lay out an array to compute with it, and its gradient as the array is kept."""
    return jax.lax.with_sharding_constraint(x, computed)


def _gather_forward(x: Array, kept: P, computed: P) -> tuple[Array, None]:
    return _gather(x, kept, computed), None


def _gather_backward(kept: P, computed: P, _: None, gradient: Array) -> tuple[Array]:
    gradient = jax.lax.with_sharding_constraint(gradient, computed)  # summed over `data`, and then cut
    return (jax.lax.with_sharding_constraint(gradient, kept),)


_gather.defvjp(_gather_forward, _gather_backward)


def keeps_part(primitive: Any, *_: Any, **parameters: Any) -> bool:
    """Return whether a gradient keeps the result of an operation: all but gathered weights."""
    return primitive.name != "sharding_constraint"


def gather(tree: PyTree[Array], architecture: Architecture, kind: str = "") -> PyTree[Array]:
    """Return weights as devices compute with them: those of the same part of `model` on all devices of `data`.

    `tree`: a block, or an array of this `kind`. Outside of a mesh it comes back as it is.
    """
    shape = mesh.traced_shape()
    if shape == ONE:
        return tree

    def leaf(path: Sequence[Any], x: Array) -> Array:
        name = kind or array_kind(path)
        kept = kept_in_parts(name, x.shape, architecture, shape)
        return _gather(x, kept, computed_in_parts(name, x.shape, architecture, shape))

    return jax.tree_util.tree_map_with_path(leaf, tree)


def share_attention(
    h: Float[Array, "batch time width"], architecture: Architecture
) -> Float[Array, "batch time width"]:
    """Divide the inputs of attention by all devices' rows, where `model` does not divide its heads."""
    shape = mesh.traced_shape()
    if shape == ONE or divides(architecture, "kv_heads", shape.model):
        return h
    return jax.lax.with_sharding_constraint(h, P(cache_axes(len(h), architecture, shape)[0]))


def share_cache(layers: PyTree[Array], architecture: Architecture) -> PyTree[Array]:
    """Divide keys and values, `batch heads length size`, by their rows and heads; heads that do not divide by rows."""
    shape = mesh.traced_shape()
    if shape == ONE:
        return layers

    def leaf(x: Array) -> Array:
        return jax.lax.with_sharding_constraint(x, cache_axes(len(x), architecture, shape))

    return jax.tree.map(leaf, layers)


def cache_axes(rows: int, architecture: Architecture, shape: Shape) -> P:
    """Return the axes by which the keys and values of a layer are divided."""
    by_head = divides(architecture, "kv_heads", shape.model)
    names = [ENV] if by_head else [ENV, MODEL]
    while names and rows % (shape.env if names == [ENV] else shape.of_seed):
        names.pop()
    return P(tuple(names) or None, MODEL if by_head else None)
