"""Minari data sets: a folder with `metadata.json` and HDF5 or Arrow, read and written by the package itself.

An episode has one observation more than it has actions, so what a step led to is there also where the episode ends.
Terminations and truncations are apart. What Minari has no place for (the header of a data set here) stands in
`metadata.json` under `forage`, probabilities of actions in `infos/behaviour_probability`, and `infos/cut` marks the
episodes that were not recorded as a whole.

Source: Younis and others, 2024, "Minari", Farama Foundation, https://minari.farama.org.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

from forage.core import spaces
from forage.core.arrays import ActionNesting, action_space, array_space, as_actions, rows_as_arrays, travelling
from forage.core.errors import nearest
from forage.core.plain import dumps
from forage.core.types import ForageError, Spec
from forage.data.formats import flat, package
from forage.data.formats.reading import Reading
from forage.data.logged import OPTIONAL_FIELDS, Transitions


def folder_of(path: Path) -> Path | None:
    """Return the folder with Minari's metadata, either `path` or its `data`."""
    return next((at for at in (path, path / "data") if (at / "metadata.json").is_file()), None)


def read_data(path: Path, spec: Spec | None, reading: Reading) -> tuple[Transitions, dict[str, Any]]:
    """Read a data set. Its spaces are its own; a given `spec` must have the same."""
    storage = package("minari.dataset.minari_storage", "Minari data sets", "minari").MinariStorage
    at = folder_of(path)
    assert at is not None
    try:
        found = storage.read(at)
        metadata = storage.read_raw_metadata(at)
        episodes = list(found.get_episodes(range(found.total_episodes)))
    except Exception as error:  # what damaged files make h5py, pyarrow, json and minari raise has no common type
        raise ForageError(f"{path} is not a whole Minari data set ({type(error).__name__}: {error}).") from error
    if not episodes:
        raise ForageError(f"{path} is empty: it has no episodes.")
    own = json.loads(metadata["forage"]) if "forage" in metadata else {}
    name = str(metadata.get("dataset_id", path.name))
    if own:
        shown, acted, take = found.observation_space, found.action_space, episode_arrays
        if isinstance(acted, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):  # `MixedSpace`, as Minari has it
            nested, acted = acted, action_space(name, acted)
            take = functools.partial(flatten_actions, nested)
    else:
        shown = array_space(name, drop_parts(path, found.observation_space, reading.without), option="--without")
        acted, take = (
            action_space(name, found.action_space),
            functools.partial(convert_episode, path, found, reading.without),
        )
    known = spec or Spec(name, travelling(shown), acted)
    if not own:
        check_spaces(path, shown, acted, known)
    header = own or {"spec": flat.spec_json(known), "left_out": 0}
    parts, first, cut = [], 0, np.zeros(len(episodes), bool)
    for number, episode in enumerate(episodes):
        parts.append(fields(path, number, first, take(episode)))
        first += len(episode["rewards"])
        cut[number] = not (episode["terminations"][-1] or episode["truncations"][-1])
    joined = jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)
    lengths = [len(part["reward"]) for part in parts]
    try:
        data = Transitions(**joined, episode=np.repeat(np.arange(len(parts)), lengths))
        # Without a time limit only the marks tell which episodes the recording cut.
        unknown = data.cut is None and header["spec"].get("horizon") is None
        return data.saying_cut(None, cut) if unknown and cut.any() else data, header
    except ForageError as error:
        raise ForageError(f"{path} is not a data set to learn from: {error}") from error


def fields(path: Path, number: int, first: int, episode: Mapping[str, Any]) -> dict[str, Any]:
    """Return one episode's arrays. A last row that neither terminates nor truncates was cut by the recording."""
    count = len(episode["rewards"])
    if count == 0:
        raise ForageError(f"{path}: episode {number} is empty.")
    for name in ("observations", "actions"):
        for leaf in jax.tree.leaves(episode[name]):
            if len(leaf) != count + (name == "observations"):
                raise ForageError(
                    f"{path}: episode {number} has {count} rewards and {len(leaf)} {name}; it is not whole."
                )
    terminated = np.asarray(episode["terminations"], bool)
    truncated = np.asarray(episode["truncations"], bool) & ~terminated
    if (terminated | truncated)[:-1].any():
        bad = int((terminated | truncated)[:-1].argmax())
        raise ForageError(f"{path}: episode {number} goes on after its end in row {first + bad}.")
    truncated[-1] |= not terminated[-1]
    infos = episode.get("infos") or {}
    probability = infos.get("behaviour_probability")
    marks = {name: np.asarray(infos[name], bool) for name in ("cut", "start") if infos.get(name) is not None}
    return {
        "observation": jax.tree.map(lambda x: np.asarray(x)[:-1], episode["observations"]),
        "next_observation": jax.tree.map(lambda x: np.asarray(x)[1:], episode["observations"]),
        "action": np.asarray(episode["actions"]),
        "reward": np.asarray(episode["rewards"], np.float64),
        "terminated": terminated,
        "truncated": truncated,
        **({} if probability is None else {"behaviour_probability": np.asarray(probability, np.float64)}),
        **marks,
    }


def episode_arrays(episode: Any) -> dict[str, Any]:
    """Return an episode's arrays as they are, by name."""
    names = ("observations", "actions", "rewards", "terminations", "truncations", "infos")
    return {name: getattr(episode, name) for name in names} if not isinstance(episode, Mapping) else dict(episode)


