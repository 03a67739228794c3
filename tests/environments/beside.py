"""Differences between our results and a reference, asserted small by tests and printed by `docs/make/parity.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

Beside = Mapping[str, tuple[Any, Any]]
"""Our arrays and the reference's, trees of the same shapes, by name."""


def differences(found: Beside) -> dict[str, float]:
    """Return the largest difference of each part; non-numeric values differ by 1 or not at all."""
    return {name: largest(ours, theirs, name) for name, (ours, theirs) in found.items()}


def largest(ours: Any, theirs: Any, what: str) -> float:
    pairs = list(zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True))
    assert pairs, f"{what}: nothing is compared"
    most = 0.0
    for one, other in ((np.asarray(a), np.asarray(b)) for a, b in pairs):
        assert one.shape == other.shape, f"{what}: {one.shape} beside {other.shape}"
        if one.dtype.kind in "biuf":
            apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
        else:
            apart = (one != other).astype(np.float64)
        assert not np.isnan(apart).any(), what
        most = max(most, float(apart.max(initial=0)))
    return most


def assert_beside(found: Beside, **tolerances: float) -> None:
    """Raise if a part differs by more than its tolerance, 0 by default."""
    too_far = {name: far for name, far in differences(found).items() if far > tolerances.get(name, 0.0)}
    assert not too_far, too_far
