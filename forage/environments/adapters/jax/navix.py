"""The environments of NAVIX: MiniGrid in JAX.

Source: Pignatelli, Liesen, Lange, Lu, Castro, Toni (2024), "NAVIX: Scaling MiniGrid Environments with JAX",
arXiv 2407.19396, https://github.com/epignatelli/navix.
"""

# Where types are checked without the library, this file itself is taken for it.
from __future__ import annotations

from typing import Any, ClassVar

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import navix
import numpy as np
from jaxtyping import Array, Int, Key, UInt8
from navix.environments.registry import registry

from forage.core.ports import Environment
from forage.core.types import ForageError, Step
from forage.environments.adapters.jax import common as foreign

OBSERVATIONS = (
    *("symbolic", "symbolic_first_person", "categorical", "categorical_first_person"),
    *("rgb", "rgb_first_person"),
)


class IdentityValue:
    """A value compared by identity instead of by content, as JAX requires of static fields."""

    def __init__(self, value: Any):
        self.value = value


class Navix(Environment):
    """One of NAVIX's environments, stepped without the reset that the library's `step` does after an end.

    Options: `max_steps` (100, as the library has it), `observation` (`symbolic` unless another is named:
    `symbolic_first_person`, `categorical`, `categorical_first_person`, `rgb`, `rgb_first_person`), and what the
    library's constructor takes.

    - Observation: pictures `uint8`; the others `int32`, as they are names of things and no brightness.
    - Terminated and truncated: the library's step types. Truncated after `max_steps` steps.
    """

    frames_per_second: ClassVar[float] = 10.0

    library: Any = equinox.field(static=True)
    id: str = equinox.field(static=True)
    shape: tuple[tuple[int, ...], Any] = equinox.field(static=True)  # of an observation, with its dtype

    def __init__(self, target: str, observation: str = "", **options: Any):
        """Raise `ForageError` for an option or a kind of observation that is not there."""
        name = f"navix:{target}"
        known = {"max_steps", "gamma", "penality_coeff", "observation", "height", "width"}
        foreign.with_parameters(name, None, options, known)
        if observation:
            if observation not in OBSERVATIONS:
                raise ForageError(f"{name} has no observation {observation!r}; it has {', '.join(OBSERVATIONS)}.")
            options = {**options, "observation_fn": getattr(navix.observations, observation)}
        self.library = IdentityValue(foreign.construct(name, navix.make, target, **options))
        self.id = target
        seen = jax.eval_shape(lambda: self.library.value.reset(jax.random.key(0)).observation)
        self.shape = (seen.shape, np.uint8 if observation.startswith("rgb") else np.int32)

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        shape, dtype = self.shape
        return foreign.box(0, 255, shape, dtype)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(len(self.library.value.action_set))

    @property
    def horizon(self) -> int:
        return int(self.library.value.max_steps)

    def reset(self, key: Key[Array, ""]) -> tuple[Any, Array]:
        timestep = foreign.strong(self.library.value.reset(key))
        return timestep, timestep.observation.astype(self.shape[1])

    def step(self, state: Any, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[Any, Step]:
        timestep = foreign.strong(self.library.value._step(state, action))
        return timestep, Step(
            timestep.observation.astype(self.shape[1]),
            timestep.reward.astype(jnp.float32),
            timestep.is_termination(),
            timestep.is_truncation(),
            {},
        )

    def render(self, state: Any) -> UInt8[np.ndarray, "height width 3"]:
        return foreign.picture(f"navix:{self.id}", np.asarray(jax.jit(navix.observations.rgb)(state.state)))


def ids() -> dict[str, str]:
    """Return every id of NAVIX with a line of description."""
    return {id: f"MiniGrid's {id.removeprefix('Navix-').rpartition('-')[0]}, by NAVIX." for id in registry()}
