"""The conversion of arrays of rows, as others write them, to whole episodes with separate terminations and time limits.

    observation o_t, action a_t, reward r_t, and the ends of episodes    [row, ...]

Where a file has no next observations, that of a row is the next row's observation. A row that terminates keeps its own:
no value is bootstrapped from there, but methods that learn what follows an action (the inverse model of `label`, guided
flows, the classifiers of `h2o`) see a step that stays in place. A row at which time ran out has none, so it is left out
and the row before it counts as truncated, as D4RL's `qlearning_dataset` does (d4rl/__init__.py of its repository).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from forage.core import spaces, specs
from forage.core.errors import nearest
from forage.core.plain import dumps
from forage.core.types import ForageError, Spec
from forage.data.episodes import are_whole
from forage.data.files import Label, check_bounds, fault_mask, row_name
from forage.data.formats.order import RowLabels, order_rows
from forage.data.formats.reading import TERMINATED, TRUNCATED, Reading
from forage.data.logged import Transitions

MOST_LOST = 0.01  # share of the rows that may be left out without a word


class FlatRows(NamedTuple):
    """The contents of a file, row by row. `None`: the file lacks it."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray | None  # the task was over
    truncated: np.ndarray | None  # time ran out
    ended: np.ndarray | None = None  # an episode's last row, for whatever reason
    next_observation: np.ndarray | None = None
    behaviour_probability: np.ndarray | None = None
    cut: np.ndarray | None = None  # an episode's last row, of one that was not recorded as a whole
    start: np.ndarray | None = None  # an episode's first row, where the recording has it from its start
    unfollowed: bool = False  # the layout itself has no next observation where time ran out
    counted: bool = False  # observations and actions are columns of a table, which have no shape but a number

    def at(self, rows: np.ndarray) -> FlatRows:
        """Return the rows with these numbers."""
        taken: dict[str, Any] = {name: array[rows] for name, array in self.arrays().items()}
        return self._replace(**taken)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the file by name."""
        return {name: array for name, array in self._asdict().items() if name not in PLAIN and array is not None}


PLAIN = ("unfollowed", "counted")  # what `FlatRows` holds beside arrays


def arrange_rows(
    path: Path,
    rows: FlatRows,
    spec: Spec,
    label: Label,
    episode: Sequence[np.ndarray] = (),
    time: np.ndarray | None = None,
) -> tuple[FlatRows, Label]:
    """Return the rows by episode and time, and their names in messages, if columns identify either of these."""
    if not episode and time is None:
        return rows, label
    count = count_rows(path, rows.action, rows.arrays() | {f"episode {i}": array for i, array in enumerate(episode)})
    said = [
        (name, array) for name in ("terminated", "truncated", "ended") if (array := getattr(rows, name)) is not None
    ]
    last = np.zeros(count, bool)
    for name, array in said:
        last |= flags(path, name, array, label)
    after = rows.next_observation

    def continues(before: np.ndarray, following: np.ndarray) -> np.ndarray:
        assert after is not None
        return ~fault_mask(after[before] != rows.observation[following])

    told = RowLabels(episode, time, last, None if after is None else continues, spec.horizon)
    order = order_rows(path, told, label)
    places = order.rows
    return rows.at(places)._replace(ended=order.ended), lambda number: label(int(places[number]))


def transitions(
    path: Path, rows: FlatRows, reading: Reading, spec: Spec, label: Label = row_name
) -> tuple[Transitions, int]:
    """Return the whole episodes of rows, and the number of rows left out. Raise `ForageError` at the first bad row."""
    count = count_rows(path, rows.action, rows.arrays())

    def fit(name: str, array: np.ndarray, space: Any) -> np.ndarray:
        return fit_to_space(path, name, array, space, spec, label, rows.counted)

    observation = fit("observation", rows.observation, spec.observation_space)
    following = rows.next_observation
    if following is not None:
        following = fit("next_observation", following, spec.observation_space)
    action = fit("action", rows.action, spec.action_space)
    reward = check_numbers(path, "reward", rows.reward).astype(np.float64).reshape(count, -1)
    if reward.shape[1] != 1:
        raise ForageError(f"{path} has {reward.shape[1]} rewards in each row, and a data set has one.")
    check_finite(path, "reward", reward, label)

    terminated, truncated = ends(path, rows, reading, count, label)
    ended = terminated | truncated
    marked = ended.copy()
    ended[-1] = True  # the recording stopped here
    cut = episodes_cut(rows, terminated, ended, marked, spec.horizon)
    keep = np.ones(count, bool)
    if following is None:
        following = np.where(expand(ended, observation), observation, np.roll(observation, -1, 0))
        keep = ~(ended & ~terminated)
    # The last row that is kept of each episode is its end.
    number = np.concatenate([[0], np.cumsum(ended)[:-1]])
    if not keep.any():
        raise ForageError(f"{path} holds only episodes of one row, from which no next observation can be told.")
    check_loss(path, rows, number, keep, reading.lossy)
    number = number[keep]
    last = np.append(np.diff(number) != 0, True)
    terminated = terminated[keep]
    probability = rows.behaviour_probability
    if probability is not None:
        probability = check_numbers(path, "behaviour_probability", probability)[keep]
    try:
        found = Transitions(
            observation[keep],
            action[keep],
            reward[keep, 0],
            following[keep],
            terminated,
            last & ~terminated,
            probability,
            start=None if rows.start is None else np.asarray(rows.start, bool).reshape(-1)[keep],
        )
    except ForageError as error:
        raise ForageError(f"{path} is not a data set to learn from: {error}") from error
    cut = cut[np.unique(number)]
    if (cut == found.whole(spec.horizon)).any():  # the time limit alone would tell otherwise
        found = found.saying_cut(spec.horizon, cut)
    return found, int(count - keep.sum())


def episodes_cut(
    rows: FlatRows,
    terminated: Bool[np.ndarray, " row"],
    ended: Bool[np.ndarray, " row"],
    marked: Bool[np.ndarray, " row"],
    horizon: int | None,
) -> Bool[np.ndarray, " episode"]:
    """Return the mask of episodes cut by the recording, from all of their rows, even those left out later.

    `marked`: rows that the file marks as ends, which decide if no time limit is known.
    """
    last = np.flatnonzero(ended)
    if rows.cut is not None:
        return np.asarray(rows.cut, bool).reshape(-1)[last]
    if horizon is None:
        return ~marked[last]
    return ~are_whole(terminated[last], np.diff(last, prepend=-1), horizon)


def check_loss(
    path: Path, rows: FlatRows, number: Int[np.ndarray, " row"], keep: Bool[np.ndarray, " row"], lossy: bool
) -> None:
    """Raise `ForageError` if too many rows are left out, unless that was allowed.

    `number`: the episode of each row. More than one row in a hundred is too much, not counting the last row of an
    episode that ran out of time in a layout that never has its successor.
    """
    lost = ~keep
    alone = np.bincount(number)[number] == 1
    if rows.unfollowed and rows.truncated is not None:
        lost = lost & (alone | ~np.asarray(rows.truncated, bool).reshape(-1))
    count = int(lost.sum())
    if lossy or count <= max(1, MOST_LOST * len(keep)):
        return
    single = int((lost & alone).sum())
    more = f", {single:,} of them all that there is of an episode" if single else ""
    raise ForageError(
        f"{path}: {count:,} of {len(keep):,} rows ({count / len(keep):.1%}) would be left out{more}: they end an "
        f"episode without terminating, and nothing says what they led to; name columns of the next observation, or "
        f"what tells episodes and their order (--episode, --time), or say --lossy to leave these rows out."
    )


def named_arrays(path: Path, reading: Reading, there: Any) -> tuple[str, ...]:
    """Return the names of the file's arrays of episodes and times. Raise `ForageError` if one is missing."""
    names = (*reading.episode, *filter(None, [reading.time]))
    for name in names:
        if name not in there:
            raise ForageError(f"{path} has no array {name!r}{nearest(name, list(there))}")
    return names


