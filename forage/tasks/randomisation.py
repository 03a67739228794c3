"""Domain randomisation: every episode in an environment of its own."""

from __future__ import annotations

import math
from typing import Any

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from forage.fields import replace, value_of
from forage.ports import Environment, Tasks
from forage.types import ForageError


class Randomise(Tasks):
    """Draws the named fields of the environment anew for each episode, independently and uniformly.

    Field i is uniform in [low_i, high_i]; integer fields take the whole numbers of that range, both ends included,
    and a field that is an array is drawn entry by entry. Wrappers are looked through; where a wrapper and what it
    wraps share a name, the innermost is meant.

        Randomise(("length", "pole_mass"), (0.25, 0.05), (1.0, 0.2))

    Source: Tobin, Fong, Ray, Schneider, Zaremba, Abbeel (2017), "Domain Randomization for Transferring Deep Neural
    Networks from Simulation to the Real World", arXiv 1703.06907; of dynamics, Peng, Andrychowicz, Zaremba, Abbeel
    (2018), arXiv 1710.06537.
    """

    fields: tuple[str, ...] = equinox.field(static=True, converter=tuple)
    low: tuple[float, ...] = equinox.field(converter=tuple)
    high: tuple[float, ...] = equinox.field(converter=tuple)

    def __check_init__(self):
        if not self.fields or not len(self.fields) == len(self.low) == len(self.high):
            raise ForageError(
                f"Randomise needs at least one field, and one low and one high for each; "
                f"got {len(self.fields)} fields, {len(self.low)} lows and {len(self.high)} highs."
            )
        for number, name in enumerate(self.fields):
            if name in self.fields[:number]:
                raise ForageError(f"Randomise got the field {name} twice; name each field once.")
        for name, low, high in zip(self.fields, self.low, self.high, strict=True):
            if known(low) and known(high) and low > high:
                raise ForageError(f"Randomise needs low <= high for {name}; got {low} and {high}.")

    def check(self, environment: Environment) -> None:
        """Raises `ForageError` for a field that the environment does not have or that cannot be drawn."""
        for name, low, high in zip(self.fields, self.low, self.high, strict=True):
            value = value_of(environment, name)
            whole = not jnp.issubdtype(jnp.result_type(value), jnp.floating)
            if whole and known(low) and known(high) and math.ceil(low) > math.floor(high):
                raise ForageError(f"{name} is a whole number and there is none between {low} and {high}.")

    def init(self, key: Key[Array, ""], environment: Environment) -> tuple[()]:
        self.check(environment)
        return ()

    def next(self, state: Any, environment: Environment, key: Key[Array, ""]) -> PyTree[Array | None]:
        task: Any = jax.tree.map(lambda _: None, environment)
        keys = jax.random.split(key, len(self.fields))
        for name, low, high, field_key in zip(self.fields, self.low, self.high, keys, strict=True):
            value = draw(value_of(environment, name), low, high, field_key)
            task = replace(task, environment, name, value)
        return task


def draw(value: Any, low: Any, high: Any, key: Key[Array, ""]) -> Array:
    """Uniform in [low, high] with the shape and dtype of `value`."""
    dtype = jnp.result_type(value)
    if jnp.issubdtype(dtype, jnp.floating):
        return jax.random.uniform(key, jnp.shape(value), dtype, low, high)
    first, last = jnp.ceil(low).astype(jnp.int32), jnp.floor(high).astype(jnp.int32)
    return jax.random.randint(key, jnp.shape(value), first, last + 1).astype(dtype)


def known(value: Any) -> bool:
    """Whether this is a number now, and not one that is being traced."""
    return isinstance(value, int | float)
