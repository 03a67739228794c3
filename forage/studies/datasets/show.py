"""The description of a data set: returns, lengths, coverage of its spaces, and faults.

Files that are unfit for learning are described too: each fault is a sentence with the first row that has it.
"""

from __future__ import annotations

import base64
import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from forage.core import spaces
from forage.core.arrays import ActionNesting
from forage.core.errors import ForageError
from forage.core.storage import archives
from forage.data import files
from forage.data.episodes import are_whole
from forage.evaluation.plots import sparkline
from forage.studies.datasets.manifest import histogram, normalise_return
from forage.studies.datasets.picture import draw_data
from forage.studies.report.page import HERE, escape, html_table, section

CELLS = 20  # that the range of an entry is divided into, to say how much of it the data covers
MOST_ENTRIES = 64  # of an observation that are shown one by one
Leaves = dict[str, tuple[np.ndarray, gymnasium.Space[Any]]]


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault: a sentence, the number of rows that have it and the first one; no row if it concerns the whole file."""

    what: str
    rows: int = 0
    first: int | None = None

    def __str__(self) -> str:
        return self.what if self.first is None else f"{self.what} in {self.rows:,} rows, first in row {self.first}"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One number of an observation or an action: its range in the data, and the share of cells that the data visits."""

    name: str
    low: float
    mean: float
    high: float
    covered: float
    at_bounds: float | None = None  # the share of rows that lie at a bound of the space


