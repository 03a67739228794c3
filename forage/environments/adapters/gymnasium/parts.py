"""Parts of a nested observation that are left out, such as those in a space that no network can read."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium import spaces

from forage.core.types import ForageError


class DropParts(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows an observation less the named parts; `outer.inner` is a part of a part."""

    def __init__(self, env: Any, names: Sequence[str]):
        """Raise `ForageError` for a part that does not exist, or if no part would be left."""
        super().__init__(env)
        self.paths = [tuple(name.split(".")) for name in names]
        space = env.observation_space
        for path in self.paths:
            space = space_without(type(env.unwrapped).__name__, space, path)
        self.observation_space = space

    def observation(self, observation: Any) -> Any:
        for path in self.paths:
            observation = drop_part(observation, path)
        return observation


def leave_out(env: Any, names: str | Sequence[str]) -> Any:
    """Return the environment without the named parts of its observation: `a,b`, or a list of them."""
    return DropParts(env, chosen) if (chosen := name_list(names)) else env


def name_list(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names as a person gives them: a list of them, or one text with commas between them."""
    names = names.split(",") if isinstance(names, str) else names
    return tuple(name.strip() for name in names if name.strip())


def space_without(name: str, space: Any, path: tuple[str, ...]) -> spaces.Space[Any]:
    """Return the space of the result of `drop_part`."""
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {}
    if path[0] not in parts:
        near = difflib.get_close_matches(path[0], parts, n=3, cutoff=0.4) or sorted(parts)
        raise ForageError(
            f"{name} has no part {path[0]} in its observation"
            + (f"; it has {', '.join(near)}." if parts else ", which is one and has no parts.")
        )
    part = parts.pop(path[0])
    if path[1:]:
        parts[path[0]] = space_without(name, part, path[1:])
    if not parts:
        raise ForageError(f"Without {'.'.join(path)} nothing is left of what {name} shows.")
    return spaces.Dict(parts)


def drop_part(observation: Any, path: tuple[str, ...]) -> Any:
    """Return an observation without one of its parts."""
    kept = {key: part for key, part in observation.items() if key != path[0]}
    return kept | {path[0]: drop_part(observation[path[0]], path[1:])} if path[1:] else kept
