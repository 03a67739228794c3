"""Making one Gymnasium environment from an id, a class or a function, with an error that explains a failure."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from forage.core.errors import did_you_mean
from forage.core.host import Misfit
from forage.core.loading import Own
from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.atari import PREPROCESSING, frames_limit, is_atari, make_atari
from forage.environments.adapters.gymnasium.ids import registered_id
from forage.environments.adapters.gymnasium.parts import leave_out
from forage.environments.adapters.gymnasium.spaces import wrap_plain
from forage.environments.adapters.gymnasium.wrapping import ActionRepeat, Around, wrap

Target = str | Callable[..., Any]
"""An id of Gymnasium's registry, `module:Class`, or a function of options that makes one environment."""

NOT_OPTIONS = {"self", "args", "kwargs", "render_mode"}
OURS = ("parallel", "info", "snapshots", "flatten", "without", "max_episode_steps")
"""Options that are not the environment's own."""


def locate(target: Target) -> Target:
    """Return an id as it is registered, once its module is imported; for a class's name an `Own`."""
    if not isinstance(target, str):
        return target
    source, _, name = target.rpartition(":")
    if source.endswith(".py"):
        return Own.from_target(target)
    if (id := registered_id(target)) is None and source and name.isidentifier():
        return Own.from_target(target)
    return id or target


def make_single(
    target: Target,
    own: Mapping[str, Any],
    *,
    render: bool = False,
    max_episode_steps: int | None = None,
    flatten: bool = False,
    without: Sequence[str] = (),
    around: Around = (),
) -> Any:
    """Make one environment with arrays or nested dictionaries of arrays as observations.

    `own` are the options of its constructor, `without` the parts to leave out of its observation, `around` the wrappers
    around it; with `render` it draws pictures if it can.
    """
    target = locate(target)
    mode: dict[str, Any] = {"render_mode": "rgb_array"} if render and _draws(target) else {}
    if callable(target):
        env = target(**{**mode, **own})
        if not isinstance(env, gymnasium.Env):
            should = "what makes an environment returns one gymnasium.Env"
            if isinstance(env, gymnasium.vector.VectorEnv):
                should += ", and what makes a VectorEnv takes num_envs, the number of environments"
            raise Misfit(f"made a {type(env).__name__}", should)
        if max_episode_steps is not None:
            env = gymnasium.wrappers.TimeLimit(env, max_episode_steps)
    elif is_atari(target):
        options: dict[str, Any] = {**mode, **own}
        env = make_atari(target, max_episode_steps=max_episode_steps, **options)
    else:
        if render and sys.platform == "linux" and not os.environ.get("DISPLAY"):
            # Without a display MuJoCo's own choice fails, and takes the process with it the second time.
            os.environ.setdefault("MUJOCO_GL", "egl")
        spec = gymnasium.spec(target)
        # In the spec, where no option's name can be one of `gymnasium.make`'s.
        spec = dataclasses.replace(spec, kwargs={**spec.kwargs, **mode, **own})
        env = gymnasium.make(spec, max_episode_steps=max_episode_steps, disable_env_checker=True)
    require_spaces(env)
    return wrap_plain(wrap(leave_out(env, without), around), flatten)


def require_spaces(env: gymnasium.Env[Any, Any]) -> None:
    """Raise `Misfit` for an environment without spaces, or with other objects in their place."""
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, gymnasium.Space):
            kind = "no" if space is None else f"a {type(space).__name__} as"
            raise Misfit(f"has {kind} {name}", "it should be a space of Gymnasium, such as spaces.Discrete(3)")


