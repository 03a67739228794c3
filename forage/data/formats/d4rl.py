"""HDF5 in the layout of D4RL: observations, actions, rewards, terminals and timeouts, each `[row, ...]`.

`next_observations` are read where there are any. `terminals` are where the task was over, `timeouts` where time ran
out; a file without timeouts is read once somebody says what its ends mean. `behaviour_probability`, where it is known,
is an array of Forage's own, as is `cut`. `--episode` and `--time` may name arrays of episodes and times.

Source: Fu, Kumar, Nachum, Tucker, Levine, 2020, "D4RL: Datasets for Deep Data-Driven Reinforcement Learning", arXiv
2004.07219; the layout is that of its repository (d4rl/__init__.py, `qlearning_dataset`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.storage import archives
from forage.core.types import ForageError, Spec
from forage.data import files
from forage.data.formats import flat, package
from forage.data.formats.reading import Reading
from forage.data.logged import OPTIONAL_FIELDS, Transitions

NEEDED = ("observations", "actions", "rewards")
MAYBE = ("terminals", "timeouts", "next_observations")
OWN = OPTIONAL_FIELDS  # arrays that Forage adds


def read_data(path: Path, spec: Spec, reading: Reading) -> tuple[Transitions, dict[str, Any]]:
    """Read a file. Raise `ForageError` if it is damaged or of another kind."""
    h5py = package("h5py", "HDF5 files")
    try:
        with h5py.File(path, "r") as file:
            missing = [name for name in NEEDED if name not in file]
            if missing:
                raise ForageError(
                    f"{path} has no {missing[0]}; HDF5 in the layout of D4RL has {', '.join((*NEEDED, *MAYBE))}."
                )
            told = flat.named_arrays(path, reading, file)
            there = {name: file[name] for name in (*NEEDED, *MAYBE, *OWN, *told) if name in file}
            for name, array in there.items():
                if not isinstance(array, h5py.Dataset):
                    raise ForageError(f"{path}: {name} is no array; in the layout of D4RL it has a row for each step.")
            found = {name: array[()] for name, array in there.items()}
    except ForageError:
        raise
    except Exception as error:  # what damaged bytes make h5py raise has no common type
        raise ForageError(f"{path} is not a whole HDF5 file ({error}).") from None
    rows = flat.FlatRows(
        found["observations"],
        found["actions"],
        found["rewards"],
        found.get("terminals"),
        found.get("timeouts"),
        next_observation=found.get("next_observations"),
        **{name: found[name] for name in OWN if name in found},
        unfollowed=True,
    )
    episode, time = [found[name] for name in reading.episode], found.get(reading.time)
    rows, label = flat.arrange_rows(path, rows, spec, files.row_name, episode, time)
    data, dropped = flat.transitions(path, rows, reading, spec, label)
    return data, {"left_out": dropped}


def write_data(path: Path, data: Transitions, header: Mapping[str, Any]) -> None:
    """Write a file, with next observations."""
    h5py = package("h5py", "HDF5 files")
    if isinstance(data.observation, Mapping):
        raise ForageError("HDF5 in the layout of D4RL holds one array of observations, not a dictionary; use Minari.")
    arrays = {
        "observations": data.observation,
        "actions": data.action,
        "rewards": data.reward,
        "next_observations": data.next_observation,
        "terminals": data.terminated,
        "timeouts": data.truncated,
    }
    arrays |= {name: array for name in OWN if (array := getattr(data, name)) is not None}

    def fill(file: Any) -> None:
        with h5py.File(file, "w") as inner:
            for name, array in arrays.items():
                inner.create_dataset(name, data=np.asarray(array), track_times=False)

    archives.write_atomically(path, fill)
