"""NumPy archives of OGBench: `terminals` mark trajectories' last rows, `masks` are 0 at the end of the task.

As downloaded a trajectory has one row more than it has transitions, the last state, and no rewards or masks: those come
from OGBench's own relabelling. A file with `next_observations` has one row for each transition. A row whose mask is 0
ends an episode here also where its trajectory goes on, so that nothing is bootstrapped from there.
`behaviour_probability` and `cut`, where they are known, are arrays of Forage's own. `--episode` and `--time` may name
arrays of episodes and times.

Source: Park, Frans, Eysenbach, Levine, 2024, "OGBench: Benchmarking Offline Goal-Conditioned RL", arXiv 2410.20092; the
layout is that of its repository (ogbench/utils.py, `load_dataset`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.storage import archives
from forage.core.types import ForageError, Spec
from forage.data import files
from forage.data.formats import flat
from forage.data.formats.reading import Reading
from forage.data.logged import OPTIONAL_FIELDS, Transitions

NEEDED = ("observations", "actions", "terminals", "rewards")
OWN = OPTIONAL_FIELDS  # arrays that Forage adds
MAYBE = ("masks", "next_observations", *OWN)


def read_data(path: Path, spec: Spec, reading: Reading) -> tuple[Transitions, dict[str, Any]]:
    """Read a file. Raise `ForageError` if it is damaged or has no rewards."""
    try:
        with archives.open_archive(path) as archive:
            told = flat.named_arrays(path, reading, archive.files)
            found: dict[str, Any] = {name: archive[name] for name in (*NEEDED, *MAYBE, *told) if name in archive.files}
    except ForageError:
        raise
    except Exception as error:  # what damaged bytes make NumPy, zipfile and zlib raise has no common type
        raise ForageError(f"{path} is not a whole archive ({type(error).__name__}: {error}).") from None
    for name in NEEDED:
        if name not in found:
            more = "; OGBench's relabel_dataset adds rewards and masks" if name == "rewards" else ""
            raise ForageError(f"{path} has no {name}{more}.")
    count = flat.count_rows(path, found["actions"], found)
    masks = None if "masks" not in found else ~flat.flags(path, "masks", found["masks"])
    rows = flat.FlatRows(
        found["observations"],
        found["actions"],
        found["rewards"],
        masks,
        None,
        ended=flat.flags(path, "terminals", found["terminals"]),
        next_observation=found.get("next_observations"),
        **{name: found[name] for name in OWN if name in found},
    )
    episode, time = [found[name] for name in reading.episode], found.get(reading.time)
    rows, label = flat.arrange_rows(path, rows, spec, files.row_name, episode, time)
    keep = np.ones(count, bool)
    if rows.next_observation is None:
        assert rows.ended is not None
        last = rows.ended.copy()
        last[-1] = True
        keep = ~last
        # The row before the last state ends the trajectory.
        rows = rows._replace(ended=np.roll(last, -1), next_observation=np.roll(rows.observation, -1, 0))
    places = np.flatnonzero(keep)
    data, dropped = flat.transitions(path, rows.at(places), reading, spec, lambda number: label(int(places[number])))
    return data, {"left_out": dropped + int(count - keep.sum())}


def write_data(path: Path, data: Transitions, header: Mapping[str, Any]) -> None:
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
    arrays |= {name: array for name in OWN if (array := getattr(data, name)) is not None}
    archives.write_atomically(path, lambda file: np.savez_compressed(file, **arrays))  # pyrefly: ignore[bad-argument-type]
