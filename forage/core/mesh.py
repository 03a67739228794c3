"""A mesh of devices: seeds along its first axis, and along the second the environments of each seed.

Seeds never speak to each other, and what runs on their axis is written for the seeds of one device (`shard_map`). The
axis of environments is left to XLA: where a program says by `split_leaves` that an axis counts environments (or rows of
a batch, members of a population), each device computes its share, and a mean over them, such as a gradient, is summed
over the devices. What a program computes does not depend on it, but for the order of sums.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Int, PyTree

SEED, ENV = "seed", "env"


class Shape(NamedTuple):
    """The number of devices that share the seeds, and the number that share the environments of each seed."""

    seed: int
    env: int


Devices = int | Shape | None
"""The devices of a run: their number, a mesh of this shape, or `None` for a suitable choice."""


def size_of(devices: int | Shape) -> int:
    """Return the number of requested devices."""
    return math.prod(devices) if isinstance(devices, Shape) else devices


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
    shapes = [Shape(seed, max(n for n in range(1, env + 1) if num_envs % n == 0)) for seed, env in shapes]
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
    return jax.sharding.Mesh(np.array(here[: shape.seed * shape.env]).reshape(shape), (SEED, ENV))


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


def ways() -> int:
    """Return the number of devices that share the environments of the program that is being traced."""
    mesh = jax.sharding.get_abstract_mesh()
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    return mesh.shape[ENV] if kinds.get(ENV) == jax.sharding.AxisType.Auto else 1


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
    return tree if ways() == 1 else jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, P()), tree)


def take_rows(rollout: PyTree[Array], rows: Int[Array, " row"]) -> PyTree[Array]:
    """Return these rows, `time * num_envs + env`, of a rollout (leaves `time env ...`).

    Each device gives what it has of them, and the sum is shared out over them.
    """
    if ways() == 1:
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[rows], rollout)
    envs = jax.tree.leaves(rollout)[0].shape[1]
    return split_leaves(replicate(jax.tree.map(lambda x: x[rows // envs, rows % envs], rollout)))
