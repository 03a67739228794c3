"""Networks of a person's own: plain Equinox modules as actor and critic, wrapped so that agents learn their arrays.

An agent's `make_actor(key, spec)` and `make_critic(key, spec, ...)` may return any `equinox.Module` that is called with
one observation, or with one observation and one action in the unit box. Its floating-point arrays are learned; what
else it holds, such as functions, is kept apart, as all leaves of a state are arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from forage.core import spaces
from forage.core.errors import words_of
from forage.core.types import ForageError, Spec


class OwnNetwork(equinox.Module):
    """A plain Equinox module, called with one row; `rows` calls it with many."""

    arrays: PyTree[Array]
    rest: Any = equinox.field(static=True)

    def __init__(self, module: Any, contract: str):
        """Wrap a module. Raise `ForageError`, with the contract, if it is none."""
        if not isinstance(module, equinox.Module):
            raise ForageError(f"{type(module).__name__} is no equinox.Module; {contract}.")
        self.arrays, self.rest = equinox.partition(module, equinox.is_inexact_array)

    def __call__(self, *inputs: PyTree[Array]) -> Array:
        return equinox.combine(self.arrays, self.rest)(*inputs)  # pyrefly: ignore[not-callable]

    def rows(self, *inputs: PyTree[Array]) -> Array:
        """Return the outputs for many inputs (leaves `rows ...`)."""
        return jax.vmap(self)(*inputs)

    def output_shape(self, contract: str, *inputs: Any) -> tuple[int, ...]:
        """Return the shape of an output. Raise `ForageError`, with the contract, if there is none."""
        name = type(self.rest).__name__
        try:
            found = jax.eval_shape(equinox.combine(self.arrays, self.rest), *inputs)  # pyrefly: ignore
        except Exception as error:  # a person's own code raises anything
            said = words_of(error).splitlines()[0].rstrip(".")
            raise ForageError(f"{name} cannot be called: {said}; {contract}.") from error
        if not isinstance(found, jax.ShapeDtypeStruct):
            raise ForageError(f"{name} gives {type(found).__name__} and not one array; {contract}.")
        return found.shape


class OwnTorso(OwnNetwork):
    """The module of an actor, as a torso without a layer behind it."""

    size: int = equinox.field(static=True)

    def __init__(self, module: Any, spec: Spec, outputs: int, meaning: str):
        """Wrap a module that makes `outputs` numbers of an observation; `meaning` explains them in sentences."""
        contract = (
            f"an actor is an equinox.Module that makes {outputs} numbers of an observation of {spec.name}, {meaning}"
        )
        super().__init__(module, contract)
        self.size = outputs
        shape = self.output_shape(contract, observation_like(spec))
        if shape != (outputs,):
            raise ForageError(f"{type(module).__name__} gives an array of shape {shape}; {contract}.")

    def __call__(self, *inputs: PyTree[Array]) -> Array:
        return super().__call__(spaces.split_mask(inputs[0])[0])


class OwnCritic(OwnNetwork):
    """A critic made of a plain module, as agents of continuous actions call it."""

    bins: None = equinox.field(static=True)
    batched: bool = equinox.field(static=True)  # the module is called with a whole batch

    def __init__(self, module: Any, spec: Spec, dimensions: int):
        """Wrap a module that makes one value of an observation and of an action in the unit box, or many of batches."""
        contract = (
            f"a critic is an equinox.Module that makes one value of an observation of {spec.name} and an action, "
            f"{dimensions} numbers between -1 and 1"
        )
        super().__init__(module, contract)
        self.bins = None
        inputs = observation_like(spec), jax.ShapeDtypeStruct((dimensions,), jnp.float32)
        self.batched = self.takes_batches(*inputs)
        if self.batched:
            return
        shape = self.output_shape(contract, *inputs)
        if shape not in ((), (1,)):
            raise ForageError(f"{type(module).__name__} gives an array of shape {shape}; {contract}.")

    def takes_batches(self, *inputs: Any) -> bool:
        """Return whether the module makes as many values of batches as these have rows, and none of a single row."""
        whole: Any = equinox.combine(self.arrays, self.rest)

        def shape(rows: tuple[int, ...]) -> tuple[int, ...] | None:
            many = jax.tree.map(lambda x: jax.ShapeDtypeStruct((*rows, *x.shape), x.dtype), inputs)
            try:
                return getattr(jax.eval_shape(whole, *many), "shape", None)
            except Exception:  # a person's own code raises anything; `output_shape` has the sentence
                return None

        return shape(()) not in ((), (1,)) and all(shape((n,)) in ((n,), (n, 1)) for n in (3, 5))

    def __call__(self, observation: PyTree[Array], action: Float[Array, "batch dimensions"], key: Any = None) -> Array:
        """Return the values of a batch (leaves of `observation`: `batch ...`)."""
        whole: Any = equinox.combine(self.arrays, self.rest)
        values = (whole if self.batched else jax.vmap(whole))(spaces.split_mask(observation)[0], action)
        return values.reshape(len(action))

    def units(self, *inputs: Any) -> Any:
        """Raise `ForageError`, as the layers of a person's own network are not known."""
        raise ForageError("Dormant units are counted in Forage's own networks; leave these options out.")


class SameOutput(equinox.Module):
    """The head of an actor whose module makes the outputs itself."""

    def __call__(self, x: Array) -> Array:
        return x


def observation_like(spec: Spec) -> Any:
    """Return the shapes and types of one observation, without its mask."""
    return jax.eval_shape(lambda: spaces.split_mask(spaces.example(spec.observation_space))[0])


def make_network(make: Callable[[], Any], what: str) -> Any:
    """Return the network that a method makes. Raise `ForageError` if a person's own code fails in it."""
    try:
        return make()
    except ForageError:
        raise
    except Exception as error:
        said = words_of(error).splitlines()[0].rstrip(".")
        raise ForageError(f"{what} failed with {said}; it returns an equinox.Module.") from error


def is_plain_module(network: Any) -> bool:
    """Return whether a network is a person's own, and none of Forage's actors and critics."""
    return not (hasattr(network, "actions") or hasattr(network, "bins"))
