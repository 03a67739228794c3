"""The fields of an environment by name, looking through wrappers. The innermost of a name is meant.

An adapter to a library that keeps numbers in a structure of its own has it in its field `parameters`; what is in there
counts as the environment's own.
"""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

import equinox
import jax

from forage.core.errors import did_you_mean
from forage.core.ports import Environment
from forage.core.ranges import check_declared
from forage.core.types import ForageError


def layers(environment: Environment) -> list[Any]:
    """Return the environment and all environments inside it, from the outside in; last a library's parameters, if
    any.
    """
    found: list[Any] = [environment]
    while isinstance(inner := getattr(found[-1], "environment", None), Environment):
        found.append(inner)
    if dataclasses.is_dataclass(parameters := getattr(found[-1], "parameters", None)):
        found.append(parameters)
    return found


def numeric_fields(layer: Any) -> list[str]:
    """Return the names of the fields of this layer that hold a number or an array of them, and may differ between
    copies.
    """
    # How a field is marked as static differs between libraries; what JAX does not see as a leaf stays in the blank.
    blank = jax.tree.map(lambda _: None, layer)
    names = [field.name for field in dataclasses.fields(layer)]
    return [name for name in names if equinox.is_array_like(getattr(layer, name)) and getattr(blank, name) is None]


def depth_of(environment: Environment, name: str) -> int:
    """Return the number of wrappers around the field; raise `ForageError` with the nearest names if no layer has it."""
    names = [numeric_fields(layer) for layer in layers(environment)]
    depths = [depth for depth, fields in enumerate(names) if name in fields]
    if depths:
        return depths[-1]
    every = [field for fields in names for field in fields]
    fixed = [layer for layer in layers(environment) if any(f.name == name for f in dataclasses.fields(layer))]
    owners = [layer for layer in fixed or layers(environment) if isinstance(layer, Environment)]
    inner = type((owners or layers(environment)[:-1])[-1]).__name__
    problem = f"{inner}'s {name} is not a number that can be set" if fixed else f"{inner} has no field {name!r}"
    hint = did_you_mean(difflib.get_close_matches(name, every, n=3, cutoff=0.4))
    raise ForageError(problem + (hint or f"; it has {', '.join(every) or 'none that can be set'}."))


def check_value(environment: Environment, name: str, value: Any) -> None:
    """Raise `ForageError` if the field cannot hold a number, as its class declares it."""
    layer = layers(environment)[depth_of(environment, name)]
    check_declared(type(layer), name, value, type(layer).__name__)


def value_of(environment: Environment, name: str) -> Any:
    """Return the field's value."""
    return getattr(layers(environment)[depth_of(environment, name)], name)


def replace(tree: Any, environment: Environment, name: str, value: Any) -> Any:
    """`tree`, shaped like `environment` (its leaves may be `None`), with another value of the field."""
    depth = depth_of(environment, name)
    return equinox.tree_at(
        lambda tree: getattr(layers(tree)[depth], name), tree, value, is_leaf=lambda leaf: leaf is None
    )


def with_fields(environment: Environment, /, **values: Any) -> Environment:
    """Return the environment with the named fields replaced, looking through wrappers.

    `with_fields(Masked(CartPole(), (0, 2)), length=1.0)` is the same wrapper around a longer pole.
    A value may be an array; one with a leading axis makes a batch for `vmap`. Where a wrapper and what it
    wraps share a name, the innermost is meant.
    Raise `ForageError` for a field that is not there or is static, naming the nearest ones.
    """
    for name, value in values.items():
        environment = replace(environment, environment, name, value)
    return environment
