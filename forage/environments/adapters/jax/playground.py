"""The environments of MuJoCo Playground, on MJX.

Source: Zakka, Tabanpour, Liao, Haiderbhai, Holt, Luo, Allshire, Frey, Sreenath, Kahrs, Sferrazza, Tassa, Abbeel (2025),
"MuJoCo Playground", arXiv 2502.08844, https://github.com/google-deepmind/mujoco_playground.
"""

# Where types are checked without the library, this file itself is taken for it.
from __future__ import annotations

import copy
from typing import Any

import equinox
import numpy as np
from jaxtyping import Array, PyTree, UInt8
from mujoco_playground import registry
from mujoco_playground._src import mjx_env

from forage.core.types import ForageError
from forage.environments.adapters.jax import common as foreign
from forage.environments.adapters.jax.brax import check_times
from forage.environments.adapters.jax.physics import SimulatorEnvironment, TimedState

PRIVILEGED = "privileged_state"
"""The entry of an observation that a robot has no sensors for; it was meant for a critic."""

CLOCKED = ("PandaPickCubeCartesian", "AlohaHandOver")
"""Environments with the time limit included in `done`; the others leave it to a wrapper."""


class Playground(SimulatorEnvironment):
    """One of Playground's environments, without its wrappers for resets and time limits.

    `parameters` is the `mjx.Model`. Options: `episode_length` and `action_repeat` (defaults from the environment's own
    configuration), any other number of that configuration by its name (`ctrl_dt`, `reward_config.scales.alive`, ...),
    `privileged`, and the numbers of the model (arrays from Python).

    If an environment has an entry `privileged_state`, an agent sees only `state`; with `privileged=True` it sees a
    dictionary of both.
    """

    privileged: bool = equinox.field(static=True)

    def __init__(self, target: str, privileged: bool = False, **options: Any):
        """Raise `ForageError` for an unknown option, or for a robot without its files on this machine."""
        name = f"playground:{target}"
        if target not in registry.dm_control_suite.ALL_ENVS and not mjx_env.MENAGERIE_PATH.exists():
            raise ForageError(
                f"{name} needs the robots of MuJoCo Menagerie, which are not on this machine; "
                f"python -c 'from mujoco_playground._src.mjx_env import ensure_menagerie_exists as get; get()' "
                f"downloads them."
            )
        config = registry.get_default_config(target)
        known = config_values(config)
        chosen = {option: value for option, value in options.items() if option in known}
        episode_length = chosen.get("episode_length", config.episode_length)
        action_repeat = chosen.get("action_repeat", config.action_repeat)
        check_times(name, episode_length, action_repeat)
        # `impl` chooses between MJX in JAX and in Warp, which needs a GPU.
        if "impl" in known:
            chosen.setdefault("impl", "jax")
        self.library = foreign.construct(name, registry.load, target, config_overrides=chosen)
        self.parameters, _ = foreign.with_parameters(name, self.library.mjx_model, options, {*known, "privileged"})
        self.id, self.prefix, self.privileged = target, "playground", bool(privileged)
        self.episode_length, self.action_repeat = int(episode_length), int(action_repeat)
        self.shapes = self.observation_shapes()

    def simulator(self) -> Any:
        library = copy.copy(self.library)
        library._mjx_model = self.parameters
        return library

    @property
    def clocked(self) -> bool:
        return self.id in CLOCKED

    @property
    def actions(self) -> int:
        return int(self.library.action_size)

    def agent_observation(self, observation: PyTree[Array]) -> PyTree[Array]:
        if isinstance(observation, dict) and PRIVILEGED in observation and not self.privileged:
            observation = observation["state"]
        return super().agent_observation(observation)

    def render(self, state: TimedState) -> UInt8[np.ndarray, "height width 3"]:
        return self.draw(self.library.render, foreign.single(state.inner))


def config_values(config: Any, prefix: str = "") -> dict[str, Any]:
    """Return a configuration's values by their full names."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        if hasattr(value, "items"):
            found |= config_values(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def ids() -> dict[str, str]:
    """Return every id of Playground with a line of description."""
    found = {id: f"DeepMind Control Suite's {id}, on MJX." for id in registry.dm_control_suite.ALL_ENVS}
    found |= {id: f"A legged robot: {id}, on MJX." for id in registry.locomotion.ALL_ENVS}
    return found | {id: f"A robot's arm or hand: {id}, on MJX." for id in registry.manipulation.ALL_ENVS}
