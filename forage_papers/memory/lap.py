"""Loss-adjusted prioritised replay: draws by error, equally for small errors, all with weight 1."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.core.ranges import Range, Ranges
from forage.core.types import Clock
from forage.memory.prioritised import PriorityMemory


class LAP(PriorityMemory):
    """The newest `capacity` transitions; a segment i with error d_i is drawn with probability P(i), and weighs 1.

        P(i) = p_i / sum_j p_j,    p_i = max(|d_i|, least_error)^priority_exponent

    It is for agents whose loss of an error is squared up to `least_error` and grows linearly beyond (Huber's): draws
    by priority suit the linear part as they are, so importance weights have no place, and small errors are drawn alike.
    New transitions get the highest priority so far. Draws are stratified, as in `prioritised`; the authors' are not.

    Source: Fujimoto, Meger, Precup, 2020, "An Equivalence between Loss Functions and Non-Uniform Sampling in Experience
    Replay", arXiv:2007.06049; the defaults are those of the authors' code for MR.Q (Fujimoto et al., 2025,
    arXiv:2501.16142), which keeps 1,000,000 transitions.
    """

    example: ClassVar[str] = "forage train mr-q Pendulum-v1 --memory lap --memory.priority-exponent 0.4"
    ranges: ClassVar[Ranges] = {"least_error": Range(0, above=True)}

    priority_exponent: float = 0.4  # how far draws follow the errors; 0 is uniform
    least_error: float = 1.0  # smaller errors are drawn as often as this one; where the loss is no longer squared

    def priority(self, errors: Float[Array, " batch"]) -> Float[Array, " batch"]:
        return jnp.maximum(jnp.abs(errors), self.least_error) ** self.priority_exponent

    def weight(self, priority: Float[Array, " batch"], clock: Clock) -> Float[Array, " batch"]:
        return jnp.ones_like(priority)
