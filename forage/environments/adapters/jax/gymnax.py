"""The environments of gymnax, 1.0 and newer.

Source: Lange (2022), "gymnax: A JAX-based Reinforcement Learning Environment Library",
https://github.com/RobertTLange/gymnax.
"""

# Where types are checked without the library, this file itself is taken for it.
from __future__ import annotations

import inspect
from typing import Any

import equinox
import gymnasium
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
from gymnax.environments import spaces
from jaxtyping import Array, Key, PyTree, UInt8

from forage.core import prng
from forage.core.ports import Environment
from forage.core.types import ForageError, Step
from forage.environments.adapters.jax import common as foreign

DRAWN = {
    *("Acrobot-v1", "CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Catch-bsuite"),
    *("Asterix-MinAtar", "Breakout-MinAtar", "Freeway-MinAtar", "Seaquest-MinAtar", "SpaceInvaders-MinAtar"),
    *("Pong-misc", "PointRobot-misc", "MetaMaze-misc", "FourRooms-misc"),
}
"""The environments that gymnax's Visualizer draws."""


class Gymnax(Environment):
    """One of gymnax's environments, stepped by its `step_env`, without automatic resets.

    `parameters` is gymnax's own `EnvParams`, traced: an option or `with_fields` sets one of its numbers (`--env.length
    0.7`), and tasks may draw them. Arguments of the library's constructor (`size` of DeepSea-bsuite) are options too.

    - Terminated: as `step_env` returns it. Truncated: `is_truncated`, after `max_steps_in_episode` steps, if not
      terminated.
    - Observation: the array that gymnax returns, in its own dtype, which some of its spaces declare otherwise.
    """

    library: Any = equinox.field(static=True)
    id: str = equinox.field(static=True)
    dtype: Any = equinox.field(static=True)  # of the observation; some spaces name another
    parameters: Any

    def __init__(self, target: str, **options: Any):
        """Raise `ForageError` for an option that is neither a parameter nor an argument of the constructor."""
        name = f"gymnax:{target}"
        arguments = inspect.signature(gymnax.registration._registry[target]).parameters
        rest = {option: value for option, value in options.items() if option in arguments}
        self.library, parameters = foreign.construct(name, gymnax.make, target, **rest)
        self.parameters, _ = foreign.with_parameters(name, parameters, options, arguments)
        self.id = target
        observation, _ = jax.eval_shape(self.library.reset_env, prng.key(0), self.parameters)
        self.dtype = foreign.dtype_of(observation.dtype)

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return self._convert(self.library.observation_space, self.dtype)

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self._convert(self.library.action_space, None)

    @property
    def horizon(self) -> int:
        return int(self.parameters.max_steps_in_episode)

    def reset(self, key: Key[Array, ""]) -> tuple[Any, PyTree[Array]]:
        observation, state = self.library.reset_env(key, self.parameters)
        return foreign.strong(state), foreign.to_observation(observation)

    def step(self, state: Any, action: PyTree[Array], key: Key[Array, ""]) -> tuple[Any, Step]:
        observation, state, reward, terminated, info = self.library.step_env(key, state, action, self.parameters)
        truncated = self.library.is_truncated(state, self.parameters)
        terminated = jnp.asarray(terminated, bool)
        return foreign.strong(state), Step(
            foreign.to_observation(observation),
            jnp.asarray(reward, jnp.float32),
            terminated,
            jnp.asarray(truncated, bool) & ~terminated,
            foreign.strong(info),
        )

    def _convert(self, space: Any, dtype: Any) -> gymnasium.Space[Any]:
        # Bounds are made by jax.numpy, and a space may be asked for while something else is traced.
        with jax.ensure_compile_time_eval():
            space = space(self.parameters)
            if isinstance(space, spaces.Discrete):
                return gymnasium.spaces.Discrete(int(space.n))
            if isinstance(space, spaces.Box):
                return foreign.box(space.low, space.high, tuple(space.shape), dtype or space.dtype)
        raise ForageError(f"gymnax:{self.id} has the space {space}; boxes and discrete spaces can be used.")

    def render(self, state: Any) -> UInt8[np.ndarray, "height width 3"]:
        if self.id not in DRAWN:
            raise ForageError(f"gymnax:{self.id} cannot be drawn: gymnax has no picture of it.")
        from gymnax.visualize import Visualizer

        try:
            visualizer = Visualizer(self.library, self.parameters, [foreign.single(state)])
            visualizer.init()
            visualizer.update(0)
        except Exception as error:  # the classic ones need pygame, and each raises its own kind without it
            raise ForageError(
                f"gymnax:{self.id} cannot be drawn ({type(error).__name__}: {error}); classic control needs "
                f"pip install 'gymnasium[classic-control]'."
            ) from error
        return foreign.figure_picture(visualizer.fig)


def ids() -> dict[str, str]:
    """Return every id of gymnax with a line of description."""
    return {id: describe_id(id) for id in gymnax.registered_envs}


def describe_id(id: str) -> str:
    """Return a one-line description of an environment from the module of its class."""
    factory = gymnax.registration._registry[id]
    family = getattr(factory, "__module__", "").split(".")[-2:-1] or ["own"]
    return f"gymnax's {id.rpartition('-')[0]} ({family[0].replace('_', ' ')})."
