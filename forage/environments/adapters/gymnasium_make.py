"""Making one Gymnasium environment from an id or a class, and saying why where that fails."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import sys
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from forage.environments.adapters.atari import PREPROCESSING, frames_limit, is_atari, make_atari
from forage.environments.adapters.gymnasium_spaces import plain
from forage.environments.adapters.loading import load_class
from forage.types import ForageError

NOT_OPTIONS = {"self", "args", "kwargs", "render_mode"}


def is_class(target: str) -> bool:
    """Whether the target is `module:Class` or `file.py:Class` rather than an id; ids end in `-v<number>`."""
    _, colon, name = target.rpartition(":")
    return bool(colon) and name.isidentifier()


def make_single(
    target: str, render: bool = False, max_episode_steps: int | None = None, flatten: bool = False, **options: Any
) -> Any:
    """Makes one environment whose observations are arrays or nested dictionaries of them."""
    if is_class(target):
        cls = load_class(target)
        env = cls(**options)
        if max_episode_steps is not None:
            env = gymnasium.wrappers.TimeLimit(env, max_episode_steps)
    elif is_atari(target):
        mode: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
        env = make_atari(target, max_episode_steps=max_episode_steps, **{**mode, **options})
        return plain(env, flatten=True) if flatten else env
    else:
        mode = {"render_mode": "rgb_array"} if render and _draws(target) else {}
        if render and sys.platform == "linux" and not os.environ.get("DISPLAY"):
            # Without a display MuJoCo's own choice fails, and takes the process with it the second time.
            os.environ.setdefault("MUJOCO_GL", "egl")
        env = gymnasium.make(
            target, max_episode_steps=max_episode_steps, disable_env_checker=True, **{**mode, **options}
        )
    return plain(env, flatten)


def horizon(env: Any) -> int | None:
    """The tightest limit on an episode's steps among the wrappers."""
    limits: list[int | None] = []
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            limits.append(layer._max_episode_steps)
        layer = layer.env
    if type(layer).__module__.startswith("ale_py"):
        limits.append(frames_limit(env))
    return min((limit for limit in limits if limit is not None), default=None)


def mapped(env: Any) -> Any:
    """The layer that says where it is on a map, by `places` and `place`; `None` where none does."""
    layer = env
    while getattr(layer, "places", None) is None:
        if not isinstance(layer, gymnasium.Wrapper):
            return None
        layer = layer.env
    return layer


def reward_names(env: Any) -> tuple[str, ...]:
    """Names of the entries of a vector reward, where there is one: `reward_space` says so, as MO-Gymnasium has it."""
    space = getattr(env.unwrapped, "reward_space", None)
    if space is None:
        return ()
    names = getattr(env.unwrapped, "reward_names", ())
    return tuple(names) if len(names) == space.shape[0] else tuple(f"objective_{i}" for i in range(space.shape[0]))


def failure(name: str, target: str, error: Exception) -> ForageError:
    """Why an environment could not be made, in one sentence."""
    if isinstance(error, gymnasium.error.DependencyNotInstalled):
        extra = next((extra for extra in ("mujoco", "atari") if extra in str(error).lower()), None)
        need = f"pip install 'forage-rl[{extra}]'" if extra else str(error)
        return ForageError(f"{name} needs a library that is not installed: {need}.")
    if isinstance(error, TypeError) and (match := re.search(r"unexpected keyword argument '(\w+)'", str(error))):
        classes = getattr(creator(target), "__mro__", ())
        known = {"parallel", "info", "snapshots", "flatten", "max_episode_steps"} | (
            {"preprocess", *PREPROCESSING} if is_atari(target) else set()
        )
        for cls in classes[: -1 if classes else None]:
            if "__init__" in vars(cls):
                known |= {key for key in inspect.signature(cls.__init__).parameters if key not in NOT_OPTIONS}
        near = difflib.get_close_matches(match[1], known, n=3, cutoff=0.4) or sorted(known)
        return ForageError(f"{name} has no option {match[1]}; the nearest are {', '.join(near)}.")
    return ForageError(f"{name} could not be made: {error}")


def creator(target: str) -> Any:
    """The class, or the function, that makes it."""
    if is_class(target):
        return load_class(target)
    entry = gymnasium.spec(target).entry_point
    return load_env_creator(entry) if isinstance(entry, str) else entry


def _draws(id: str) -> bool:
    return "rgb_array" in getattr(creator(id), "metadata", {}).get("render_modes", ())
