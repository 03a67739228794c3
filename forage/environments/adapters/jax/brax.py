"""The environments of Brax.

Source: Freeman, Frey, Raichuk, Girgin, Mordatch, Bachem (2021), "Brax: A Differentiable Physics Engine for Large Scale
Rigid Body Simulation", arXiv 2106.13281, https://github.com/google/brax.
"""

# Where types are checked without the library, this file itself is taken for it.
from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
from brax import envs
from jaxtyping import UInt8

from forage.core.types import ForageError
from forage.environments.adapters.jax import common as foreign
from forage.environments.adapters.jax.physics import SimulatorEnvironment, TimedState


class Brax(SimulatorEnvironment):
    """One of Brax's environments, without its wrappers for resets and time limits.

    `parameters` is Brax's `System`. Options: `episode_length` (1000, as in Brax's training), `action_repeat` (1), the
    arguments of the environment's constructor (`backend`: generalized, spring, positional or mjx), and the numbers of
    `System` (arrays from Python).
    """

    def __init__(self, target: str, episode_length: int = 1000, action_repeat: int = 1, **options: Any):
        """Raise `ForageError` for an option that is not there or an episode of no steps."""
        name = f"brax:{target}"
        check_times(name, episode_length, action_repeat)
        arguments = {"backend", *inspect.signature(envs._envs[target]).parameters} - {"kwargs"}
        rest = {option: value for option, value in options.items() if option in arguments}
        self.library = foreign.construct(name, envs.get_environment, target, **rest)
        model = getattr(self.library, "sys", None)
        known = {"episode_length", "action_repeat", *arguments}
        self.parameters, _ = foreign.with_parameters(name, model, options, known)
        self.id, self.prefix = target, "brax"
        self.episode_length, self.action_repeat = int(episode_length), int(action_repeat)
        self.shapes = self.observation_shapes()

    def simulator(self) -> Any:
        if self.parameters is None:
            return self.library
        library = copy.copy(self.library)
        library.sys = self.parameters
        return library

    @property
    def actions(self) -> int:
        return int(self.library.action_size)

    def render(self, state: TimedState) -> UInt8[np.ndarray, "height width 3"]:
        from brax.io import image

        if not hasattr(self.library, "sys"):
            raise ForageError(f"brax:{self.id} cannot be drawn: it is a counter for Brax's own tests, without a body.")
        model = self.library.sys.mj_model
        follows = any(model.camera(index).name == "track" for index in range(model.ncam))
        frame = foreign.single(state.inner.pipeline_state)
        return self.draw(image.render_array, self.library.sys, frame, 240, 320, "track" if follows else None)


def check_times(name: str, episode_length: int, action_repeat: int) -> None:
    """Raise `ForageError` if these make no episode."""
    for option, value in (("episode_length", episode_length), ("action_repeat", action_repeat)):
        if not isinstance(value, int) or value < 1:
            raise ForageError(f"{name}'s {option} is a whole number from 1 up, not {value!r}.")


def ids() -> dict[str, str]:
    """Return every id of Brax with a line of description."""
    return {id: DESCRIPTIONS.get(id, f"Brax's {id}.") for id in envs._envs}


DESCRIPTIONS = {
    "ant": "Four legs run forward.",
    "fast": "Brax's own test environment: two numbers, no physics, done after a moment.",
    "halfcheetah": "A half cheetah runs forward.",
    "hopper": "One leg hops forward.",
    "humanoid": "Two legs, two arms and a trunk walk forward.",
    "humanoidstandup": "The humanoid gets up from the floor.",
    "inverted_pendulum": "Balance one pole on a cart.",
    "inverted_double_pendulum": "Balance two poles, one on the other, on a cart.",
    "pusher": "An arm pushes a cylinder to a goal.",
    "reacher": "A two-link arm reaches for a point.",
    "swimmer": "A chain of three links swims forward.",
    "walker2d": "Two legs walk forward in a plane.",
}
