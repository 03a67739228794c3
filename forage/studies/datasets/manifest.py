"""The manifest of a folder of data sets: its settings, its policies and its results.

format, environment, asked     what the folder was made with; another `make` there must ask for the same
versions                       of Forage, its packages and the commit
training                       the run that everybody who acts comes from: agent, steps, seed
policies                       NAME: {step, return, normalised, actions}, of random actions, `medium` and `expert`
ends                           {random, expert}: returns that a normalised score of 0 and of 1 stand for
sets                           NAME: file, SHA-256, transitions, episodes, those left out without a reward, mean return,
                               histogram of returns
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.errors import ForageError
from forage.core.plain import dumps
from forage.core.storage import archives
from forage.data import files

FORMAT = "forage-data-sets-1"
NAME = "manifest.json"
BINS = 20  # of a histogram of returns


class Manifest:
    """The manifest in a folder, written whole after each change."""

    def __init__(self, folder: Path, asked: dict[str, Any], more: dict[str, Any]):
        """Open the folder's manifest, or begin one. Raise `ForageError` if the folder holds other data sets."""
        self.folder, self.path = folder, folder / NAME
        self.data: dict[str, Any]
        asked = json.loads(dumps(asked))
        if not self.path.exists():
            self.data = {"format": FORMAT, "asked": asked, **more, "policies": {}, "ends": {}, "sets": {}}
            self.write()
            return
        self.data = read_manifest(folder)
        differ = [name for name in asked if self.data["asked"].get(name) != asked[name]]
        if differ:
            name = differ[0]
            raise ForageError(
                f"{folder} holds data sets made with {name.replace('_', ' ')} {self.data['asked'].get(name)}, and now "
                f"it is to be {asked[name]}; name another --output."
            )

    def write(self) -> None:
        text = dumps(self.data, indent=1) + "\n"
        archives.write_atomically(self.path, text.encode())

    def is_made(self, name: str) -> bool:
        """Return whether a data set, and its validation part if it has one, exist unchanged."""
        entry = self.data["sets"].get(name, {})
        parts = [(self.folder / one["file"], one["sha256"]) for one in (entry, entry.get("validation")) if one]
        return bool(parts) and all(path.exists() and files.file_hash(path) == known for path, known in parts)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a folder. Raise `ForageError` if there is none."""
    path = folder / NAME
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise ForageError(f"{folder} has no {NAME}; forage data make writes one.") from None
    except (OSError, ValueError) as error:
        raise ForageError(f"{path} cannot be read: {error}.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ForageError(f"{path} is no manifest of data sets ({FORMAT}).")
    return data


def histogram(returns: Sequence[float]) -> dict[str, list[float]]:
    """Return the histogram of whole episodes' returns: `count` of each bin, and its `edges`."""
    if not len(returns):
        return {"count": [], "edges": []}
    count, edges = np.histogram(np.asarray(returns, float), BINS)
    return {"count": count.tolist(), "edges": edges.tolist()}


def normalise_return(value: float, ends: dict[str, float]) -> float:
    """Return the position of a return between random actions (0) and the expert (1)."""
    return (value - ends["random"]) / (ends["expert"] - ends["random"])
