"""Copy trained runs into the package, without what is only for going on with their training.

    python zoo/make.py RUN ...

A run keeps its name, settings, versions, score, forty points of its curve, and its agent with fresh optimisers.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np

POLICIES = Path(__file__).parent / "forage_zoo" / "policies"
POINTS = 40


def pack_run(run: Path, folder: Path) -> None:
    """Write the files of a run that the package has."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "evaluation.json", "versions.json"):
        shutil.copyfile(run / name, folder / name)
    rows = (run / "metrics.jsonl").read_text().splitlines()
    places = np.unique(np.linspace(0, len(rows) - 1, POINTS).round().astype(int))
    (folder / "metrics.jsonl").write_text("".join(f"{rows[place]}\n" for place in places))
    pack_agent(run / "agent.npz", folder / "agent.npz")


def pack_agent(source: Path, target: Path) -> None:
    """Write an agent with fresh optimisers, whose zeros take no room."""
    with np.load(source) as file:
        arrays = {name: file[name] for name in file.files}
    names = json.loads(arrays["names"].tobytes())
    for number, name in enumerate(names):
        if "optimiser" in name:
            for part in ("leaf", "bytes"):
                if f"{part}{number}" in arrays:
                    arrays[f"{part}{number}"] = np.zeros_like(arrays[f"{part}{number}"])
    np.savez_compressed(target, **arrays)


if __name__ == "__main__":
    for one in map(Path, sys.argv[1:]):
        pack_run(one, POLICIES / one.name)
