"""Several rewards, weighed into one."""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from forage.core.errors import nearest
from forage.core.ports import Rewards
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, ForageError, Spec


class WeightedRewards(Rewards):
    """r = sum_i weight_i r_i over the environment's rewards named in `names`; all others are left out.

    `WeightedRewards(("treasure", "time"), (1.0, 0.1))`. The weights are traced, so a sweep over trade-offs is one
    `vmap`. Linear scalarisation reaches the convex part of a Pareto front: Roijers, Vamplew, Whiteson, Dazeley (2013),
    "A Survey of Multi-Objective Sequential Decision-Making", arXiv 1402.0590.
    """

    example: ClassVar[str] = (
        "forage train ppo DeepSeaTreasure-v0 --rewards weighted --rewards.names treasure,time --rewards.weights 1,0.1"
    )
    ranges: ClassVar[Ranges] = {"weights": Range()}

    names: tuple[str, ...] = equinox.field(static=True, converter=tuple)  # names of the environment's rewards that are
    # summed
    weights: tuple[float, ...] = equinox.field(converter=tuple)  # weight of each of them, in the same order

    def __check_init__(self):
        if not self.names or len(self.names) != len(self.weights) or len(set(self.names)) != len(self.names):
            raise ForageError(
                f"Weighted needs one weight for each of one or more different names; "
                f"got names ({', '.join(self.names)}) and {len(self.weights)} weights."
            )

    def init(self, key: Key[Array, ""], spec: Spec, num_envs: int) -> Int[Array, " names"]:
        """Return the index of each name in the environment's reward."""
        self.check(spec)
        return jnp.array([spec.reward_names.index(name) for name in self.names])

    def check(self, spec: Spec) -> None:
        if not spec.reward_names:
            raise ForageError(
                f"{spec.name} gives one reward, so there is nothing to weigh; use the environment's own, or scale it."
            )
        for name in self.names:
            if name not in spec.reward_names:
                raise ForageError(f"{spec.name} has no reward {name!r}{nearest(name, spec.reward_names)}")

    def relabel(self, state: Int[Array, " names"], experience: Experience) -> Experience:
        chosen = experience.reward[..., state]
        return experience._replace(reward=jnp.sum(chosen * jnp.stack(self.weights), axis=-1))

    def score(self, returns: Float[np.ndarray, "*shape rewards"], spec: Spec) -> Float[np.ndarray, "*shape"]:
        weights = np.zeros(len(spec.reward_names))
        weights[[spec.reward_names.index(name) for name in self.names]] = np.asarray(self.weights, float)
        return returns @ weights
