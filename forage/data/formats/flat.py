"""From arrays of rows, as others write them, to whole episodes in which termination and time limits are apart.

    observation o_t, action a_t, reward r_t, and the ends of episodes    [row, ...]

Where a file has no next observations, that of a row is the next row's observation. A row that terminates keeps its own:
no value is bootstrapped from there, but methods that learn what follows an action (the inverse model of `label`, guided
flows, the classifiers of `h2o`) see a step that stays in place. A row at which time ran out has none, so it is left out
and the row before it counts as truncated, as D4RL's `qlearning_dataset` does (d4rl/__init__.py of its repository).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from forage.core import spaces
from forage.core.types import ForageError, Spec
from forage.data.files import Label, check_bounds, off, row
from forage.data.formats.reading import TERMINATED, TRUNCATED, Reading
from forage.data.logged import Transitions


class Rows(NamedTuple):
    """What a file holds, row by row. `None`: the file does not say."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray | None  # the task was over
    truncated: np.ndarray | None  # time ran out
    ended: np.ndarray | None = None  # an episode's last row, for whatever reason
    next_observation: np.ndarray | None = None
    behaviour_probability: np.ndarray | None = None


def transitions(path: Path, rows: Rows, reading: Reading, spec: Spec, label: Label = row) -> tuple[Transitions, int]:
    """Return the whole episodes of rows, and how many rows were left out. Raise `ForageError` at the first bad row."""
    count = count_rows(path, rows.action, {name: array for name, array in rows._asdict().items() if array is not None})
    observation = fitted(path, "observation", rows.observation, spec.observation_space, spec, label)
    following = rows.next_observation
    if following is not None:
        following = fitted(path, "next_observation", following, spec.observation_space, spec, label)
    action = fitted(path, "action", rows.action, spec.action_space, spec, label)
    reward = numbers(path, "reward", rows.reward).astype(np.float64).reshape(count, -1)
    if reward.shape[1] != 1:
        raise ForageError(f"{path} has {reward.shape[1]} rewards in each row, and a data set has one.")
    check_finite(path, "reward", reward, label)

    terminated, truncated = ends(path, rows, reading, count, label)
    ended = terminated | truncated
    ended[-1] = True  # the recording stopped here
    keep = np.ones(count, bool)
    if following is None:
        following = np.where(expand(ended, observation), observation, np.roll(observation, -1, 0))
        keep = ~(ended & ~terminated)
    # The last row that is kept of each episode is its end.
    number = np.concatenate([[0], np.cumsum(ended)[:-1]])[keep]
    if not keep.any():
        raise ForageError(f"{path} holds only episodes of one row, from which no next observation can be told.")
    last = np.append(np.diff(number) != 0, True)
    terminated = terminated[keep]
    probability = rows.behaviour_probability
    if probability is not None:
        probability = numbers(path, "behaviour_probability", probability)[keep]
    try:
        found = Transitions(
            observation[keep],
            action[keep],
            reward[keep, 0],
            following[keep],
            terminated,
            last & ~terminated,
            probability,
        )
    except ForageError as error:
        raise ForageError(f"{path} is not a data set to learn from: {error}") from error
    return found, int(count - keep.sum())


def count_rows(path: Path, actions: Any, arrays: Mapping[str, Any]) -> int:
    """Return how many rows the arrays of a file have. Raise `ForageError` where they differ, or there are none."""
    for name, array in arrays.items():
        if np.ndim(array) == 0:
            raise ForageError(f"{path} has one value as its {name}; it is an array with a row for each step.")
    count = len(actions)
    if count == 0:
        raise ForageError(f"{path} is empty: it has no rows.")
    for name, array in arrays.items():
        if len(array) != count:
            raise ForageError(f"{path} has {count:,} actions and {len(array):,} rows of {name}; it is not whole.")
    return count


def expand(flags: Bool[np.ndarray, " row"], like: np.ndarray) -> np.ndarray:
    """Return flags with as many axes as an array has."""
    return flags.reshape(-1, *(1,) * (like.ndim - 1))


