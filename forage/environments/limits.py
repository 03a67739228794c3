"""Checks of an environment's numeric fields, each with one sentence on the valid range."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jax.core import Tracer

from forage.core.ports import Environment
from forage.core.types import ForageError


def check_at_least(environment: Environment, **minima: float) -> None:
    """Raise `ForageError` for a field below its minimum, or for a fraction in an `int` field.

    `None` and traced values, which cannot be inspected, pass.
    """
    types = {field.name: str(field.type) for field in dataclasses.fields(environment)}
    for name, minimum in minima.items():
        whole = types[name] in ("int", "int | None")
        check_number(type(environment).__name__, name, getattr(environment, name), minimum, whole)


def check_number(owner: str, name: str, value: Any, minimum: float, whole: bool) -> None:
    """Raise `ForageError` if `value`, or some entry of it, is no number, is broken or is below `minimum`."""
    if value is None or isinstance(value, Tracer):
        return
    found = np.asarray(value)
    if found.dtype.kind not in "iuf" or (whole and found.dtype.kind == "f" and (found % 1 != 0).any()):
        raise ForageError(f"{name} of {owner} is a {'whole ' if whole else ''}number, not {value!r}.")
    if not (found >= minimum).all():
        raise ForageError(f"{owner} cannot have {name} {value}; anything from {minimum} up works.")