def count_rows(path: Path, actions: Any, arrays: Mapping[str, Any]) -> int:
    """Return the number of rows in the arrays of a file. Raise `ForageError` if they differ, or there are none."""
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


def ends(
    path: Path, rows: FlatRows, reading: Reading, count: int, label: Label = row_name
) -> tuple[np.ndarray, np.ndarray]:
    """Return the masks of terminated rows and of time limits. Raise `ForageError` if they cannot be determined."""
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
        return terminated, none if said == TERMINATED else time_limit_mask(terminated, int(said)) & ~terminated
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


def time_limit_mask(terminated: np.ndarray, steps: int) -> np.ndarray:
    """Return the mask of rows at the time limit, every `steps` steps from the start of an episode."""
    result, begun = np.zeros(len(terminated), bool), 0
    for end in (*np.flatnonzero(terminated), len(terminated) - 1):
        result[begun + steps - 1 : end + 1 : steps] = True
        begun = int(end) + 1
    return result


def flags(path: Path, name: str, array: Any, label: Label = row_name) -> np.ndarray:
    """Return an array of truth values. Raise `ForageError` for any value but 0 and 1."""
    array = check_numbers(path, name, array).reshape(len(array), -1)
    if array.shape[1] != 1 or not np.isin(array, (0, 1)).all():
        bad = int((~np.isin(array, (0, 1)).all(1)).argmax())
        raise ForageError(f"{path}: {name} is 0 or 1 in each row, and {label(bad)} has {array[bad].tolist()}.")
    return array[:, 0].astype(bool)


