"""Gymnasium-Robotics on the host: `robotics:FetchReach-v4`. Goals are part of the observation.

Plappert et al. (2018), "Multi-Goal Reinforcement Learning: Challenging Robotics Environments and Request for Research",
arXiv 1802.09464; mazes from Fu et al. (2020), "D4RL", arXiv 2004.07219.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping
from typing import Any

import gymnasium

from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment
from forage.environments.adapters.gymnasium.make import Target, make_single


class RoboticsEnvironment(GymnasiumEnvironment):
    """Environments of Gymnasium-Robotics: Fetch, Shadow hand, mazes, Adroit hand, Franka kitchen.

    Those with a goal show `{"observation", "achieved_goal", "desired_goal"}`. Options are the environment's own
    (`reward_type="dense"`, `maze_map`, ...) and those of `GymnasiumEnvironment`.
    """

    @classmethod
    def options_of(cls, target: Target) -> set[str]:
        load_robotics()
        return super().options_of(target)

    @staticmethod
    def _single(target: Target, own: Mapping[str, Any], **how: Any) -> gymnasium.Env[Any, Any]:
        load_robotics()
        try:
            return make_single(target, own=own, **how)
        except AssertionError as error:
            # MuJoCo 3.12 and later no longer take their enumerations for integers, as this library expects.
            import mujoco

            major, minor = (int(part) for part in mujoco.__version__.split(".")[:2])
            if (major, minor) < (3, 12):
                raise
            raise ForageError(
                f"{target} of Gymnasium-Robotics does not work with MuJoCo {mujoco.__version__}; "
                f"pip install 'mujoco<3.12', which DeepMind Control cannot run with."
            ) from error


def load_robotics() -> Any:
    """Import Gymnasium-Robotics and register its ids. Raise `ForageError` with the install command if it is missing."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # it has a word to say about old ids at every start
            import gymnasium_robotics
    except ImportError as error:
        raise ForageError("Gymnasium-Robotics is not installed: pip install 'forage-rl[robotics]'.") from error
    gymnasium.register_envs(gymnasium_robotics)
    return gymnasium_robotics


def ids() -> dict[str, str]:
    """Return every id of Gymnasium-Robotics that current MuJoCo runs, with a line of description."""
    load_robotics()
    found = {}
    for id, spec in sorted(gymnasium.registry.items()):
        entry = str(spec.entry_point)
        if entry.startswith("gymnasium_robotics.") and "MujocoPy" not in entry and ".envs.mujoco." not in entry:
            kind = entry.removeprefix("gymnasium_robotics.envs.").partition(".")[0].replace("_", " ")
            found[id] = f"Gymnasium-Robotics' {re.sub(r'-v[0-9]+$', '', id)} ({kind})."
    return found
