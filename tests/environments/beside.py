"""What a comparison with a reference found: tests assert that it is small, `docs/make/parity.py` prints how small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

Beside = Mapping[str, tuple[Any, Any]]
"""Ours and theirs, trees of arrays of the same shapes, by what they are."""


def differences(found: Beside) -> dict[str, float]:
    """The largest difference of each part; what is no number differs by 1 or not at all."""
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
    """Raises where a part differs by more than its tolerance, 0 where it has none."""
    too_far = {name: far for name, far in differences(found).items() if far > tolerances.get(name, 0.0)}
    assert not too_far, too_far