def horizon(env: Any) -> int | None:
    """Return the tightest limit on an episode's steps among the wrappers."""
    limits: list[tuple[int | None, int]] = []
    repeats = 1  # steps of this layer for each one outside
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, ActionRepeat):
            repeats *= layer.repeats
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            limits.append((layer._max_episode_steps, repeats))
        layer = layer.env
    if type(layer).__module__.startswith("ale_py"):
        limits.append((frames_limit(env), repeats))
    return min((-(-limit // repeats) for limit, repeats in limits if limit is not None), default=None)


def map_layer(env: Any) -> Any:
    """Return the layer that reports its position on a map (`map_shape` and `map_position`); `None` if there is none."""
    layer = env
    while getattr(layer, "map_shape", None) is None:
        if not isinstance(layer, gymnasium.Wrapper):
            return None
        layer = layer.env
    return layer


def frames_per_second(env: Any) -> float | None:
    """Return the frame rate of its pictures from its metadata; `None` if they do not give one."""
    rate = env.metadata.get("render_fps")
    return float(rate) if isinstance(rate, int | float) and 0 < rate < 1000 else None


def reward_names(env: Any) -> tuple[str, ...]:
    """Return the names of the entries of a vector reward (`reward_space`, as in MO-Gymnasium), or an empty tuple."""
    space = getattr(env.unwrapped, "reward_space", None)
    if space is None:
        return ()
    names = getattr(env.unwrapped, "reward_names", ())
    return tuple(names) if len(names) == space.shape[0] else tuple(f"objective_{i}" for i in range(space.shape[0]))


def failure(name: str, target: Target, error: Exception, given: Mapping[str, Any], copies: int = 0) -> ForageError:
    """Return the error for an environment that could not be made with the options `given`, after its first `copies`."""
    if isinstance(error, gymnasium.error.DependencyNotInstalled):
        extra = next((extra for extra in ("mujoco", "atari") if extra in str(error).lower()), None)
        need = f"pip install 'forage-rl[{extra}]'" if extra else str(error)
        return ForageError(f"{name} needs a library that is not installed: {need}.")
    if isinstance(error, Misfit):
        return ForageError(f"{name} {error.message}; {error.should}.")
    match = re.search(r"unexpected keyword argument '(\w+)'", str(error)) if isinstance(error, TypeError) else None
    if match and match[1] in given and match[1] not in (own := options_of(target)):
        known = {*OURS, *own, *(("preprocess", *PREPROCESSING) if isinstance(target, str) and is_atari(target) else ())}
        hint = did_you_mean(difflib.get_close_matches(match[1], known, n=3, cutoff=0.4))
        return ForageError(f"{name} has no option {match[1]!r}" + (hint or f"; it has {', '.join(sorted(known))}."))
    needed = re.search(r"missing \d+ required (?:positional|keyword-only) arguments?: '(\w+)'", str(error))
    if needed and isinstance(error, TypeError) and needed[1] in options_of(target):
        return ForageError(
            f"{name} needs --env.{needed[1]} VALUE, which is environment_options={{'{needed[1]}': ...}} in Python."
        )
    if copies:
        return ForageError(
            f"{name} could be made {'once' if copies == 1 else f'{copies} times'} and not once more: "
            f"{error_message(error)}; a run needs num_envs of it for each seed, so where there can be but one, take "
            f"num_envs=1 and one seed."
        )
    return ForageError(f"{name} could not be made: {error_message(error).rstrip('.')}.")


def error_message(error: BaseException) -> str:
    """Return the message of an error, preceded by its type if it is no sentence (such as a KeyError's)."""
    words = str(error).strip()
    return words if " " in words else f"{type(error).__name__}: {words}".rstrip(": ")


def options_of(target: Target) -> set[str]:
    """Return the options that the environment's constructor names, those of its base classes too."""
    try:
        made_by = creator(target)
        chain = getattr(made_by, "__mro__", (made_by,))
        makers = [vars(cls)["__init__"] for cls in chain[:-1] if "__init__" in vars(cls)] or [made_by]
        return {key for maker in makers for key in inspect.signature(maker).parameters} - NOT_OPTIONS
    except (TypeError, ValueError):  # nothing that Python can read a signature of
        return set()


def creator(target: Target) -> Any:
    """Return the class, or the function, that makes it."""
    target = locate(target)
    if isinstance(target, Own):
        return target.cls
    if callable(target):
        return target
    entry = gymnasium.spec(target).entry_point
    return load_env_creator(entry) if isinstance(entry, str) else entry


def _draws(target: Target) -> bool:
    made_by = creator(target)
    modes = getattr(made_by, "metadata", {})
    modes = modes.get("render_modes", ()) if isinstance(modes, Mapping) else ()
    return "rgb_array" in (modes or ()) and _takes_mode(made_by)


def _takes_mode(made_by: Any) -> bool:
    try:
        parameters = inspect.signature(made_by).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(one.name == "render_mode" or one.kind is one.VAR_KEYWORD for one in parameters)
