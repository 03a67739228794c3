"""Numbers that change in the course of a run, as a part's field may hold them in place of a number.

The loop replaces them by numbers before it calls a part (`at_fraction`), so parts see plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import optax

from forage.core.errors import ForageError, nearest
from forage.core.ranges import FORMS

SAMPLES = 101  # points of the run at which the numbers of a function are looked at
MOMENTS = 11  # of a run, at which the numbers of tasks and starts have to fit together
SAME = 1e-3  # a function whose numbers differ by no more of the largest one is not meant as it was given

Function = Callable[[Any], Any]


class Schedule(equinox.Module):
    """A number as a function of the share of the run that is over, from 0 to 1: in words, or any function.

    >>> Schedule("linear:3e-4,0")(0.5)  # doctest: +SKIP
    Array(0.00015, dtype=float32)
    """

    words: str = equinox.field(static=True, default="")  # as in `FORMS`; or how a function is called
    function: Function | None = equinox.field(static=True, default=None)

    def __check_init__(self):
        if self.function is None:
            parse_schedule(self.words)

    def __call__(self, fraction: Any) -> Any:
        """Return the number of this moment of the run."""
        function = self.function or make_schedule(*parse_schedule(self.words))
        return jnp.asarray(function(jnp.asarray(fraction, jnp.float32)), jnp.float32)

    def values(self) -> list[float]:
        """Return numbers between whose least and greatest all others lie; of a function, those at many moments."""
        if self.function is None:
            return parse_schedule(self.words)[1]
        return sample_schedule(self.function, self.words)

    def __str__(self) -> str:
        return self.words or getattr(self.function, "__qualname__", repr(self.function))


def is_schedule(value: Any) -> bool:
    """Return whether a value is a schedule."""
    return isinstance(value, Schedule)


def schedules(tree: Any) -> list[Schedule]:
    """Return all schedules in a tree of parts."""
    return [leaf for leaf in jax.tree.leaves(tree, is_leaf=is_schedule) if is_schedule(leaf)]


def is_scheduled(tree: Any) -> bool:
    """Return whether a number in a tree of parts follows a schedule."""
    return bool(schedules(tree))


def has_function(tree: Any) -> bool:
    """Return whether a number in a tree of parts follows a function, which uses JAX where it is called."""
    return any(schedule.function is not None for schedule in schedules(tree))


def at_fraction(tree: Any, fraction: Any) -> Any:
    """Return a tree of parts with the number of this moment in place of each schedule; itself, where it has none."""
    if not is_scheduled(tree):
        return tree
    return jax.tree.map(lambda x: x(fraction) if is_schedule(x) else x, tree, is_leaf=is_schedule)


def moments(tree: Any) -> list[Any]:
    """Return a tree of parts as it is at some moments of a run, in plain numbers; itself, where it has no schedule."""
    if not is_scheduled(tree):
        return [tree]

    def number(x: Any, share: float) -> Any:
        return float(f"{float(x(share)):.6g}") if is_schedule(x) else x  # as it would be written

    shares = np.linspace(0, 1, MOMENTS)
    return [jax.tree.map(lambda x, share=share: number(x, share), tree, is_leaf=is_schedule) for share in shares]


def parse_schedule(text: str) -> tuple[str, list[float], list[float]]:
    """Return the form of a schedule in words, its numbers, and the shares of the run at which its pieces end.

    Raises `ForageError` for what is no schedule.
    """
    form, _, rest = text.partition(":")
    form = form.strip()
    if form not in FORMS:
        raise ForageError(f"There is no schedule {text!r}{nearest(form, FORMS)}")
    wrong = ForageError(f"A schedule of this form is {FORMS[form]}, not {text!r}.")
    try:
        if form == "step":
            first, *later = rest.split(",")
            pairs = [part.split("@") for part in later]
            numbers, shares = [float(first), *(float(n) for n, _ in pairs)], [float(share) for _, share in pairs]
        else:
            given = [float(part) for part in rest.split(",")]
            cut = 1 if form == "warmup" else 2
            numbers, shares = given[:cut] + (given[2:] if form == "warmup" else []), given[cut : cut + 1]
            if not cut <= len(given) <= 3 or (form == "warmup" and len(given) < 2):
                raise wrong
    except ValueError:
        raise wrong from None
    shares = shares or ([] if form == "step" else [1.0])
    if not all(map(math.isfinite, numbers)) or (form == "step" and not shares):
        raise wrong
    if shares != sorted(set(shares)) or not all(0 < share <= 1 for share in shares):
        raise ForageError(f"Shares of the run lie above 0 and up to 1, and rise; they do not in {text!r}.")
    if form == "exponential" and not (min(numbers) > 0 or max(numbers) < 0):
        raise ForageError(f"Nothing falls to 0 exponentially, nor past it: {text!r}; linear or cosine would.")
    return form, [0.0, *numbers] if form == "warmup" else numbers, shares


def make_schedule(form: str, numbers: list[float], shares: list[float]) -> Function:
    """Return the function that a schedule in words stands for."""
    ends: Any = shares  # Optax counts steps, and here the run is one step long
    if form == "step":
        return optax.join_schedules([optax.constant_schedule(number) for number in numbers], ends)
    until = ends[0]
    first, last = numbers[0], numbers[-1]
    if form == "linear":
        return optax.linear_schedule(first, last, until)
    if form == "cosine":
        cosine = optax.cosine_decay_schedule(1.0, until)
        return lambda fraction: last + (first - last) * cosine(fraction)
    if form == "exponential":
        return lambda fraction: first * (last / first) ** jnp.minimum(1.0, fraction / until)
    rise = optax.linear_schedule(0.0, numbers[1], until)
    if len(numbers) == 2 or until == 1:
        return rise
    cosine = optax.cosine_decay_schedule(1.0, 1 - until)
    return optax.join_schedules([rise, lambda fraction: last + (numbers[1] - last) * cosine(fraction)], [until])


def sample_schedule(function: Function, name: str) -> list[float]:
    """Return the numbers of a function in the course of a run. Raise `ForageError` if it is no schedule."""
    try:
        found = [np.asarray(function(jnp.float32(share))) for share in np.linspace(0, 1, SAMPLES)]
        traced = jax.eval_shape(function, jax.ShapeDtypeStruct((), jnp.float32))
    except Exception as error:
        raise ForageError(
            f"The schedule {name} failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}; it is "
            f"called with the share of the run that is over, a number from 0 to 1 that JAX traces."
        ) from error
    shapes = {x.shape for x in found} | {np.shape(traced)}
    numeric = all(np.issubdtype(x.dtype, np.number) for x in found)
    if shapes != {()} or not numeric or not np.isfinite(found).all():
        raise ForageError(f"The schedule {name} returns something other than one finite number.")
    if np.ptp(found) <= SAME * np.abs(found).max():
        raise ForageError(
            f"The schedule {name} stays at {float(found[0]):g} for the whole run: it is called with the share of the "
            f"run that is over, from 0 to 1, so optax.linear_schedule(1e-3, 0, transition_steps=1) ends with the run."
        )
    return [float(x) for x in found]


def with_plain_numbers(tree: Any, which: int = 0) -> Any:
    """Return a tree of parts with plain numbers: the first ones of schedules, or with -1 the last ones.

    Looked at outside of programs, where a function of JAX would make JAX settle on its devices, words are plain.
    """
    return jax.tree.map(lambda x: x.values()[which] if is_schedule(x) else x, tree, is_leaf=is_schedule)
