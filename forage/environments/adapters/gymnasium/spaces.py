"""Spaces of Gymnasium environments: observations as arrays, and agents' choices as the environment's actions.

Observations. By default nested spaces stay nested: a Dict becomes a dictionary, a Tuple a dictionary with the keys "0",
"1", ..., a Text `Tokens` (one id for each character, see `encode_text`); choices that start from another number count
from 0. With `flatten` the whole observation is one `float32` vector, as `gymnasium.spaces.flatten` makes it, with
choices as one-hot vectors.

Actions. Agents act in Discrete, in flat MultiDiscrete and in Box spaces. Many choices (MultiBinary, MultiDiscrete of
any shape, a Box of whole numbers with `MOST_CHOICES` options at most, a Dict or Tuple of choices) are one flat
MultiDiscrete; a Dict or Tuple of boxes is one flat Box, whose whole numbers are rounded; a Dict or Tuple with choices
and other numbers is `forage.core.spaces.MixedSpace`. A mask is of the choices alone.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Float

from forage.core.arrays import (
    ARRAY_SPACES,
    array_space,
    as_arrays,
    decode_text,
    encode_text,
    float_box,
    has_choices,
    is_choices,
    is_empty,
    unreadable,
    vector_size,
)
from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.calls import reset_environment

__all__ = ["array_space", "as_arrays", "decode_text", "encode_text"]  # of `core.arrays`, found here, too
MASKED = {"observation", "action_mask"}


def wrap_plain(env: Any, flatten: bool = False) -> Any:
    """Wrap an environment to flatten unsupported observations and to move an action mask into the observation.

    The mask may be in the info of a reset, or be returned by a method `action_masks`.
    """
    if has_loose_mask(env.observation_space):
        env = MaskApart(env)
    space, source = env.observation_space, ""
    if has_choices(env.action_space) and not is_masked(space):
        if callable(getattr(env.unwrapped, "action_masks", None)):
            source = "method"
        elif "action_mask" in (info := reset_environment(env, 0)[1]):
            source = "info"
            if info["action_mask"] is not None:
                flat_mask(class_name(env), env.action_space, info["action_mask"])  # or it would fail in a run
    if source or flatten or not _is_ready(space):
        return ArrayObservation(env, source, flatten)
    return env


class MaskApart(gymnasium.ObservationWrapper[Any, Any, Any]):
    """A wrapper that moves an action mask out of a dictionary of other parts to its place: see `split_mask_part`."""

    def __init__(self, env: Any):
        super().__init__(env)
        space = env.observation_space
        self.fits = mask_fits(space["action_mask"], env.action_space)
        self.observation_space = apart_space(space, self.fits)

    def observation(self, observation: Any) -> dict[str, Any]:
        return split_mask_part(observation, self.fits)


class ArrayObservation(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper that turns an observation into arrays, nested or flat, with the action mask if there is one."""

    def __init__(self, env: Any, mask_source: str = "", flatten: bool = False):
        """Take masks from `mask_source`: `info`, `method`, or empty (no mask, or one inside the observation)."""
        super().__init__(env)
        self.mask_source, self.flatten = mask_source, flatten
        space = env.observation_space
        self.masked = bool(mask_source) or is_masked(space)
        self._seen = space["observation"] if self.masked and not mask_source else space
        name = class_name(env)
        seen = flat_space(name, self._seen) if flatten else array_space(name, self._seen)
        if self.masked:
            nested = not mask_source and isinstance(space["action_mask"], spaces.Dict | spaces.Tuple)
            flat = mask_source or (nested and has_choices(env.action_space))
            mask = spaces.MultiBinary(sum(choice_sizes(env.action_space))) if flat else space["action_mask"]
            self._flat = bool(flat)
            seen = spaces.Dict({"observation": seen, "action_mask": mask})
        self.observation_space = seen

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = reset_environment(self.env, seed)
        return self._convert(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._convert(observation, info), reward, terminated, truncated, info

    def _convert(self, observation: Any, info: dict[str, Any]) -> Any:
        seen = observation["observation"] if self.masked and not self.mask_source else observation
        seen = as_vector(self._seen, seen) if self.flatten else as_arrays(self._seen, seen)
        if not self.masked:
            return seen
        # At the end of an episode some environments leave the mask out; then every action is allowed.
        space = self.observation_space["action_mask"]  # pyrefly: ignore[bad-index]
        if self.mask_source == "method":
            mask = self.env.unwrapped.action_masks()  # pyrefly: ignore[missing-attribute]
        else:
            mask = info.get("action_mask") if self.mask_source else observation["action_mask"]
        if mask is None:
            mask = np.ones(space.shape)
        elif self._flat:
            mask = flat_mask(class_name(self.env), self.env.action_space, mask)
        return {"observation": seen, "action_mask": np.asarray(mask).astype(space.dtype)}


def class_name(env: Any) -> str:
    """Return the name of an environment's class, for messages."""
    return type(env.unwrapped).__name__


def inner_spaces(space: Any) -> list[Any]:
    """Return the spaces inside a Dict or Tuple, in order."""
    return list(space.values()) if isinstance(space, spaces.Dict) else list(space.spaces)


def choice_sizes(space: Any) -> list[int]:
    """Return the number of options of each choice of an action, in order; numbers have none."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return [size for part in inner_spaces(space) for size in choice_sizes(part)]
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return np.ravel(space.nvec).tolist()
    if isinstance(space, spaces.Box) and not is_choices(space):
        return []
    if isinstance(space, spaces.Box):
        return (np.ravel(space.high).astype(int) - np.ravel(space.low).astype(int) + 1).tolist()
    return [2] * int(np.prod(space.shape))


def flat_mask(name: str, space: Any, mask: Any) -> np.ndarray:
    """Return a mask with one entry for each option of each choice of an action space, behind one another.

    It may be that already, or as `space.sample` of Gymnasium takes it: nested as a Dict or Tuple is, a tuple of arrays
    for a MultiDiscrete, and for a MultiBinary an array with 0 or 1 where only that is allowed and 2 where both are.
    Boxes of numbers among choices have `None`, or are left out of a dictionary.
    Raises `ForageError` for any other.
    """
    counts = choice_sizes(space)
    found = mask_parts(space, mask)
    if found is None or [len(part) for part in found] != counts:
        entries = f"{np.size(mask)} entries" if isinstance(mask, np.ndarray | list) else type(mask).__name__
        raise ForageError(
            f"{name} gives an action_mask of {entries} for actions in {space}; it should have {sum(counts)} entries, "
            f"one for each option."
        )
    return np.concatenate(found) != 0


def mask_parts(space: Any, mask: Any) -> list[np.ndarray] | None:
    """Return the mask of each choice, or `None` if it is no mask of this space."""
    counts = choice_sizes(space)
    if not counts:
        return [] if mask is None else None
    if isinstance(mask, dict | tuple):
        if isinstance(space, spaces.Dict | spaces.Tuple):
            if isinstance(mask, dict) != isinstance(space, spaces.Dict):
                return None
            if set(mask) - set(space.spaces) if isinstance(mask, dict) else len(mask) != len(space.spaces):
                return None
            each = [mask.get(key) for key in space.spaces] if isinstance(mask, dict) else mask
            nested = [mask_parts(part, one) for part, one in zip(inner_spaces(space), each, strict=True)]
            return None if any(one is None for one in nested) else [leaf for one in nested for leaf in one or ()]
        leaves = [np.asarray(leaf) for leaf in flatten_tuples(mask)]
        return leaves if all(leaf.ndim == 1 for leaf in leaves) else None
    if mask is None or (flat := np.asarray(mask)).dtype.kind not in "biuf":
        return None
    if isinstance(space, spaces.MultiBinary) and flat.shape == space.shape:
        return [np.array([value != 1, value != 0]) for value in flat.ravel()]
    return np.split(flat.ravel(), np.cumsum(counts)[:-1]) if flat.size == sum(counts) else None


def flatten_tuples(mask: Any) -> list[Any]:
    """Return the leaves of nested tuples, in order."""
    return [leaf for part in mask for leaf in flatten_tuples(part)] if isinstance(mask, tuple) else [mask]


def is_masked(space: spaces.Space[Any]) -> bool:
    """Return whether observations are `{"observation", "action_mask"}`."""
    return isinstance(space, spaces.Dict) and set(space.spaces) == MASKED


def has_loose_mask(space: spaces.Space[Any]) -> bool:
    """Return whether there is an `action_mask` among parts other than `observation` alone."""
    return isinstance(space, spaces.Dict) and "action_mask" in space.spaces and not set(space.spaces) >= MASKED


def mask_fits(mask: spaces.Space[Any], actions: spaces.Space[Any]) -> bool:
    """Return whether a mask has one entry for each choice of an action."""
    if isinstance(actions, spaces.Discrete):
        return mask.shape == (int(actions.n),)
    return has_choices(actions) and mask.shape == (sum(choice_sizes(actions)),)


def split_mask_part(parts: Any, fits: bool) -> dict[str, Any]:
    """`{"observation": the other parts, "action_mask"}`; a mask of another form is one more part of the observation."""
    others = {key: part for key, part in parts.items() if not (fits and key == "action_mask")}
    return {"observation": others, "action_mask": parts["action_mask"]} if fits else {"observation": others}


def apart_space(parts: Any, fits: bool) -> spaces.Dict:
    """Return the space of the result of `split_mask_part`."""
    kept = split_mask_part(parts, fits)
    return spaces.Dict({**kept, "observation": spaces.Dict(kept["observation"])})


def _is_ready(space: spaces.Space[Any]) -> bool:
    """Return whether observations are arrays already, or dictionaries of them."""
    if isinstance(space, spaces.Dict):
        return all(_is_ready(part) and not is_empty(part) for part in space.spaces.values())
    return isinstance(space, ARRAY_SPACES) and not np.any(getattr(space, "start", 0))


def flat_space(name: str, space: spaces.Space[Any]) -> spaces.Box:
    """Return the space of `gymnasium.spaces.flatten`, as `float32`. Raise `ForageError` if the size changes."""
    if not vector_size(space):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else ()
        bad = ((part, (key,)) for key, part in parts if not vector_size(part))
        raise unreadable(name, *next(bad, (space, ())))
    box: Any = spaces.flatten_space(space)
    return float_box(box.low, box.high) if box.dtype != np.float32 else box


def as_vector(space: spaces.Space[Any], value: Any) -> Float[np.ndarray, " size"]:
    """Return an element of `space` as one vector."""
    return np.asarray(spaces.flatten(space, value), np.float32)
