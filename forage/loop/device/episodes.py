"""Totals of episodes and their infos, computed from whole rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from forage.core.types import Experience


@jax.custom_batching.custom_vmap
def any_of(flags: Bool[Array, "..."]) -> Bool[Array, ""]:
    """Return whether any flag is set, in any member of a `vmap`.

    A loop whose condition is `any_of` its members has one condition for all. With a condition each, every turn would
    select between the old and the new value of all that it carries.
    """
    return flags.any()


@any_of.def_vmap
def some_of_all(size: int, batched: list[bool], flags: Bool[Array, "..."]) -> tuple[Bool[Array, ""], bool]:
    return any_of(flags), False


def info_numbers(info: dict[str, Any], names: tuple[str, ...]) -> dict[str, Float[Array, "*env"]]:
    """Return the entries of these names in 32-bit floats."""
    return {name: jnp.asarray(info[name], jnp.float32) for name in names}


def last_infos(told: Experience) -> dict[str, tuple[Array, Array]]:
    """Sum the info values of the last steps of episodes (leaves `time env`), and count them."""
    return sum_infos({name: jnp.where(told.ended, values, jnp.nan) for name, values in told.info.items()})


def sum_infos(infos: Mapping[str, Any]) -> dict[str, tuple[Array, Array]]:
    """Sum the numbers of each name, and count them; NaN marks a missing value."""
    given = {name: ~jnp.isnan(values) for name, values in infos.items()}
    return {
        name: (jnp.where(given[name], values, 0).sum(), given[name].sum().astype(jnp.float32))
        for name, values in infos.items()
    }


def running_totals(
    before: Float[Array, "env *objectives"], new: Float[Array, "time env *objectives"], ended: Bool[Array, "time env"]
) -> Float[Array, "env *objectives"]:
    """Compute the running sums of the unfinished episodes: `new` since each one's start, and `before` if it started
    earlier.
    """
    time = jnp.arange(1, len(ended) + 1)[:, None]
    last = jnp.where(ended, time, 0).max(0)  # steps up to the last end, 0 where there was none
    extra = (1,) * (new.ndim - 2)
    total = jnp.where((time > last).reshape(ended.shape + extra), new, 0).sum(0)
    return total + jnp.where((last == 0).reshape(last.shape + extra), before, 0)
