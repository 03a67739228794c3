"""Data sets on disk: transitions as named arrays in a NumPy archive (.npz), with a header in JSON. No pickle.

    observation, next_observation   [transition, ...]; the parts of a dictionary are `observation/NAME`
    action, reward                  [transition, ...], [transition]
    terminated, truncated           [transition]; an episode's last transition is one of them
    episode                         [transition], 0 0 0 1 1 ...
    behaviour_probability           [transition], where it is known
    cut                             [transition], true at the end of an episode that was not recorded as a whole
    start                           [transition], true at the first of an episode; false behind a gap of the recording
    header                          the JSON text: `format`, `spec`, and what else the writer says

`numpy.load(FILE)` reads all of it, and `json.loads(str(archive["header"]))` the header.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from forage.core import spaces
from forage.core.errors import did_you_mean
from forage.core.plain import dumps
from forage.core.storage import archives
from forage.core.types import ForageError, Spec
from forage.data.logged import EPISODE_FIELDS, OPTIONAL_FIELDS, Transitions

if TYPE_CHECKING:
    from jaxtyping import PyTree

FORMAT = "forage-data-1"
TABLES = (".csv", ".tsv", ".parquet")
MOST_SHOWN = 16  # numbers of a row in a message
Label = Callable[[int], str]


def row_name(number: int) -> str:
    """Return a row's name in messages."""
    return f"row {number}"


def no_reward_words(count: int) -> str:
    """Describe the episodes without a reward that a data set leaves out; empty if there are none."""
    return f"; {count:,} episode{'s' if count > 1 else ''} without a reward left out" if count else ""


def check_recordable(spec: Spec) -> None:
    """Raise `ForageError` if a data set cannot hold the transitions of an environment."""
    if spec.reward_names:
        raise ForageError(
            f"{spec.name} has several rewards ({', '.join(spec.reward_names)}), and a data set has one number for each "
            f"transition; make one of them in the environment."
        )
    if spec.num_agents > 1:
        raise ForageError(f"{spec.name} has {spec.num_agents} agents, and a data set is of one; use one agent.")


def write_data(path: Path, transitions: Transitions, header: Mapping[str, Any]) -> None:
    """Write a data set: `path` holds the old file or the new one, never half."""
    head = {"header": np.array(dumps({"format": FORMAT, **header}))}
    arrays = head | arrays_of(transitions)
    archives.write_atomically(path, lambda file: np.savez_compressed(file, **arrays))  # pyrefly: ignore[bad-argument-type]


def arrays_of(transitions: Transitions) -> dict[str, np.ndarray]:
    """Return the arrays of a data set by the names that they have in files."""
    arrays: dict[str, np.ndarray] = {}
    for name in (*EPISODE_FIELDS, "episode", *OPTIONAL_FIELDS):
        if (value := getattr(transitions, name)) is not None:
            arrays |= name_leaves(name, value)
    return arrays


