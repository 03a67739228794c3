"""What is done once in so many updates, or only when it is due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from forage.core import prng


def every(interval: int, count: Any, turn: Callable[[Any], Any], state: Any) -> Any:
    """Return `turn(state)` where `count` is a multiple of the interval, else `state`."""
    if interval == 1:
        return turn(state)
    return when(count % interval == 0, turn, state)


def when(due: Any, turn: Callable[[Any], Any], state: Any) -> Any:
    """Return `turn(state)` where it is due, else `state`.

    A loop of at most one turn rather than `cond`: under `vmap` over seeds a loop runs only when some seed needs it,
    whereas both branches of a `cond` would run at every update.
    """
    return jax.lax.fori_loop(0, jnp.where(due, 1, 0), lambda _, state: turn(state), state)


def when_drawn(due: Any, turn: Callable[[Any, Key[Array, ""]], Any], state: Any, key: Key[Array, ""]) -> Any:
    """Return `turn(state, key)` where it is due, else `state`: for what a turn draws with the key alone.

    The loop carries the key and changes it: what is the same in every turn XLA makes before the loop, due or not, and
    that would be whole networks.
    """

    def draw(carry: tuple[Any, Array]) -> tuple[Any, Array]:
        state, words = carry
        return turn(state, prng.from_data(words)), words + 1

    return when(due, draw, (state, jax.random.key_data(key)))[0]


@jax.custom_batching.custom_vmap
def alike(number: Any) -> Any:
    """Return a number that is the same for all seeds, under `vmap` over them as one number: the first seed's.

    A loop or a condition that depends on it then serves all seeds together. On a number for each seed it would work on
    copies: after every turn each array of the loop is chosen anew, seed by seed, a replay memory too.
    """
    return number


@alike.def_vmap
def _first(size: int, batched: list[bool], number: Any) -> tuple[Any, bool]:
    """Take the first of many numbers that are the same; `alike` again, as one `vmap` may be inside another."""
    return alike(number[0] if batched[0] else number), False
