"""How programs are compiled, and which of them may stand for another."""

import functools
from collections.abc import Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from forage.core.errors import ForageError

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Compiler options for what runs once on the CPU: compiled in less time, and several times as slow to run.

From jaxlib 0.11.1 on there is one code generator, which the second option does not know; the first alone is as quick
there as both are before.
"""

IN_ORDER = {"xla_cpu_enable_concurrency_optimized_scheduler": False}
"""Run the pieces of a program one after the other: those of an update are too small to be worth waking a thread for."""

SUMS_IN_ONE_PIECE = {"xla_disable_hlo_passes": "tree_reduction_rewriter"}
"""On the CPU, sums in one piece fuse with what is around them, and take half the kernels."""


def check_precision() -> None:
    """Raise `ForageError` where JAX is set to 64 bits, in this thread or in others, as programs compile in another."""
    with ThreadPoolExecutor(1) as other:
        elsewhere = other.submit(lambda: jax.config.read("jax_enable_x64")).result()
    if elsewhere or jax.config.read("jax_enable_x64"):
        raise ForageError(
            "Forage counts and learns in 32 bits, and JAX is set to 64 here; unset JAX_ENABLE_X64, or in Python call "
            'jax.config.update("jax_enable_x64", False) first.'
        )


def known(options: dict[str, Any]) -> dict[str, Any]:
    """Return the compiler options that this release of XLA knows, which refuses a program for one that it does not."""
    return {name: value for name, value in options.items() if _is_known(name, value)}


@functools.cache
def _is_known(name: str, value: Any) -> bool:
    try:
        _nothing().compile(compiler_options={name: value})
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return False
    return True


@functools.cache
def _nothing() -> jax.stages.Lowered:
    """Lower a program that computes nothing, to ask about options: each answer takes a few hundredths of a second."""
    return jax.jit(lambda: 0).lower()


@functools.cache
def follows_every_path() -> bool:
    """Return whether programs run on the CPU, compiled by an LLVM that does not end on long chains of whole numbers.

    It is the one of jaxlib 0.11.1 and later.
    """
    return jax.default_backend() == "cpu" and not _is_known("xla_cpu_use_fusion_emitters", False)


@jax.tree_util.register_pytree_node_class
class Flat:
    """A tree that was flattened once, for a program that is called with it many times: parts are flattened slowly."""

    def __init__(self, leaves: tuple[Any, ...], structure: Any):
        self.leaves, self.structure = leaves, structure

    @classmethod
    def of(cls, tree: PyTree[Any]) -> "Flat":
        leaves, structure = jax.tree.flatten(tree)
        return cls(tuple(leaves), structure)

    @property
    def tree(self) -> PyTree[Any]:
        return jax.tree.unflatten(self.structure, self.leaves)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return self.leaves, self.structure

    @classmethod
    def tree_unflatten(cls, structure: Any, leaves: Any) -> "Flat":
        return cls(tuple(leaves), structure)


def on_host(tree: PyTree[Array]) -> PyTree[np.ndarray]:
    """Return arrays as NumPy's, which on the CPU are the same bytes; from elsewhere all are fetched at once."""
    return jax.tree.map(np.asarray, tree) if jax.default_backend() == "cpu" else jax.device_get(tree)


def on_device(tree: PyTree[Any]) -> PyTree[Any]:
    """Return a tree with its single numbers on the device, so that a program called many times need not copy them."""
    return jax.tree.map(lambda x: jax.device_put(x) if np.ndim(x) == 0 else x, tree)


def kind(tree: PyTree[Any]) -> Hashable:
    """Return what is equal for trees that differ in their leaves alone, and whose classes have the same code.

    The code, because notebooks reload a class in place when its file is edited, and tests replace methods. What these
    classes call is not looked at, such as functions of a module or networks: after a change there, call
    `jax.clear_caches()`.
    """
    structure = jax.tree.structure(tree)
    return structure, frozenset(code for part in set(_classes(structure)) for code in _code(part))


@functools.lru_cache(maxsize=128)
def shared(kind: Hashable, function: Any, once: bool = False, **options: Any) -> Any:
    """Jit `function`, for all that is of one `kind`: what differs in numbers alone is traced and compiled once.

    The kinds used last are kept. What runs `once` is compiled quickly rather than well. `options` are those of
    `jax.jit`.
    """
    # JAX knows a function again, also in another `jit`; each kind has one of its own.
    return jax.jit(functools.partial(function), compiler_options=known(QUICK) if once else None, **options)


def _classes(structure: Any) -> Iterator[type]:
    data = structure.node_data()
    if data is not None:
        yield data[0]
    for child in structure.children():
        yield from _classes(child)


def _code(part: type) -> Iterator[Any]:
    for base in part.__mro__:
        for name, value in vars(base).items():
            function = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(function, FunctionType):
                yield base, name, function.__code__