@dataclasses.dataclass(frozen=True)
class DatasetDescription:
    """The description of a data set, as `forage data show` prints it."""

    file: str
    header: dict[str, Any]
    transitions: int
    returns: np.ndarray  # of the whole episodes
    lengths: np.ndarray  # of all episodes
    truncated: int  # episodes that end in a truncation
    cut: int  # episodes that are not whole: without an end, or truncated before the environment's time limit
    observations: list[Entry]
    actions: list[Entry]
    different: int  # observations that are not equal to another one
    faults: list[Fault]
    page: str | None = None
    picture: str | None = None

    @property
    def ends(self) -> dict[str, float] | None:
        return self.header.get("ends")

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        some = len(self.returns) > 0
        mean = float(self.returns.mean()) if some else None
        return {
            "file": self.file,
            "environment": self.header["spec"]["name"],
            "tier": self.header.get("tier"),
            "transitions": self.transitions,
            "episodes": len(self.lengths),
            "truncated": self.truncated,
            "cut": self.cut,
            "no_reward": self.header.get("no_reward", 0),
            "mean_return": mean,
            "normalised": None if mean is None or not self.ends else normalise_return(mean, self.ends),
            "returns": histogram(self.returns.tolist()),
            "quartiles": np.percentile(self.returns, [0, 25, 50, 75, 100]).tolist() if some else [],
            "lengths": {
                "least": int(self.lengths.min()),
                "mean": float(self.lengths.mean()),
                "most": int(self.lengths.max()),
            },
            "observations": [dataclasses.asdict(entry) for entry in self.observations],
            "actions": [dataclasses.asdict(entry) for entry in self.actions],
            "different_observations": self.different,
            "faults": [{"what": fault.what, "rows": fault.rows, "first": fault.first} for fault in self.faults],
            "page": self.page,
        }

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the summary for a terminal."""
        tier = f", {self.header['tier']}" if self.header.get("tier") else ""
        said = [f"{self.file}: {self.transitions:,} transitions of {self.header['spec']['name']}{tier}"]
        cut = f"; {self.cut:,} are cut short, and their returns do not count" if self.cut else ""
        left = files.no_reward_words(self.header.get("no_reward", 0))
        said.append(f"  episodes   {len(self.lengths):,}, of which {self.truncated:,} end in a truncation{cut}{left}")
        if len(self.returns):
            low, first, middle, third, high = np.percentile(self.returns, [0, 25, 50, 75, 100])
            bars = sparkline(np.histogram(self.returns, 20)[0].tolist(), 20)
            said.append(
                f"  returns    {low:.5g} to {high:.5g}, median {middle:.5g} [{first:.5g}, {third:.5g}], mean "
                f"{self.returns.mean():.5g}  {bars}"
            )
            if self.ends:
                score = normalise_return(float(self.returns.mean()), self.ends)
                said.append(f"  normalised {score:.3f}, where random actions are 0 and the expert is 1")
        said.append(f"  lengths    {self.lengths.min():,} to {self.lengths.max():,}, mean {self.lengths.mean():.5g}")
        for name, entries in (("observed", self.observations), ("acted", self.actions)):
            if entries:
                covered = np.mean([entry.covered for entry in entries])
                said.append(f"  {name:<10} {covered:.0%} of the cells of {len(entries)} entries")
        said.append(f"  different  {self.different / self.transitions:.0%} of the observations")
        said += [f"  FAULT      {fault}" for fault in self.faults] or ["  faults     none"]
        if self.page:
            said.append(f"  page       {self.page}")
        return said


def show_data_set(file: str | os.PathLike[str], page: str | os.PathLike[str] | None = None) -> DatasetDescription:
    """Describe a data set, and write a page about it if a `page` (.html) is named.

    Raise `ForageError` if the file is missing, damaged or of another kind; other faults are among `faults`.
    """
    path = Path(file)
    if page is not None and Path(page).suffix != ".html":
        raise ForageError(f"A page is an .html file, and {Path(page).name} is none.")
    arrays, header, missing = load_arrays(path)
    spec = header["spec"]
    seen = leaves_of("observation", arrays, spaces.from_json(spec["observation_space"]))
    later = leaves_of("next_observation", arrays, spaces.from_json(spec["observation_space"]))
    acted = leaves_of("action", arrays, spaces.from_json(spec["action_space"]))
    count = len(arrays["reward"])
    check_lengths(path, count, arrays)
    faults = [Fault(f"there is no array {name}, so it counts as false everywhere") for name in missing]
    ended = episode_faults(arrays, seen, later, faults)
    for name, leaves in (("observation", seen), ("next_observation", later), ("action", acted)):
        for label, (array, space) in leaves.items():
            number_faults(label if len(leaves) > 1 else name, array, space, faults)
    number_faults("reward", arrays["reward"], None, faults)
    episode = np.concatenate([[0], np.cumsum(ended)[:-1]])
    returns, lengths = np.bincount(episode, np.asarray(arrays["reward"], float)), np.bincount(episode)
    last = np.cumsum(lengths) - 1
    cut = np.asarray(arrays["cut"], bool)[last] if "cut" in arrays else None
    whole = ended[last] & are_whole(arrays["terminated"][last], lengths, spec.get("horizon"), cut)
    returns = returns[whole & np.isfinite(returns)]
    rows = [np.asarray(array).reshape(count, -1) for array, _ in seen.values()]
    different = len(np.unique(np.concatenate([x.astype(np.float64) for x in rows], 1), axis=0))
    found = DatasetDescription(
        str(path),
        header,
        count,
        returns,
        lengths,
        int((arrays["truncated"] & ended).sum()),
        int((~whole).sum()),
        entries_of(seen),
        entries_of(acted),
        different,
        faults,
    )
    if page is None:
        return found
    picture = Path(page).with_suffix(".png")
    try:
        draw_data(picture, found, title_of(found), seen, acted)
        found = dataclasses.replace(found, page=str(page), picture=str(picture))
        write_page(Path(page), found)
    except OSError as error:
        raise ForageError(f"Could not save {page}: {error.strerror or error}.") from error
    return found


# Reading


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any], list[str]]:
    """Read the arrays of a file unchanged, its header, and the names of missing ends of episodes (they are then
    false).
    """
    header = files.read_header(path)
    try:
        with archives.open_archive(path) as archive:
            arrays = {name: archive[name] for name in archive.files if name != "header"}
        space = spaces.from_json(header["spec"]["observation_space"])
        spaces.from_json(header["spec"]["action_space"])
    except Exception as error:  # as in `files.read_data`
        raise ForageError(f"{path} is not a whole data set ({type(error).__name__}: {error}).") from error
    wanted = {"action", "reward", *names_of("observation", space), *names_of("next_observation", space)}
    for name in sorted(wanted - set(arrays)):
        raise ForageError(f"{path} has no array {name}, without which nothing can be learned from it.")
    if not len(arrays["reward"].shape) or not len(arrays["reward"]):
        raise ForageError(f"{path} holds no transition.")
    missing = [name for name in ("terminated", "truncated") if name not in arrays]
    return arrays | {name: np.zeros(len(arrays["reward"]), bool) for name in missing}, header, missing


def names_of(name: str, space: Any) -> list[str]:
    """Return the names that the parts of a space have in a file."""
    if hasattr(space, "spaces"):
        return [inner for key, one in space.spaces.items() for inner in names_of(f"{name}/{key}", one)]
    return [name]


def leaves_of(name: str, arrays: Mapping[str, np.ndarray], space: Any) -> Leaves:
    """Return the arrays of a space's parts, each with its own space."""
    if hasattr(space, "spaces"):
        found: Leaves = {}
        for key, inner in space.spaces.items():
            found |= leaves_of(f"{name}/{key}", arrays, inner)
        return found
    if isinstance(space, spaces.MixedSpace):
        return action_leaves(name, arrays[name], space)
    return {name: (arrays[name], space)}


