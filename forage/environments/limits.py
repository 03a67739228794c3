"""Numbers that an environment's fields may not be below, said in one sentence."""

from __future__ import annotations

import numpy as np
from jax.core import Tracer

from forage.ports import Environment
from forage.types import ForageError


def check_at_least(environment: Environment, **minima: float) -> None:
    """Raises `ForageError` for a field below its minimum. What is being traced cannot be looked at and passes."""
    for name, minimum in minima.items():
        value = getattr(environment, name)
        if value is None or isinstance(value, Tracer):
            continue
        if np.any(np.asarray(value) < minimum):
            raise ForageError(
                f"{type(environment).__name__} cannot have {name} {value}; anything from {minimum} up works."
            )
