"""A mesh of devices: seeds along its first axis, environments of each seed along the second, weights along the third.

Seeds never speak to each other, and what runs on their axis is written for the seeds of one device (`shard_map`). The
axis of environments is left to XLA: where a program says by `split_leaves` that an axis counts environments (or rows of
a batch, members of a population), each device computes its share, and a mean over them, such as a gradient, is summed
over the devices. What a program computes does not depend on it, but for the order of sums.

Weights that say how devices divide them (`SharedWeights`) lie in parts on the devices of a seed, by both of its axes,
and so does all that is shaped like them: gradients, an optimiser's moments and masters. Other weights are on every
device whole. Users call the axes of a seed `data` and `model`.
"""

from __future__ import annotations

import abc
import contextlib
import math
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox
import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Int, PyTree

from forage.core.errors import ForageError

SEED, ENV, MODEL = "seed", "env", "model"
AXES = {"data": ENV, "model": MODEL}
"""The axes of a mesh that a person may ask for, by the names that they have in words."""


class Shape(NamedTuple):
    """The number of devices that share the seeds, the environments of each seed, and the weights of each of those."""

    seed: int
    env: int
    model: int = 1

    @property
    def of_seed(self) -> int:
        """Return the number of devices of one seed."""
        return self.env * self.model

    def fit_devices(self, count: int) -> Shape:
        """Return the same shape, or, where there are fewer devices, one whose sides divide its own."""
        model = max(n for n in range(1, self.model + 1) if self.model % n == 0 and n <= count)
        env = max(n for n in range(1, self.env + 1) if self.env % n == 0 and n * model <= count)
        return Shape(max(min(self.seed, count // (env * model)), 1), env, model)

    def __str__(self) -> str:
        return f"data:{self.env},model:{self.model}"


ONE = Shape(1, 1)


Devices = int | Shape | None
"""The devices of a run: their number, a mesh of this shape, or `None` for a suitable choice."""


def size_of(devices: int | Shape) -> int:
    """Return the number of requested devices."""
    return math.prod(devices) if isinstance(devices, Shape) else devices


def parse_mesh(text: str) -> Shape:
    """Return the shape that words such as `data:2,model:4` stand for. Raise `ForageError` for others."""
    found: dict[str, int] = {}
    for word in text.split(","):
        name, _, count = word.strip().partition(":")
        if name not in AXES or not count.isdecimal() or int(count) < 1 or name in found:
            raise ForageError(
                f"A mesh is a number of devices for data, for model or for both, as in data:8 or data:2,model:4, "
                f"not {text!r}."
            )
        found[name] = int(count)
    return Shape(1, found.get("data", 1), found.get("model", 1))


def forced_devices() -> int | None:
    """Return the number of CPU devices set by `XLA_FLAGS`, which JAX's own setting would overrule."""
    found = re.findall(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return int(found[-1]) if found and getattr(jax.config, "jax_num_cpu_devices", -1) < 0 else None


def prepare_devices(members: int, asked: Devices = None) -> None:
    """On the CPU, have JAX make a device for each member, so that all cores work on seeds, or those `asked` for.

    Must precede JAX's first use. Without any `asked` for here, `XLA_FLAGS` decides; as many devices as needed or more
    (`JAX_NUM_CPU_DEVICES`) stay.
    """
    count = min(size_of(asked) if asked else forced_devices() or members, 64)
    if asked and count > (os.cpu_count() or 1):  # XLA's threads, by default as many as cores, of which each waits while
        os.environ.setdefault("NPROC", str(2 * count))  # its device waits for another, whose work then has none
    if (forced_devices() or getattr(jax.config, "jax_num_cpu_devices", -1)) < count:
        with contextlib.suppress(RuntimeError):  # JAX is in use already: the members share the devices there are
            jax.config.update("jax_num_cpu_devices", count)


def shape_for(seeds: int, num_envs: int, devices: int, doubles: bool = True) -> Shape:
    """Return the shape with which each device has least to do.

    Of several such shapes, the one that splits environments least, as those speak to each other at every step; then
    the one of the fewest devices. Where the devices of a shape do not divide the seeds, some seeds run twice; without
    `doubles` there is no such shape.
    """
    shapes = [Shape(seed, devices // seed) for seed in range(1, min(seeds, devices) + 1)]
    shapes = [Shape(seed, max(n for n in range(1, env + 1) if num_envs % n == 0)) for seed, env, _ in shapes]
    shapes = [shape for shape in shapes if doubles or seeds % shape.seed == 0]
    return min(shapes, key=lambda shape: (-(-seeds // shape.seed) / shape.env, shape.env, shape.seed))


def make_mesh(seeds: int, units: int, here: list[jax.Device], asked: Devices) -> jax.sharding.Mesh:
    """Return the mesh for a number of seeds of `units` each, of the devices `here` or of the number `asked` for.

    On the CPU, whose devices take from each other what they take, no seed runs twice, and environments are split only
    where devices were asked for.
    """
    on_cpu = here[0].platform == "cpu"
    if on_cpu and asked is None:
        asked = forced_devices()
    if isinstance(asked, Shape) and size_of(asked) <= len(here) and asked.seed <= seeds:
        shape = asked
    else:
        count = min(asked, len(here)) if isinstance(asked, int) else len(here)
        shape = shape_for(seeds, 1 if on_cpu and asked is None else units, count, doubles=not on_cpu)
    return mesh_of(shape, here)


def mesh_of(shape: Shape, here: list[jax.Device]) -> jax.sharding.Mesh:
    """Return the mesh of this shape, of the first devices."""
    return jax.sharding.Mesh(np.array(here[: size_of(shape)]).reshape(shape), (SEED, ENV, MODEL))


def put(tree: PyTree[Array], to: PyTree[NamedSharding]) -> PyTree[Array]:
    """Lay leaves out on devices, also on those of other processes, which must lay out the same."""
    if jax.process_count() == 1:
        return jax.device_put(tree, to)

    def leaf(x: Any, to: NamedSharding) -> Any:
        if isinstance(x, bool | int | float):  # JAX gives each process a copy, and it takes on its neighbours' type
            return x
        found = bits(x)
        data = np.asarray(found) if found.size else np.empty(found.shape, found.dtype)
        made = jax.make_array_from_callback(data.shape, to, lambda index: data[index])
        return jax.random.wrap_key_data(made, impl=jax.random.key_impl(x)) if is_key(x) else made

    if isinstance(to, NamedSharding):
        return jax.tree.map(lambda x: leaf(x, to), tree)
    return jax.tree.map(leaf, tree, to)


def fetch(tree: PyTree[Array]) -> PyTree[Array]:
    """Return leaves in the memory of the host, keys as they are; all processes that share the devices must ask."""
    if jax.process_count() == 1:
        return jax.device_get(tree)

    def leaf(x: Any) -> Any:
        whole: Any
        if not isinstance(x, jax.Array) or x.is_fully_replicated or x.is_fully_addressable:
            whole = np.asarray(bits(x))
        else:
            whole = multihost_utils.process_allgather(bits(x), tiled=True)
        return jax.random.wrap_key_data(whole, impl=jax.random.key_impl(x)) if is_key(x) else whole

    return jax.tree.map(leaf, tree)


def is_key(leaf: Any) -> bool:
    """Return whether a leaf holds random keys."""
    return jax.numpy.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key)


def bits(leaf: Any) -> Any:
    """Return a leaf, or, of random keys, the numbers that they are."""
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def ways(axis: str = ENV) -> int:
    """Return the number of devices that share the environments, or by `MODEL` the weights, of the traced program."""
    mesh = jax.sharding.get_abstract_mesh()
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    return mesh.shape[axis] if kinds.get(axis) == jax.sharding.AxisType.Auto else 1


def traced_shape() -> Shape:
    """Return the shape of the devices of one seed in the program that is being traced."""
    return Shape(1, ways(ENV), ways(MODEL))


def split_leaves(tree: PyTree[Array], axis: int = 0) -> PyTree[Array]:
    """Share an axis of all leaves among the devices of a seed. An axis that does not divide stays whole."""
    devices = ways()
    if devices == 1:
        return tree

    def leaf(x: Array) -> Array:
        divides = x.ndim > axis and x.shape[axis] % devices == 0
        return jax.lax.with_sharding_constraint(x, P(*[None] * axis, ENV)) if divides else x

    return jax.tree.map(leaf, tree)


def replicate(tree: PyTree[Array]) -> PyTree[Array]:
    """Give every device of a seed all of these leaves."""
    return tree if traced_shape() == ONE else jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, P()), tree)


def take_rows(rollout: PyTree[Array], rows: Int[Array, " row"]) -> PyTree[Array]:
    """Return these rows, `time * num_envs + env`, of a rollout (leaves `time env ...`).

    Each device gives what it has of them, and the sum is shared out over them.
    """
    if ways() == 1:
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[rows], rollout)
    envs = jax.tree.leaves(rollout)[0].shape[1]
    return split_leaves(replicate(jax.tree.map(lambda x: x[rows // envs, rows % envs], rollout)))


class SharedWeights(equinox.Module):
    """Weights in parts on the devices of one seed."""

    @abc.abstractmethod
    def partition(self, shape: Shape, before: int = 0) -> PyTree[P]:
        """Return the axes of the mesh along which each leaf is divided.

        It is called on trees of the same structure as well, such as an optimiser's moments, whose leaves may have other
        shapes. `before`: how many axes each leaf has in front of its own.
        """

    @abc.abstractmethod
    def indivisible_units(self, shape: Shape) -> list[str]:
        """Return phrases about units that a mesh of this shape does not divide evenly; empty without any."""


def is_shared(node: Any) -> bool:
    """Return whether a node of a tree is of weights that devices share."""
    return isinstance(node, SharedWeights)


def shared_weights(tree: PyTree[Any]) -> list[SharedWeights]:
    """Return the nodes of a tree whose weights devices share."""
    return [node for node in jax.tree.leaves(tree, is_leaf=is_shared) if is_shared(node)]


def partition_tree(tree: PyTree[Any], shape: Shape, before: int = 0) -> PyTree[P]:
    """Return the axes along which each leaf of a tree is divided: none but those of `SharedWeights`."""
    return jax.tree.map(lambda node: node.partition(shape, before) if is_shared(node) else P(), tree, is_leaf=is_shared)


def part_of(spec: P, shape: Shape) -> int:
    """Return the number of parts that axes of a mesh divide a leaf into."""
    split = [name for names in spec if names for name in ([names] if isinstance(names, str) else names)]
    return math.prod(dict(zip((SEED, ENV, MODEL), shape, strict=True))[name] for name in split)


def sharing_words(tree: PyTree[Any], shape: Shape) -> str:
    """Return words about the devices that share the weights in a tree, and about units that they cannot divide."""
    nodes = shared_weights(tree)
    if shape.of_seed == 1 or not nodes:
        return ""
    whole = list(dict.fromkeys(phrase for node in nodes for phrase in node.indivisible_units(shape)))
    said = f"weights in parts on {shape.of_seed} devices, {shape}"
    return f"{said}; model:{shape.model} does not divide {'; '.join(whole)}" if whole else said


def constrain(tree: PyTree[Array], specs: PyTree[P]) -> PyTree[Array]:
    """Divide each leaf along axes of the mesh of the program that is being traced."""
    return jax.tree.map(jax.lax.with_sharding_constraint, tree, specs)


def lay_out_weights(tree: PyTree[Array]) -> PyTree[Array]:
    """Divide the weights of a tree among the devices of a seed, and give each of them all of the rest."""
    shape = traced_shape()
    return tree if shape == ONE else constrain(tree, partition_tree(tree, shape))


def place_weights(tree: PyTree[Any], mesh: jax.sharding.Mesh | None) -> PyTree[Any]:
    """Put the weights of a tree on the devices of a mesh, each device's part there alone; other leaves stay."""
    if mesh is None:
        return tree

    def node(one: Any) -> Any:
        if not is_shared(one):
            return one
        specs = one.partition(Shape(*mesh.devices.shape))
        return put(one, jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs))

    return jax.tree.map(node, tree, is_leaf=is_shared)


def place_shapes(tree: PyTree[Any], mesh: jax.sharding.Mesh | None) -> PyTree[Any]:
    """Return shapes with the devices of a mesh that they are on: weights in parts, other leaves on every one."""
    if mesh is None:
        return tree

    def leaf(x: Any, spec: P) -> Any:
        if not hasattr(x, "dtype"):
            return x
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, spec))

    return jax.tree.map(leaf, tree, partition_tree(tree, Shape(*mesh.devices.shape)))


@contextlib.contextmanager
def reading_for(devices: Devices) -> Iterator[None]:
    """Keep arrays that are read in the memory of the host, where a mesh shares weights that no device has room for."""
    shared = isinstance(devices, Shape) and devices.of_seed > 1
    host = None
    if shared:
        with contextlib.suppress(RuntimeError):  # JAX was told to leave the CPU alone
            host = jax.local_devices(backend="cpu")[0]
    with jax.default_device(host) if host is not None else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def on_mesh(mesh: jax.sharding.Mesh | None) -> Iterator[None]:
    """Trace and run programs on a mesh, so that they divide rows and weights; without one, on one device."""
    if mesh is None:
        yield
        return
    with jax.set_mesh(mesh):
        yield
