"""Rewards by the length of an answer: too long ones are punished."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from forage.core.types import ForageError


def overlong(length: Int[Array, "*batch"], longest: int, margin: int) -> Float[Array, "*batch"]:
    """Compute DAPO's soft punishment of long answers, to be added to the reward.

         0                                where length <= longest - margin
        (longest - margin - length) / margin    up to longest
        -1                                beyond

    Source: Yu et al., 2025, "DAPO", arXiv:2503.14476 (soft overlong punishment), as in TRL 1.16's
    `get_soft_overlong_punishment`; the paper's own pages could not be looked up.
    """
    if not 0 < margin <= longest:
        raise ForageError(f"The margin of overlong answers is {margin}; it lies above 0 and is at most {longest}.")
    return jnp.clip((longest - margin - length) / margin, -1.0, 0.0)
