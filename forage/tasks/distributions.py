"""Distributions of an environment's numbers: fixed, drawn or scheduled. Each is a function from [0, 1) to values."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import equinox
import jax.numpy as jnp
import jax.scipy.special
from jaxtyping import Array, Float, Int

from forage.core.errors import nearest
from forage.core.ports import Part
from forage.core.schedule import Schedule, with_plain_numbers
from forage.core.types import ForageError


class Distribution(Part):
    """A distribution of the field called `field`, as a quantile function: from a share u of the probability to a value.

    Whole numbers, and fields that are arrays, are drawn entry by entry, and a value is never beyond the range. Numbers
    may follow schedules, so that a range becomes wider or moves in the course of a run.
    """

    field: equinox.AbstractVar[str]

    @abc.abstractmethod
    def quantile(
        self, u: Float[Array, "*shape"], steps: Int[Array, ""], whole: bool
    ) -> Float[Array, "*shape"] | Int[Array, "*shape"]:
        """Return the u-quantile of the draws; a whole number if `whole`."""

    continuous: ClassVar[bool] = False
    """Draws fill a range, and parts of it can be left out."""

    scheduled: ClassVar[bool] = False
    """The value depends on the steps of the run, even if no number follows a schedule."""

    unscheduled: ClassVar[tuple[str, ...]] = ()
    """Numbers that may not follow a schedule."""

    def last(self) -> Distribution:
        """Return the distribution at the end of the run."""
        return with_plain_numbers(self, -1)

    def check(self, whole: bool) -> None:
        """Raise `ForageError` if the distribution cannot fill a field of this kind."""

    def ends(self) -> tuple[Any, ...]:
        """Return the least and the greatest value that can be drawn, or every value if there are few."""
        return ()


class Constant(Distribution):
    """Always `value`."""

    field: str = equinox.field(static=True)
    value: float

    def quantile(self, u: Array, steps: Array, whole: bool) -> Array:
        return jnp.broadcast_to(jnp.asarray(self.value), u.shape)

    def ends(self) -> tuple[float, ...]:
        return (self.value,)

    def check(self, whole: bool) -> None:
        if whole and known(self.value) and self.value != int(self.value):
            raise ForageError(f"{self.field} is a whole number, and {self.value:g} is none.")


class Uniform(Distribution):
    """Uniform from `low` to `high`; of whole numbers both ends are included."""

    field: str = equinox.field(static=True)
    low: float
    high: float

    continuous: ClassVar[bool] = True

    def __check_init__(self):
        check_order(self)

    def quantile(self, u: Array, steps: Array, whole: bool) -> Array:
        if not whole:
            return self.low + u * (self.high - self.low)
        first, last = jnp.ceil(self.low).astype(jnp.int32), jnp.floor(self.high).astype(jnp.int32)
        return jnp.minimum(first + jnp.floor(u * (last - first + 1)).astype(jnp.int32), last)

    def check(self, whole: bool) -> None:
        low, high = self.low, self.high
        if whole and known(low) and known(high) and math.ceil(low) > math.floor(high):
            raise ForageError(f"{self.field} is a whole number and there is none between {low} and {high}.")

    def ends(self) -> tuple[float, ...]:
        return self.low, self.high


class LogUniform(Distribution):
    """`exp(z)` with z uniform from `log low` to `log high`: every factor is as likely as every other."""

    field: str = equinox.field(static=True)
    low: float
    high: float

    continuous: ClassVar[bool] = True

    def __check_init__(self):
        check_order(self)
        if known(self.low) and not self.low > 0:
            raise ForageError(f"log-uniform needs a low above 0 for {self.field}; got {self.low:g}.")

    def quantile(self, u: Array, steps: Array, whole: bool) -> Array:
        low, high = jnp.log(self.low), jnp.log(self.high)
        # Rounding must not lead out of the range.
        value = jnp.clip(jnp.exp(low + u * (high - low)), self.low, self.high)
        return jnp.round(value) if whole else value

    def ends(self) -> tuple[float, ...]:
        return self.low, self.high


class Normal(Distribution):
    """Normal with `mean` and standard deviation `std`, cut at `limit` standard deviations."""

    field: str = equinox.field(static=True)
    mean: float
    std: float
    limit: float = 3.0

    continuous: ClassVar[bool] = True

    def __check_init__(self):
        for name in ("std", "limit"):
            if known(getattr(self, name)) and not getattr(self, name) >= 0:
                raise ForageError(f"normal needs {name} of 0 or more for {self.field}; got {getattr(self, name):g}.")

    def quantile(self, u: Array, steps: Array, whole: bool) -> Array:
        beyond = jax.scipy.special.ndtr(-jnp.asarray(self.limit, jnp.float32))
        value = self.mean + self.std * jax.scipy.special.ndtri(beyond + u * (1 - 2 * beyond))
        return jnp.round(value) if whole else value

    def ends(self) -> tuple[float, ...]:
        return self.mean - self.limit * self.std, self.mean + self.limit * self.std


def numbers_or_schedules(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return numbers, with schedules in place of words for them."""
    return tuple(Schedule(value) if isinstance(value, str) else value for value in values)


