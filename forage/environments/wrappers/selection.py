"""Hide some entries of an observation, or show those that an environment hides."""

from __future__ import annotations

from typing import ClassVar

import equinox
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from forage.core.fields import depth_of, value_of
from forage.core.types import ForageError
from forage.environments.wrappers.base import Wrapper, check_entries, flat_box


class SelectEntries(Wrapper):
    """The listed entries of a flat observation, and no others.

    Hiding the velocities makes a task that only memory solves: `SelectEntries(CartPole(), (0, 2))`.
    """

    example: ClassVar[str] = "forage train ppo CartPole-v1 --wrap masked:0,2"

    indices: tuple[int, ...] = equinox.field(static=True, converter=tuple)  # the entries that are shown, in this order

    def __check_init__(self):
        check_entries(self, "keep", self.indices, flat_box(self).shape[0])

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        space = flat_box(self)
        kept = np.array(self.indices)
        return gymnasium.spaces.Box(space.low[kept], space.high[kept], dtype=np.float32)

    def observe(self, observation: Float[Array, " all"]) -> Float[Array, " kept"]:
        return observation[..., np.array(self.indices)]


class ContextVisible(Wrapper):
    """Appends chosen numeric fields of the wrapped environment to its flat observation.

    Field c is shown as `2 (c - low) / (high - low) - 1`: -1 at `low`, 1 at `high`, beyond them outside.
    With this an agent can see the physics it is in, which a contextual or randomised task otherwise hides.

    Source: Benjamins et al. (2023), "Contextualize me: the case for context in reinforcement learning"
    (arXiv 2202.04500).
    """

    example: ClassVar[str] = (
        "forage train ppo CartPole-v1 --tasks contexts --tasks.train length=0.25:1.0 --wrap "
        "context-visible:length:0.25:1.0"
    )

    fields: tuple[str, ...] = equinox.field(static=True, converter=tuple)  # names of the fields that are shown
    low: tuple[float, ...] = equinox.field(static=True, converter=tuple)  # each field's value that is shown as -1
    high: tuple[float, ...] = equinox.field(static=True, converter=tuple)  # each field's value that is shown as 1

    def __check_init__(self):
        flat_box(self)
        if not len(self.fields) == len(self.low) == len(self.high):
            raise ForageError(
                f"ContextVisible needs one low and one high for each field; "
                f"got {len(self.fields)} fields, {len(self.low)} lows and {len(self.high)} highs."
            )
        for name, low, high in zip(self.fields, self.low, self.high, strict=True):
            depth_of(self.environment, name)
            if not low < high:
                raise ForageError(f"ContextVisible needs low < high for {name}; got {low} and {high}.")

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        space = flat_box(self)
        # A context may leave the range it is scaled by.
        unbounded = np.full(len(self.fields), np.inf, np.float32)
        return gymnasium.spaces.Box(
            np.concatenate([space.low, -unbounded]), np.concatenate([space.high, unbounded]), dtype=np.float32
        )

    def observe(self, observation: Float[Array, " seen"]) -> Float[Array, " all"]:
        context = []
        for name, low, high in zip(self.fields, self.low, self.high, strict=True):
            value = jnp.asarray(value_of(self.environment, name), jnp.float32)
            if value.ndim:
                raise ForageError(
                    f"ContextVisible shows single numbers, and {name} has shape {value.shape}; "
                    f"a batch of environments goes under vmap."
                )
            context.append(2 * (value - low) / (high - low) - 1)
        if not context:
            return observation
        shown = jnp.broadcast_to(jnp.stack(context), (*observation.shape[:-1], len(context)))
        return jnp.concatenate([observation, shown], axis=-1)
