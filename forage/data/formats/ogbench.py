"""NumPy archives of OGBench: `terminals` are trajectories' last rows, `masks` are 0 where the task is over.

As downloaded a trajectory has one row more than it has transitions, the last state, and no rewards or masks: those come
from OGBench's own relabelling. A file with `next_observations` has one row for each transition. A row whose mask is 0
ends an episode here also where its trajectory goes on, so that nothing is bootstrapped from there.
`behaviour_probability`, where it is known, is an array of Forage's own.

Source: Park, Frans, Eysenbach, Levine, 2024, "OGBench: Benchmarking Offline Goal-Conditioned RL", arXiv 2410.20092; the
layout is that of its repository (ogbench/utils.py, `load_dataset`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forage.core import checkpoint
from forage.core.types import ForageError, Spec
from forage.data.formats import flat
from forage.data.formats.reading import Reading
from forage.data.logged import Transitions

NEEDED = ("observations", "actions", "terminals", "rewards")
OWN = "behaviour_probability"
MAYBE = ("masks", "next_observations", OWN)


def read(path: Path, spec: Spec, reading: Reading) -> tuple[Transitions, dict[str, Any]]:
    """Read a file. Raise `ForageError` where it is damaged or has no rewards."""
    try:
        with checkpoint.opened(path) as archive:
            found = {name: archive[name] for name in (*NEEDED, *MAYBE) if name in archive.files}
    except Exception as error:  # what damaged bytes make NumPy, zipfile and zlib raise has no common type
        raise ForageError(f"{path} is not a whole archive ({type(error).__name__}: {error}).") from None
    for name in NEEDED:
        if name not in found:
            more = "; OGBench's relabel_dataset adds rewards and masks" if name == "rewards" else ""
            raise ForageError(f"{path} has no {name}{more}.")
    count = flat.count_rows(path, found["actions"], found)
    last = flat.flags(path, "terminals", found["terminals"])
    masks = None if "masks" not in found else ~flat.flags(path, "masks", found["masks"])
    keep, following = np.ones(count, bool), found.get("next_observations")
    if following is None:
        last[-1] = True
        keep, following = ~last, np.roll(found["observations"], -1, 0)
        last = np.roll(last, -1)  # the row before the last state
    rows = flat.Rows(
        found["observations"][keep],
        found["actions"][keep],
        found["rewards"][keep],
        None if masks is None else masks[keep],
        None,
        ended=last[keep],
        next_observation=following[keep],
        behaviour_probability=found[OWN][keep] if OWN in found else None,
    )
    places = np.flatnonzero(keep)
    data, dropped = flat.transitions(path, rows, reading, spec, lambda number: f"row {places[number]}")
    return data, {"left_out": dropped + int(count - keep.sum())}


def write(path: Path, data: Transitions, header: Mapping[str, Any]) -> None:
    """Write a file with next observations, rewards and masks."""
    if isinstance(data.observation, Mapping):
        raise ForageError("OGBench's files hold one array of observations, not a dictionary of them; use Minari.")
    arrays = {
        "observations": data.observation,
        "actions": data.action,
        "next_observations": data.next_observation,
        "rewards": data.reward,
        "terminals": (data.terminated | data.truncated).astype(np.float32),
        "masks": 1 - data.terminated.astype(np.float32),
    }
    if data.behaviour_probability is not None:
        arrays[OWN] = data.behaviour_probability
    checkpoint.write_atomically(path, lambda file: np.savez_compressed(file, **arrays))  # pyrefly: ignore[bad-argument-type]