def fit_to_space(
    path: Path, name: str, array: Any, space: Any, spec: Spec, label: Label, counted: bool = False
) -> np.ndarray:
    """Return an array in the shape and dtype of a space. Raise `ForageError` if it does not fit.

    Shapes have to agree but for axes of length 1, as the order of the numbers is then the same; a picture whose
    channels stand at its other end is turned. Columns of a table are `counted`: they are the numbers of a row in order.
    """
    if hasattr(space, "spaces"):
        raise ForageError(
            f"{path} holds one array of {name}s, and {spec.name} has a dictionary of them; use a Minari data set or "
            f"one that forage data record wrote."
        )
    array, like = check_numbers(path, name, array), np.asarray(spaces.example(space))
    shape = array.shape[1:]
    if counted and len(shape) == 1:
        fits = shape[0] == like.size
    else:
        array = match_channels(array, like.shape) if name != "action" else array
        fits = long_axes(array.shape[1:]) == long_axes(like.shape)
    if not fits:
        raise ForageError(
            f"{path} has {name}s of shape {shape}, and {spec.name} has {like.shape}; use a data set of {spec.name}."
        )
    array = array.reshape(len(array), *like.shape)
    check_finite(path, name, array, label)
    if like.dtype.kind in "iub" and array.dtype.kind == "f" and (wrong := fault_mask(array != np.round(array))).any():
        bad = int(wrong.argmax())
        raise ForageError(f"{path}: {label(bad)} has {name} {array[bad].tolist()}, which is no whole number.")
    # Simulators exceed the bounds of float observations. Whole numbers are checked before the cast, which wraps them.
    if like.dtype.kind in "iub" or name == "action":
        check_bounds(path, name, array, space, spec.name, label)
    return array.astype(like.dtype)


def long_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without its axes of length 1, as those do not change the order of the numbers."""
    return tuple(size for size in shape if size != 1)


def match_channels(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return pictures with the channels first or last, as in a space; return others unchanged."""
    have = array.shape[1:]
    if len(have) == len(shape) == 3 and have != shape:
        if (*have[1:], have[0]) == shape and have[0] < min(have[1:]):
            return np.moveaxis(array, 1, -1)
        if (have[2], *have[:2]) == shape and have[2] < min(have[:2]):
            return np.moveaxis(array, -1, 1)
    return array


def check_numbers(path: Path, name: str, array: Any) -> np.ndarray:
    """Return an array. Raise `ForageError` if it does not hold numbers."""
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        raise ForageError(f"{path}: {name} holds {array.dtype}, which are no numbers.")
    return array


def check_finite(path: Path, name: str, array: np.ndarray, label: Label) -> None:
    """Raise `ForageError` for the first row with a number that is not finite."""
    if array.dtype.kind == "f" and (wrong := fault_mask(~np.isfinite(array))).any():
        bad = int(wrong.argmax())
        raise ForageError(f"{path}: {name} is not finite in {label(bad)}, the first of {wrong.sum():,} such.")


def spec_json(spec: Spec) -> dict[str, Any]:
    """Return the description of the environment in a data set's header."""
    return json.loads(dumps(specs.spec_to_json(spec)))