def action_leaves(name: str, array: np.ndarray, space: spaces.MixedSpace) -> Leaves:
    """Return the parts of mixed actions, each with its space: choices count from 0, numbers are as agents have them."""
    nesting, found = ActionNesting(space, space.nested), {}
    for (path, _), leaf, part in zip(spaces.nested_leaves(space.nested), nesting.leaves, nesting.slices, strict=True):
        own: Any = gymnasium.spaces.MultiDiscrete(space.choices.nvec[part]) if leaf.chosen else None
        if own is None:
            numbers = slice(part.start - space.split, part.stop - space.split)
            own = gymnasium.spaces.Box(space.numbers.low[numbers], space.numbers.high[numbers])
        found["/".join((name, *path))] = array[:, part], own
    return found


# What is wrong


def check_lengths(path: Path, count: int, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise `ForageError` for an array with another number of rows than the transitions."""
    for name, array in arrays.items():
        if array.shape[:1] != (count,):
            raise ForageError(f"{path}: {name} has shape {array.shape}, and there are {count:,} rewards.")


def episode_faults(arrays: dict[str, np.ndarray], seen: Leaves, later: Leaves, faults: list[Fault]) -> np.ndarray:
    """Note the faults in the ends of episodes. Return the mask of transitions that end one."""
    terminated, truncated = (np.asarray(arrays[name], bool) for name in ("terminated", "truncated"))
    ended = terminated | truncated
    note(faults, "both terminated and truncated are true", terminated & truncated)
    if not ended.any():
        faults.append(Fault("no transition is terminated or truncated, so nobody knows where episodes end"))
    elif not ended[-1]:
        faults.append(Fault("the last episode has no end", 1, len(ended) - 1))
    if "episode" in arrays and len(arrays["episode"]) == len(ended):
        changes = np.diff(arrays["episode"]) != 0
        note(faults, "an episode is over by its number, but neither terminated nor truncated", changes & ~ended[:-1])
        note(faults, "an episode goes on after its end", ended[:-1] & ~changes)
    apart = np.zeros(len(ended), bool)
    for (array, _), (after, _) in zip(seen.values(), later.values(), strict=True):
        if array.shape == after.shape:
            differs = (array[1:] != after[:-1]) & ~(np.isnan(array[1:]) if array.dtype.kind == "f" else False)
            apart[:-1] |= differs.reshape(len(differs), -1).any(1)
    apart[:-1] &= ~ended[:-1]
    note(faults, "next_observation is not what the following transition observes", apart)
    return ended


def number_faults(name: str, array: np.ndarray, space: Any, faults: list[Fault]) -> None:
    """Note numbers that are not finite, and those outside their space."""
    flat = array.reshape(len(array), -1)
    if array.dtype.kind == "f":
        note(faults, f"{name} is NaN", np.isnan(flat).any(1))
        note(faults, f"{name} is infinite", np.isinf(flat).any(1))
    if isinstance(space, gymnasium.spaces.Box):
        if array.shape[1:] != space.shape:
            faults.append(Fault(f"{name} has shape {array.shape[1:]}, and its space has {space.shape}"))
            return
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        slack = 1e-5 * np.maximum(1, np.maximum(np.abs(low), np.abs(high)))  # rounding of single precision
        with np.errstate(invalid="ignore"):
            outside = (flat < low - np.where(np.isfinite(slack), slack, 0)) | (
                flat > high + np.where(np.isfinite(slack), slack, 0)
            )
        note(faults, f"{name} is outside its bounds", outside.any(1))
    elif isinstance(space, gymnasium.spaces.Discrete):
        wrong = (flat < space.start) | (flat >= space.start + space.n) | (flat != np.floor(flat))
        note(faults, f"{name} is none of the {int(space.n)} numbers of its space", wrong.any(1))
    elif isinstance(space, gymnasium.spaces.MultiDiscrete):
        start, count = space.start.reshape(-1), space.nvec.reshape(-1)
        wrong = (flat < start) | (flat >= start + count) | (flat != np.floor(flat))
        note(faults, f"{name} is outside its numbers", wrong.any(1))


def note(faults: list[Fault], what: str, wrong: Any) -> None:
    """Add a fault if there are rows that have it."""
    if wrong.any():
        faults.append(Fault(what, int(wrong.sum()), int(wrong.argmax())))


# How much is covered


def entries_of(leaves: Leaves) -> list[Entry]:
    """Return the entries of observations or actions, the first `MOST_ENTRIES` of each part."""
    return [entry for name, (array, space) in leaves.items() for entry in entries_in(name, array, space)]


def entries_in(name: str, array: np.ndarray, space: Any) -> list[Entry]:
    found = []
    flat = array.reshape(len(array), -1).astype(float)
    for i in range(min(flat.shape[1], MOST_ENTRIES)):
        values = flat[:, i][np.isfinite(flat[:, i])]
        if not len(values):
            continue
        low, high, number = bounds_of(space, i, values)
        if number:
            covered = len(np.intersect1d(values, np.arange(low, high + 1))) / (high - low + 1)
            touching = None
        else:
            covered = float((np.histogram(values, CELLS, (low, high))[0] > 0).mean()) if high > low else 1.0
            bounded = isinstance(space, gymnasium.spaces.Box) and spaces.is_bounded(space).reshape(-1)[i]
            touching = float(((values <= low) | (values >= high)).mean()) if bounded else None
        label = f"{name}[{i}]" if flat.shape[1] > 1 else name
        found.append(Entry(label, values.min(), values.mean(), values.max(), float(covered), touching))
    return found


def bounds_of(space: Any, i: int, values: np.ndarray) -> tuple[float, float, bool]:
    """Return the range of an entry, the data's if its space has none, and whether it is of whole numbers."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return float(space.start), float(space.start + space.n - 1), True
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        start = space.start.reshape(-1)[i]
        return float(start), float(start + space.nvec.reshape(-1)[i] - 1), True
    if isinstance(space, gymnasium.spaces.Box) and spaces.is_bounded(space).reshape(-1)[i]:
        return float(space.low.reshape(-1)[i]), float(space.high.reshape(-1)[i]), False
    return float(values.min()), float(values.max()), False


# The page


def title_of(found: DatasetDescription) -> str:
    return f"{found.header['spec']['name']}{', ' + found.header['tier'] if found.header.get('tier') else ''}"


def write_page(path: Path, found: DatasetDescription) -> None:
    """Write the page: one file that holds all it shows."""
    assert found.picture is not None
    image = base64.b64encode(Path(found.picture).read_bytes()).decode()
    source = found.header.get("source", {})

    def row(entry: Entry) -> list[str]:
        numbers = [f"{entry.low:.4g}", f"{entry.mean:.4g}", f"{entry.high:.4g}", f"{entry.covered:.0%}"]
        return [entry.name, *numbers, "" if entry.at_bounds is None else f"{entry.at_bounds:.0%}"]

    head = ["", "least", "mean", "most", "cells visited", "at a bound"]
    faults = [
        [
            fault.what,
            f"{fault.rows:,}" if fault.first is not None else "",
            "" if fault.first is None else str(fault.first),
        ]
        for fault in found.faults
    ]
    sections = [
        f"<h1>{escape(title_of(found))}</h1>",
        f'<p class="quiet">{escape(found.file)}</p>',
        *(
            f'<p class="said">{escape(line.strip())}</p>'
            for line in found.lines()[1:]
            if not line.startswith("  FAULT")
        ),
        f'<p><img alt="returns, lengths, actions and observations" src="data:image/png;base64,{image}"></p>',
        section("Faults", html_table(["what", "rows", "first row"], faults) if faults else "<p>None was found.</p>"),
        section("Observations", html_table(head, map(row, found.observations))),
        section("Actions", html_table(head, map(row, found.actions))),
        section(
            "Who acted", html_table(["", ""], [[name, str(value)] for name, value in source.items()]) if source else ""
        ),
    ]
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title_of(found))}</title>\n"
        f"<style>\n{(HERE / 'style.css').read_text()}</style></head>\n<body>\n"
        + "\n".join(part for part in sections if part)
        + "\n</body></html>\n"
    )
    archives.write_atomically(path, text.encode())