def transitions_of(path: Path, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> Transitions:
    """Return the data set with these arrays, named as in files. Raise `ForageError` if it is none."""
    try:
        space = spaces.from_json(header["spec"]["observation_space"])
        fields = {name: arrays[name] for name in EPISODE_FIELDS if "observation" not in name}
        for name in ("observation", "next_observation"):
            fields[name] = tree_of(name, space, arrays)
        more = {name: arrays.get(name) for name in ("episode", *OPTIONAL_FIELDS)}
        return Transitions(**fields, **more)  # pyrefly: ignore[bad-argument-type]
    except ForageError as error:
        raise ForageError(f"{path} is not a data set to learn from: {error}") from error
    except (KeyError, TypeError) as error:  # what a header of another kind lacks
        raise ForageError(f"{path} is not a whole data set ({type(error).__name__}: {error}).") from error


def name_leaves(name: str, tree: PyTree[np.ndarray]) -> dict[str, np.ndarray]:
    """Name the leaves of nested dictionaries by their path."""
    if not isinstance(tree, Mapping):
        return {name: np.asarray(tree)}
    return {at: leaf for key, inner in tree.items() for at, leaf in name_leaves(f"{name}/{key}", inner).items()}


def read_data(path: Path) -> tuple[Transitions, dict[str, Any]]:
    """Read a data set and its header. Raise `ForageError` if the file is missing, damaged or of another kind."""
    try:
        with archives.open_archive(path) as archive:
            header = read_text(path, archive)
            known = {name: archive[name] for name in archive.files if name != "header"}  # each checked by its CRC
    except FileNotFoundError:
        raise ForageError(missing(path)) from None
    except ForageError:
        raise
    except Exception as error:  # what damaged bytes make NumPy, zipfile and json raise has no common type
        raise ForageError(
            f"{path} is not a whole data set; forage data record RUN --output FILE writes one."
        ) from error
    return transitions_of(path, known, header), header


def read_header(path: Path) -> dict[str, Any]:
    """Read a data set's header alone. Raise `ForageError` if the file is missing, damaged or of another kind."""
    if path.is_dir():
        inside = sorted(file.name for file in path.glob("*.npz"))
        raise ForageError(f"{path} is a folder; name one file" + (f", such as {inside[0]} in it." if inside else "."))
    try:
        with archives.open_archive(path) as archive:
            return read_text(path, archive)
    except FileNotFoundError:
        raise ForageError(missing(path)) from None
    except ForageError:
        raise
    except Exception as error:  # as in `read_data`
        raise ForageError(f"{path} is not a whole data set ({type(error).__name__}: {error}).") from error


def read_text(path: Path, archive: Any) -> dict[str, Any]:
    """Return the header of an open archive."""
    header = json.loads(str(archive["header"])) if "header" in archive.files else {}
    if header.get("format") != FORMAT:
        raise ForageError(f"{path} has no header of a data set ({FORMAT}); forage data record RUN writes one.")
    return header


def tree_of(name: str, space: Any, arrays: Mapping[str, np.ndarray]) -> PyTree[np.ndarray]:
    """Put arrays back into the nested dictionaries of a space."""
    if hasattr(space, "spaces"):
        return {key: tree_of(f"{name}/{key}", inner, arrays) for key, inner in space.spaces.items()}
    return arrays[name]


def check_fits(path: Path, header: Mapping[str, Any], transitions: Transitions, spec: Spec) -> None:
    """Raise `ForageError` if a data set has other spaces than an environment, or arrays that do not fit them."""
    check_data_spaces(path, header, spec)
    for name, space in (("observation", spec.observation_space), ("action", spec.action_space)):
        leaves = name_leaves(name, getattr(transitions, name))
        for at, inner in spaces.spaces_by_path(space).items():
            shape = leaves["/".join((name, *at))].shape[1:]
            if shape != (wanted := inner.shape or ()):
                raise ForageError(
                    f"{path} has {name}s of shape {shape}, and {spec.name} has {wanted}; write the file again."
                )
    check_bounds(path, "action", transitions.action, spec.action_space, spec.name)


def check_data_spaces(path: Path, header: Mapping[str, Any], spec: Spec) -> None:
    """Raise `ForageError` if a data set has other spaces than an environment."""
    check_recordable(spec)
    theirs = header["spec"]
    for what in ("observation_space", "action_space"):
        ours = json.loads(dumps(spaces.to_json(getattr(spec, what))))
        if without_integer_mark(theirs[what]) != without_integer_mark(ours):
            found = spaces.describe_space(spaces.from_json(theirs[what]))
            wanted = spaces.describe_space(getattr(spec, what))
            differ = f"{found}" if found != wanted else f"{found} with other bounds"
            kind = what.partition("_")[0]
            raise ForageError(
                f"{path} holds transitions of {theirs['name']}, whose {kind}s are {differ}, and {spec.name} has "
                f"{wanted}; use a data set of {spec.name}."
            )


def without_integer_mark(space: dict[str, Any]) -> dict[str, Any]:
    """Return a space without the mark for floats that are whole numbers, as older files lack it."""
    if space["kind"] == "dict":
        return space | {"spaces": {name: without_integer_mark(inner) for name, inner in space["spaces"].items()}}
    return {name: value for name, value in space.items() if name != "whole"}


def check_bounds(
    path: Path, name: str, array: np.ndarray, space: Any, environment: str, label: Label = row_name
) -> None:
    """Raise `ForageError` for the first row outside the bounds of a space, with a tolerance of single precision.

    `name`: the kind of rows, `action`, `observation` or `next_observation`.
    """
    if isinstance(space, gymnasium.spaces.Box | spaces.MixedSpace):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        slack = 1e-6 * np.maximum(1, np.abs(np.where(np.isfinite(high - low), high - low, 0)))
        slack = slack if np.dtype(space.dtype).kind == "f" else 0
    elif isinstance(space, gymnasium.spaces.Discrete):
        low, high, slack = space.start, space.start + space.n - 1, 0
    elif isinstance(space, gymnasium.spaces.MultiDiscrete):
        low, high, slack = space.start, space.start + space.nvec - 1, 0
    elif isinstance(space, gymnasium.spaces.MultiBinary):
        low, high, slack = 0, 1, 0
    else:
        return
    outside = np.asarray((array < low - slack) | (array > high + slack))
    if isinstance(space, spaces.MixedSpace):
        outside[:, : space.split] |= np.asarray(array)[:, : space.split] % 1 != 0
    if (wrong := fault_mask(outside)).any():
        bad = int(wrong.argmax())
        first = np.asarray(array[bad])
        if np.dtype(space.dtype).kind in "iu" and (first == np.round(first)).all():
            first = np.vectorize(int, otypes=[object])(first)  # 2, where a table has 2.0
        shown = first.tolist() if first.size <= MOST_SHOWN else f"with {first[outside[bad]][0]}"
        raise ForageError(
            f"{path}: {label(bad)} has the {name} {shown}, outside the bounds of {environment} "
            f"({spaces.describe_space(space)}), the first of {wrong.sum():,} such."
        )


def fault_mask(wrong: np.ndarray) -> np.ndarray:
    """Return the mask of rows with a fault."""
    return np.asarray(wrong.any(tuple(range(1, wrong.ndim))))


def missing(path: Path) -> str:
    """Return the sentence about a data set that is not there, with files of similar names for a table."""
    if path.suffix.lower() not in TABLES:
        return f"There is no data set {path}; forage data record RUN --output FILE writes one."
    there = [one.name for one in path.parent.glob("*") if one.suffix.lower() in TABLES]
    near = did_you_mean(str(path.with_name(name)) for name in difflib.get_close_matches(path.name, there, n=3))
    return f"There is no file {path}{near or '; give the path of a table that is there.'}"


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file. Raise `ForageError` if there is none."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise ForageError(missing(path)) from None
    except OSError as error:
        raise ForageError(f"{path} cannot be read: {error.strerror or error}.") from error