class Choice(Distribution):
    """One of `values`, each as likely as the others."""

    field: str = equinox.field(static=True)
    values: tuple[float, ...] = equinox.field(converter=numbers_or_schedules)

    def __check_init__(self):
        if not self.values:
            raise ForageError(f"choice needs one value or more for {self.field}.")

    def quantile(self, u: Array, steps: Array, whole: bool) -> Array:
        number = jnp.minimum(jnp.floor(u * len(self.values)).astype(jnp.int32), len(self.values) - 1)
        return jnp.stack([jnp.asarray(value) for value in self.values])[number]

    def check(self, whole: bool) -> None:
        for value in self.values:
            Constant(self.field, value).check(whole)

    def ends(self) -> tuple[float, ...]:
        return self.values


class Linear(Distribution):
    """A straight line over the run: `start` at its first step, `end` from step `steps` of each seed on."""

    field: str = equinox.field(static=True)
    start: float
    end: float
    steps: float

    def __check_init__(self):
        if known(self.steps) and not self.steps >= 1:
            raise ForageError(f"linear takes 1 step or more for {self.field}, not {self.steps:g}.")

    scheduled: ClassVar[bool] = True
    unscheduled: ClassVar[tuple[str, ...]] = ("steps",)

    def last(self) -> Constant:
        return Constant(self.field, self.end)

    def quantile(self, u: Array, steps: Array, whole: bool) -> Array:
        value = self.start + (self.end - self.start) * jnp.minimum(steps / self.steps, 1.0)
        return jnp.broadcast_to(jnp.round(value) if whole else value, u.shape)

    def ends(self) -> tuple[float, ...]:
        return self.start, self.end


KINDS: dict[str, tuple[Callable[..., Distribution], int, str]] = {
    "fixed": (Constant, 1, "fixed:VALUE"),
    "uniform": (Uniform, 2, "uniform:LOW:HIGH"),
    "log-uniform": (LogUniform, 2, "log-uniform:LOW:HIGH"),
    "normal": (Normal, 2, "normal:MEAN:STD"),
    "choice": (lambda field, *values: Choice(field, values), 0, "choice:A:B:..."),
    "linear": (Linear, 3, "linear:START:END:STEPS"),
}
"""By name: its constructor from a field and numbers, the number of these (0: any), and its notation."""


def make_distribution(given: Any) -> Distribution:
    """Return a distribution, also from words such as `length=0.25:1.0` or `gravity=normal:9.8:1`."""
    if isinstance(given, Distribution):
        return given
    if not isinstance(given, str):
        raise ForageError(f"A context is a distribution or words such as length=0.25:1.0, not {given!r}.")
    field, equals, words = given.partition("=")
    kind, *numbers = words.split(":")
    if not equals or not field or not kind:
        raise ForageError(f"A context is a field and its values, as in length=0.25:1.0; {given!r} is not.")
    if kind not in KINDS:
        try:
            float(kind.partition("..")[0])
        except ValueError:
            raise ForageError(f"Unknown distribution {kind!r}{nearest(kind, KINDS)}") from None
        kind, numbers = ("uniform" if numbers else "fixed"), [kind, *numbers]
    make, count, written = KINDS[kind]
    values = [parse_number(text, given) for text in numbers]
    if len(values) != count if count else not values:
        raise ForageError(f"{kind} is written {field}={written}; {given!r} has {len(values)} numbers.")
    return make(field.replace("-", "_"), *values)


def parse_number(text: str, given: str) -> float | Schedule:
    """`0.5`, `100k` or `1e6`; `0.5..2` goes from one to the other in a straight line over the run."""
    if ".." in text:
        first, _, last = text.partition("..")
        return Schedule(f"linear:{parse_number(first, given)},{parse_number(last, given)}")
    scale = {"k": 1e3, "M": 1e6}.get(text[-1:], 1.0)
    try:
        return float(text[:-1] if scale > 1 else text) * scale
    except ValueError:
        raise ForageError(f"{given!r} has {text!r} where a number should be.") from None


def check_order(drawn: Uniform | LogUniform) -> None:
    if known(drawn.low) and known(drawn.high) and not drawn.low <= drawn.high:
        raise ForageError(f"A range needs low <= high for {drawn.field}; got {drawn.low} and {drawn.high}.")


def known(value: Any) -> bool:
    """Return whether this is a number now, rather than a traced one."""
    return isinstance(value, int | float)
