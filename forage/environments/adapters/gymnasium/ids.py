"""The ids of Gymnasium's registry: the list of them, and a test for one id."""

from __future__ import annotations

import difflib
import importlib.util

import gymnasium

from forage.core.errors import did_you_mean
from forage.core.loading import load_module
from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.atari import is_atari, register

OTHERS = ("mo_gymnasium.", "gymnasium_robotics.", "ogbench.")
"""Libraries that add ids to the registry on import and have a prefix of their own here."""


def ids() -> dict[str, str]:
    """Return the newest ids of the registry, with a line each, including Atari games if ale-py is installed."""
    if importlib.util.find_spec("ale_py") is not None:
        register()
    newest: dict[str, tuple[int, str]] = {}
    for id, spec in gymnasium.registry.items():
        # Gymnasium keeps ids that only say what became of them.
        gone = getattr(spec.entry_point, "__name__", "").startswith("_raise")
        other = str(spec.entry_point).startswith(OTHERS)
        if spec.namespace not in (None, "ALE") or gone or other or (is_atari(id) and spec.namespace is None):
            continue
        key = f"{spec.namespace}/{spec.name}"
        newest[key] = max(newest.get(key, (-1, "")), (spec.version or 0, id))
    return {id: describe_id(id) for id in sorted(id for _, id in newest.values())}


def canonical(id: str) -> str:
    """Return the id as it is registered. Raise `ForageError` if it is not; `module:Id-v0` imports the module
    first.
    """
    if is_atari(id):
        register()
    module, colon, _ = id.rpartition(":")
    if colon:
        before = set(gymnasium.registry)
        if (found := registered_id(id)) is None:
            new = [known for known in gymnasium.registry if known not in before]
            has = f"it registers {', '.join(new[:5])}" if new else "forage list shows what Gymnasium has"
            near = difflib.get_close_matches(id.rpartition(":")[2], gymnasium.registry, n=3, cutoff=0.7)
            hint = did_you_mean(f"gymnasium:{module}:{one}" for one in near) or f"; {has}."
            raise ForageError(f"{module} registers no {id.rpartition(':')[2]} with Gymnasium{hint}")
        return f"{module}:{found}"
    if (found := registered_id(id)) is None:
        raise ForageError(f"Gymnasium has no {id}.")
    return found


def registered_id(id: str) -> str | None:
    """Return the id in the registry's spelling without its module, after importing that module.

    Return `None` if there is none. Raise `ForageError` if the module cannot be imported.
    """
    module, _, name = id.rpartition(":")
    if module:
        load_module(module)
    if name.startswith("ALE/"):
        register()
    if name in gymnasium.registry:
        return name
    return {known.lower(): known for known in gymnasium.registry}.get(name.lower())


def describe_id(id: str) -> str:
    """Return a one-line description of an environment from its registry entry."""
    if id.startswith("ALE/"):
        return f"Atari game {id[4:].rpartition('-')[0]}, with the standard preprocessing."
    module = str(gymnasium.registry[id].entry_point).partition(":")[0].removeprefix("gymnasium.envs.")
    return f"Gymnasium's {id.rpartition('-')[0]} ({module.partition('.')[0].replace('_', ' ')})."
