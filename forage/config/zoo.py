"""Trained policies that installed packages have, found by their entry points of the group `forage.policies`.

An entry point names a module whose folder `policies` holds runs, each without its checkpoints. `zoo:ppo-cartpole` is
the run `ppo-cartpole` of the package whose entry point is called `zoo`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from forage.core.errors import ForageError, nearest

GROUP = "forage.policies"
NAME = re.compile(r"([A-Za-z][\w-]+):([\w.-]*)")
PACKAGE = {"zoo": "forage-zoo"}
"""Packages of Forage's own with policies, by the name of their entry point."""


def locate_run(run: str | os.PathLike[str]) -> Path:
    """Return the directory of a run; of an installed policy such as `zoo:ppo-cartpole` a copy in `runs`.

    The copy is made once, so that scores and films have a place. Raise `ForageError` for a policy that is not there.
    """
    text = os.fspath(run)
    match = NAME.fullmatch(text)
    if match is None or Path(text).exists():
        return Path(run)
    package, name = match.groups()
    folder = policies_of(package)
    if folder is None:
        if package in PACKAGE:
            raise ForageError(f"{text} is a policy of a package that is not installed: pip install {PACKAGE[package]}.")
        return Path(run)
    known = sorted(one.name for one in folder.iterdir() if (one / "config.json").exists())
    if name not in known:
        raise ForageError(f"{package} has no policy {name!r}{nearest(name, known)}")
    target = Path("runs", package, name)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}.") as scratch:
            shutil.copytree(folder / name, Path(scratch) / name)
            (Path(scratch) / name).rename(target)
        print(f"{text} is copied to {target}.", file=sys.stderr)
    return target


def policies_of(package: str) -> Path | None:
    """Return the folder of the policies of an installed package, by the name of its entry point, without an import."""
    for entry in importlib.metadata.entry_points(group=GROUP, name=package):
        spec = importlib.util.find_spec(entry.value)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            if (folder := Path(place) / "policies").is_dir():
                return folder
    return None