def ends(path: Path, rows: Rows, reading: Reading, count: int, label: Label = row) -> tuple[np.ndarray, np.ndarray]:
    """Return where the task was over and where only time ran out. Raise `ForageError` where that cannot be told."""
    said = reading.ends
    terminated = None if rows.terminated is None else flags(path, "terminated", rows.terminated, label)
    truncated = None if rows.truncated is None else flags(path, "truncated", rows.truncated, label)
    ended = None if rows.ended is None else flags(path, "ended", rows.ended, label)
    none = np.zeros(count, bool)
    if terminated is not None and ended is not None:
        return terminated, (ended | (none if truncated is None else truncated)) & ~terminated
    if terminated is not None and truncated is not None:
        return terminated, truncated & ~terminated
    options = "--ends terminated, --ends truncated or --ends N (episodes of N steps ran out of time)"
    if terminated is not None:
        if said is None:
            raise ForageError(
                f"{path} says where the task was over and not where time ran out, so an end cannot be told; say "
                f"{options}."
            )
        if said == TRUNCATED:
            raise ForageError(
                f"{path} marks rows as terminated, and --ends truncated says that none is; say --ends terminated or "
                f"--ends N."
            )
        return terminated, none if said == TERMINATED else after(terminated, int(said)) & ~terminated
    if ended is not None:
        late = none if truncated is None else truncated
        ended = ended | late
        if said is None and (ended & ~late).any():
            known = "episodes end and not why" if truncated is None else "time ran out and not why other episodes end"
            raise ForageError(f"{path} says where {known}; say {options}.")
        if said == TRUNCATED:
            return none, ended
        if said not in (None, TERMINATED):
            last = np.flatnonzero(ended)
            late[last[np.diff(last, prepend=-1) >= int(said)]] = True
        return ended & ~late, late
    if truncated is not None:
        if said != TRUNCATED:
            raise ForageError(
                f"{path} says where time ran out and not where the task was over (terminals are missing); if it never "
                f"was, say --ends truncated."
            )
        return none, truncated
    raise ForageError(f"{path} does not say where episodes end: terminals are missing.")


def after(terminated: np.ndarray, steps: int) -> np.ndarray:
    """Return where time runs out, so many steps after an episode began."""
    result, begun = np.zeros(len(terminated), bool), 0
    for end in (*np.flatnonzero(terminated), len(terminated) - 1):
        result[begun + steps - 1 : end + 1 : steps] = True
        begun = int(end) + 1
    return result


def flags(path: Path, name: str, array: Any, label: Label = row) -> np.ndarray:
    """Return an array of yes and no. Raise `ForageError` where something else stands."""
    array = numbers(path, name, array).reshape(len(array), -1)
    if array.shape[1] != 1 or not np.isin(array, (0, 1)).all():
        bad = int((~np.isin(array, (0, 1)).all(1)).argmax())
        raise ForageError(f"{path}: {name} is 0 or 1 in each row, and {label(bad)} has {array[bad].tolist()}.")
    return array[:, 0].astype(bool)


def fitted(path: Path, name: str, array: Any, space: Any, spec: Spec, label: Label) -> np.ndarray:
    """Return an array in the shape and dtype of a space. Raise `ForageError` where it does not fit."""
    if hasattr(space, "spaces"):
        raise ForageError(
            f"{path} holds one array of {name}s, and {spec.name} has a dictionary of them; use a Minari data set or "
            f"one that forage data record wrote."
        )
    array, like = numbers(path, name, array), np.asarray(spaces.example(space))
    if int(np.prod(array.shape[1:])) != like.size:
        raise ForageError(
            f"{path} has {name}s of shape {array.shape[1:]}, and {spec.name} has {like.shape}; use a data set of "
            f"{spec.name}."
        )
    array = array.reshape(len(array), *like.shape)
    check_finite(path, name, array, label)
    if like.dtype.kind in "iub" and array.dtype.kind == "f" and (wrong := off(array != np.round(array))).any():
        bad = int(wrong.argmax())
        raise ForageError(f"{path}: {label(bad)} has {name} {array[bad].tolist()}, which is no whole number.")
    # Simulators exceed the bounds of float observations. Whole numbers are checked before the cast, which wraps them.
    if like.dtype.kind in "iub" or name == "action":
        check_bounds(path, name, array, space, spec.name, label)
    return array.astype(like.dtype)


def numbers(path: Path, name: str, array: Any) -> np.ndarray:
    """Return an array. Raise `ForageError` where it does not hold numbers."""
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        raise ForageError(f"{path}: {name} holds {array.dtype}, which are no numbers.")
    return array


def check_finite(path: Path, name: str, array: np.ndarray, label: Label) -> None:
    """Raise `ForageError` for the first row with a number that is not finite."""
    if array.dtype.kind == "f" and (wrong := off(~np.isfinite(array))).any():
        bad = int(wrong.argmax())
        raise ForageError(f"{path}: {name} is not finite in {label(bad)}, the first of {wrong.sum():,} such.")


def spec_json(spec: Spec) -> dict[str, Any]:
    """Return what a data set's header says of its environment."""
    return json.loads(
        json.dumps({
            "name": spec.name,
            "observation_space": spaces.to_json(spec.observation_space),
            "action_space": spaces.to_json(spec.action_space),
            "reward_names": list(spec.reward_names),
            "num_agents": spec.num_agents,
            "horizon": None if spec.horizon is None else int(spec.horizon),
            "info_names": list(spec.info_names),
        })
    )  # fmt: skip
