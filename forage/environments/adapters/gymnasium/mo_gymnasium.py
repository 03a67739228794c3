"""MO-Gymnasium on the host: `mo-gymnasium:deep-sea-treasure-v0`. Its environments have vector rewards.

Felten, Alegre, Nowe, Bazzan, Talbi, Danoy, da Silva (2023), "A Toolkit for Reliable Benchmarking and Research in
Multi-Objective Reinforcement Learning", NeurIPS Datasets and Benchmarks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import gymnasium

from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment
from forage.environments.adapters.gymnasium.make import Target, make_single, reward_names

OBJECTIVES: dict[str, tuple[str, ...]] = {
    "ant": ("x_velocity", "y_velocity", "control"),
    "breakable_bottles": ("time", "bottles", "potential"),
    "continuous_mountain_car": ("time", "fuel"),
    "dam_env": ("upstream_flood", "water_deficit", "hydroelectric_deficit", "downstream_flood"),
    "deep_sea_treasure": ("treasure", "time"),
    "fishwood": ("wood", "fish"),
    "four_room": ("blue_square", "green_triangle", "red_circle"),
    "fruit_tree": ("protein", "carbs", "fats", "vitamins", "minerals", "water"),
    "half_cheetah": ("forward", "control"),
    "highway": ("speed", "right_lane", "collision"),
    "hopper": ("forward", "height", "control"),
    "humanoid": ("forward", "control"),
    "lunar_lander": ("landing", "shaping", "main_engine", "side_engine"),
    "mario": ("x_pos", "time", "death", "coin", "enemy"),
    "minecart": ("first_ore", "second_ore", "fuel"),
    "mountain_car": ("time", "reverse", "forward"),
    "reacher": ("target_1", "target_2", "target_3", "target_4"),
    "resource_gathering": ("death", "gold", "gem"),
    "swimmer": ("forward", "control"),
    "walker2d": ("forward", "control"),
}
"""The meaning of each reward of a module, in the order of the reward vector of `step`."""

FIRST_FEW = {"ant", "dam_env", "hopper"}
"""Modules that, asked for fewer objectives, return the first of them."""


class MOGymnasiumEnvironment(GymnasiumEnvironment):
    """Environments of MO-Gymnasium: a `GymnasiumEnvironment` with `reward_names` as the library documents them.

    Where the library says nothing, the rewards are `objective_0`, `objective_1`, ... Options are the environment's own
    and those of `GymnasiumEnvironment`.
    """

    @classmethod
    def options_of(cls, target: Target) -> set[str]:
        load_mo_gymnasium()
        return super().options_of(target)

    @staticmethod
    def _single(target: Target, own: Mapping[str, Any], **how: Any) -> gymnasium.Env[Any, Any]:
        load_mo_gymnasium()
        return make_single(target, own=own, **how)

    @staticmethod
    def _reward_names(env: Any) -> tuple[str, ...]:
        size, inner = len(reward_names(env)), env.unwrapped
        module = module_of(type(inner).__module__)
        names = OBJECTIVES.get(module, ())
        if module == "mountain_car":
            penalties = ("move",) if inner.merge_move_penalty else ("reverse", "forward")
            names = ("time", *(() if inner.remove_move_penalty else penalties))
            names += ("speed",) if inner.add_speed_objective else ()
        elif module == "mario":
            names = tuple(name for name in names if name in inner.objectives)
        elif module in FIRST_FEW:
            names = names[:size]
        return names if len(names) == size else reward_names(env)


def module_of(path: str) -> str:
    """`hopper` for `mo_gymnasium.envs.mujoco.hopper_v5`."""
    return re.sub(r"_v\d+$", "", path.rpartition(".")[2])


def load_mo_gymnasium() -> Any:
    """Import MO-Gymnasium and register its ids. Raise `ForageError` with the install command if it is missing."""
    try:
        import mo_gymnasium
    except ImportError as error:
        raise ForageError("MO-Gymnasium is not installed: pip install 'forage-rl[mo-gymnasium]'.") from error
    return mo_gymnasium


def ids() -> dict[str, str]:
    """Return every id of MO-Gymnasium with its objectives."""
    load_mo_gymnasium()
    found = {}
    for id, spec in sorted(gymnasium.registry.items()):
        path = str(spec.entry_point).partition(":")[0]
        if path.startswith("mo_gymnasium."):
            objectives = ", ".join(OBJECTIVES.get(module_of(path), ())).replace("_", " ")
            found[id] = f"MO-Gymnasium's {id.rpartition('-')[0]}{': ' if objectives else ''}{objectives}."
    return found