def flatten_actions(space: Any, episode: Any) -> dict[str, Any]:
    """Return an episode's arrays as they are, with actions as agents have them."""
    arrays = episode_arrays(episode)
    return arrays | {"actions": as_actions(space, arrays["actions"], len(arrays["rewards"]))}


def convert_episode(path: Path, found: Any, without: Sequence[str], episode: Any) -> dict[str, Any]:
    """Return an episode's arrays as environments of such spaces show them: texts as tokens, a tuple as a dictionary."""
    arrays = episode_arrays(episode)
    seen, space = arrays["observations"], drop_parts(path, found.observation_space, without)
    try:
        return arrays | {
            "observations": rows_as_arrays(space, seen),
            "actions": as_actions(found.action_space, arrays["actions"], len(arrays["rewards"])),
        }
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ForageError(f"{path}: an episode is not in the spaces that its metadata names ({error}).") from error


def drop_parts(path: Path, space: Any, without: Sequence[str]) -> Any:
    """Return a space of observations without some of its parts, each a name or names joined by dots."""
    for name in without:
        first, _, rest = name.partition(".")
        parts = dict(space.spaces) if isinstance(space, gymnasium.spaces.Dict) else {}
        if first not in parts:
            raise ForageError(f"{path} has observations without a part {first!r}{nearest(first, list(parts))}")
        if rest:
            parts[first] = drop_parts(path, parts[first], [rest])
        else:
            del parts[first]
        if not parts:
            raise ForageError(f"{path} would have nothing left to observe without {name}.")
        space = gymnasium.spaces.Dict(parts)
    return space


def check_spaces(path: Path, observation_space: Any, action_space: Any, spec: Spec) -> None:
    """Raise `ForageError` if spaces are of another kind or shape. Bounds may differ: actions are looked at."""
    found = {"observation_space": observation_space, "action_space": action_space}
    for what, theirs in found.items():
        ours = getattr(spec, what)
        kinds = [jax.tree.map(lambda x: (x.shape, x.dtype.kind), shape_of(space)) for space in (theirs, ours)]
        if kinds[0] != kinds[1]:
            kind = what.partition("_")[0]
            raise ForageError(
                f"{path} has {kind}s that are {spaces.describe_space(theirs)}, and {spec.name} has "
                f"{spaces.describe_space(ours)}; "
                f"use a data set of {spec.name}."
            )


def shape_of(space: Any) -> Any:
    """Return a point of a space that Forage knows."""
    try:
        return spaces.example(space)
    except (NotImplementedError, TypeError) as error:
        raise ForageError(spaces.unknown_space(space)) from error


def write_data(path: Path, data: Transitions, header: Mapping[str, Any]) -> None:
    """Write a new folder, whole or not at all. Arrays are written as they are, without JPEG."""
    storage = package("minari.dataset.minari_storage", "Minari data sets", "minari").MinariStorage
    package("h5py", "Minari data sets")
    buffer = package("minari.data_collector.episode_buffer", "Minari data sets", "minari").EpisodeBuffer
    spec = header["spec"]
    observation_space, action_space = (spaces.from_json(spec[name]) for name in ("observation_space", "action_space"))
    starts = [*data.first.tolist(), data.transitions]
    act: Any = lambda rows: rows  # noqa: E731
    if isinstance(action_space, spaces.MixedSpace):
        act, action_space = ActionNesting(action_space, action_space.nested), action_space.nested

    def episode(number: int) -> Any:
        rows = slice(starts[number], starts[number + 1])

        def append_last(now: np.ndarray, after: np.ndarray) -> np.ndarray:
            now, after = now[rows], after[rows]
            if not np.array_equal(now[1:], after[:-1]):
                bad = starts[number] + int(flat.fault_mask(now[1:] != after[:-1]).argmax())
                raise ForageError(
                    f"Minari keeps each observation once, and row {bad} leads to another observation than the next row "
                    f"has; leave that episode out, or write another format."
                )
            return np.concatenate([now, after[-1:]])

        infos = {name: array[rows] for name in OPTIONAL_FIELDS if (array := getattr(data, name)) is not None}
        return buffer(
            observations=jax.tree.map(append_last, data.observation, data.next_observation),
            actions=act(data.action[rows]),  # pyrefly: ignore[bad-argument-type]
            rewards=data.reward[rows],  # pyrefly: ignore[bad-argument-type]
            terminations=data.terminated[rows],  # pyrefly: ignore[bad-argument-type]
            truncations=data.truncated[rows],  # pyrefly: ignore[bad-argument-type]
            infos=infos or None,
        )

    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        (temporary / "data").mkdir(parents=True)
        store = storage.new(temporary / "data", observation_space, action_space, jpeg_encoding=False)
        store.update_episodes(episode(number) for number in range(data.episodes))
        name = re.sub(r"-v\d+$", "", re.sub(r"[^A-Za-z0-9]+", "-", spec["name"]).strip("-"))
        store.update_metadata({
            "dataset_id": f"forage/{name}-v0",
            "minari_version": package("minari", "Minari data sets").__version__,
            "forage": dumps(dict(header)),
        })  # fmt: skip
        os.replace(temporary, path)
    except OSError as error:
        raise ForageError(f"Could not save {path}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
