"""Operations that run once in several updates, or only when they are due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun
from jaxtyping import Array

Turn = Callable[[Any], tuple[Any, dict[str, Array]]]
"""A step from a state to the next one, and metrics of it."""


def run_every(interval: int, count: Any, turn: Callable[[Any], Any], state: Any) -> Any:
    """Return `turn(state)` where `count` is a multiple of the interval, else `state`."""
    if interval == 1:
        return turn(state)
    return run_if(count % interval == 0, turn, state)


def run_if(due: Any, turn: Callable[[Any], Any], state: Any) -> Any:
    """Return `turn(state)` if it is due, else `state`, without computing the turn.

    A loop of at most one turn rather than `cond`: under `vmap` over seeds a loop runs only when some seed needs it,
    whereas both branches of a `cond` would run at every update. What is the same in every turn of a loop XLA makes
    before it, due or not, and that would be whole networks: so what the turn closes over passes a barrier together with
    the number of the turn, and nothing in the turn is the same before it begins.
    """
    return report_if(due, lambda state: (turn(state), {}), state)[0]


def report_every(interval: int, count: Any, turn: Turn, state: Any) -> tuple[Any, dict[str, Array]]:
    """Return `turn(state)`, a state and metrics, where `count` is a multiple of the interval; else `state` and zeros.

    The metrics are multiplied by the interval, so that their mean over all updates is right.
    """
    if interval == 1:
        return turn(state)
    state, metrics = report_if(count % interval == 0, turn, state)
    return state, {name: interval * number for name, number in metrics.items()}


def report_if(due: Any, turn: Turn, state: Any) -> tuple[Any, dict[str, Array]]:
    """Return `turn(state)`, a state and metrics, if it is due, else `state` and zeros, as `run_if` does."""
    program, shapes = jax.make_jaxpr(turn, return_shape=True)(state)
    leaves = jax.tree.leaves(state)
    nothing = jax.tree.leaves(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes[1]))

    def body(number: Array, carry: list[Any]) -> list[Any]:
        _, held = jax.lax.optimization_barrier((number, program.consts))
        return jaxpr_as_fun(program.replace(consts=held))(*carry[: len(leaves)])

    carry = jax.lax.fori_loop(0, jnp.where(due, 1, 0), body, [*leaves, *nothing])
    form = jax.tree.structure(state)
    metrics = jax.tree.unflatten(jax.tree.structure(shapes[1]), carry[len(leaves) :])
    return jax.tree.unflatten(form, carry[: len(leaves)]), metrics


@jax.custom_batching.custom_vmap
def shared_by_seeds(number: Any) -> Any:
    """Return a number that is the same for all seeds, under `vmap` over them as one number: the first seed's.

    A loop or a condition that depends on it then serves all seeds together. On a number for each seed it would work on
    copies: after every turn each array of the loop is chosen anew, seed by seed, a replay memory too.
    """
    return number


@shared_by_seeds.def_vmap
def _first(size: int, batched: list[bool], number: Any) -> tuple[Any, bool]:
    """Take the first of many equal numbers; `shared_by_seeds` again, as one `vmap` may be inside another."""
    return shared_by_seeds(number[0] if batched[0] else number), False
