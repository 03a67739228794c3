"""What a run was made with, and how that differs from what is here."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

import jax

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium")


def versions() -> dict[str, Any]:
    """Versions of Python and packages, the state of the code, and the machine."""
    return {
        "forage": own_version(),
        "code": code_hash(),
        "git": git_state(),
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in PACKAGES},
        "machine": {
            "system": platform.platform(),
            "device": jax.devices()[0].device_kind,
            "backend": jax.default_backend(),
        },
    }


def own_version() -> str:
    """Return Forage's version; of a checkout that is on the path and not installed, that it is one."""
    try:
        return importlib.metadata.version("forage-rl")
    except importlib.metadata.PackageNotFoundError:
        return "a checkout"


def differences(then: dict[str, Any]) -> str:
    """`jax 0.10.1 (here 0.10.2) and other code of forage`, or nothing."""
    now = versions()
    found = []
    for name in ("forage", *PACKAGES):
        if then.get(name) != now[name]:
            found.append(f"{name} {then.get(name)} (here {now[name]})")
    if then.get("code") != now["code"] and then.get("forage") == now["forage"]:
        found.append(f"other code of forage {now['forage']} (here {now['code']}, there {then.get('code')})")
    if then.get("machine", {}).get("backend") != now["machine"]["backend"]:
        found.append(f"the backend {then.get('machine', {}).get('backend')} (here {now['machine']['backend']})")
    return " and ".join(found)


DOORS = (
    *("runs/", "studies/", "cli/", "evaluation/", "__init__.py", "__main__.py"),
    *("config/options.py", "environments/drawing.py", "loop/soundness.py"),
)
"""Files and folders of the package that show, draw and keep, but decide nothing of what a run computes."""

DECIDES = "runs/scoring.py"
"""What lies in such a folder and decides something: with which seeds a run is evaluated."""


@functools.cache
def code_hash(root: Path = Path(__file__).parents[1]) -> str:
    """Return a short fingerprint of the library's source files that decide what a run computes."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        shows = name in DOORS or name.startswith(tuple(door for door in DOORS if door.endswith("/")))
        if not shows or name == DECIDES:
            digest.update(name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def git_state() -> dict[str, Any] | None:
    """Return the commit and whether files differ from it, of the folder the run was started in; `None` outside git."""
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5)
        if commit.returncode:
            return None
        changed = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"commit": commit.stdout.strip(), "changed": bool(changed.stdout.strip())}
