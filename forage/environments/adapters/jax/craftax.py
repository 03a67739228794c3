"""Craftax and Craftax-Classic, as symbols and as pixels.

Source: Matthews, Beukman, Ellis, Samvelyan, Jackson, Coward, Foerster (2024), "Craftax: A Lightning-Fast Benchmark for
Open-Ended Reinforcement Learning", arXiv 2402.16801; Classic is Hafner (2021), "Benchmarking the Spectrum of Agent
Capabilities" (Crafter), arXiv 2109.06780.
"""

from __future__ import annotations

import importlib
from typing import Any

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8

from forage.core.ports import Environment
from forage.core.types import Step
from forage.environments.adapters.jax import common as foreign

PICTURE = 16
"""Pixels of a block in a picture, as in the library's own images."""


class Craftax(Environment):
    """One of Craftax's environments, stepped by the variant that does not reset.

    `parameters` is the library's `EnvParams`, traced: `max_timesteps`, `day_length`, ... are options and fields.
    The library's `StaticEnvParams` (`map_size`, `max_zombies`, ...) are options too, fixed in the compiled program.

    - Observation: symbols `float32[8268]` (Classic `float32[1345]`), or pixels `float32[130, 110, 3]` (Classic
      `float32[63, 63, 3]`) in [0, 1].
    - Action: one of 43 (Classic 17).
    - Terminated: death, and in Craftax the defeat of the boss, in Classic lava. Truncated: after `max_timesteps`.
      The library calls both done; which it was follows from asking it the same with a limit that is never reached.
    """

    library: Any = equinox.field(static=True)
    id: str = equinox.field(static=True)
    parameters: Any

    def __init__(self, target: str, **options: Any):
        """Raise `ForageError` for an option that is neither a parameter nor a static one."""
        name = f"craftax:{target}"
        cls = library_class(target)
        static = cls.default_static_params()
        fixed = vars(static)
        given = {option: value for option, value in options.items() if option in fixed}
        self.library = foreign.construct(name, cls, static.replace(**given))
        self.parameters, _ = foreign.with_parameters(name, self.library.default_params, options, fixed)
        self.id = target

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        space = self.library.observation_space(self.parameters)
        return foreign.box(space.low, space.high, tuple(space.shape), space.dtype)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(int(self.library.num_actions))

    @property
    def horizon(self) -> int:
        return int(self.parameters.max_timesteps)

    def reset(self, key: Key[Array, ""]) -> tuple[Any, Float[Array, "..."]]:
        observation, state = self.library.reset_env(key, self.parameters)
        state = state.replace(state_rng=own(state.state_rng))
        return foreign.strong(state), foreign.to_observation(observation)

    def step(self, state: Any, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[Any, Step]:
        observation, state, reward, done, info = self.library.step_env(own(key), state, action, self.parameters)
        endless = self.parameters.replace(max_timesteps=foreign.FOREVER)
        terminated = jnp.asarray(self.library.is_terminal(state, endless), bool)
        return foreign.strong(state), Step(
            foreign.to_observation(observation),
            jnp.asarray(reward, jnp.float32),
            terminated,
            jnp.asarray(done, bool) & ~terminated,
            foreign.strong(info),
        )

    def render(self, state: Any) -> UInt8[np.ndarray, "height width 3"]:
        renderer = importlib.import_module(type(self.library).__module__.partition(".envs.")[0] + ".renderer")
        draw = renderer.make_craftax_pixel_renderer(PICTURE)
        return foreign.picture(f"craftax:{self.id}", np.asarray(jax.jit(draw)(state), np.float32).astype(np.uint8))


def own(key: Key[Array, ""]) -> Key[Array, ""]:
    """Return the key as one of JAX's own generator: a step draws so often that Forage's, written out, compiles for
    minutes.
    """
    return jax.random.wrap_key_data(jax.random.key_data(key), impl="threefry2x32")


CLASSES = {
    "Craftax-Symbolic-v1": ("craftax.craftax.envs.craftax_symbolic_env", "CraftaxSymbolicEnvNoAutoReset"),
    "Craftax-Pixels-v1": ("craftax.craftax.envs.craftax_pixels_env", "CraftaxPixelsEnvNoAutoReset"),
    "Craftax-Classic-Symbolic-v1": (
        "craftax.craftax_classic.envs.craftax_symbolic_env",
        "CraftaxClassicSymbolicEnvNoAutoReset",
    ),
    "Craftax-Classic-Pixels-v1": (
        "craftax.craftax_classic.envs.craftax_pixels_env",
        "CraftaxClassicPixelsEnvNoAutoReset",
    ),
}


def library_class(target: str) -> Any:
    """Return the library's class of an id."""
    module, name = CLASSES[target]
    return getattr(importlib.import_module(module), name)


def ids() -> dict[str, str]:
    """Return every id of Craftax with a line of description."""
    return {
        "Craftax-Symbolic-v1": "Survive and descend nine levels; 8268 symbols, 43 actions, 100,000 steps.",
        "Craftax-Pixels-v1": "Survive and descend nine levels; seen as pixels.",
        "Craftax-Classic-Symbolic-v1": "Crafter: 22 achievements; 1345 symbols, 17 actions, 10,000 steps.",
        "Craftax-Classic-Pixels-v1": "Crafter: 22 achievements; seen as pixels.",
    }
