"""The ids of Gymnasium's registry: which there are, and whether one is."""

from __future__ import annotations

import importlib.util

import gymnasium

from forage.environments.adapters.atari import is_atari, register
from forage.types import ForageError

OTHERS = ("mo_gymnasium.", "gymnasium_robotics.")
"""Libraries whose ids are in the registry once they are imported, and which have a prefix of their own."""


def ids() -> dict[str, str]:
    """Ids of the registry with a line each, the newest version of each, with Atari where it is installed."""
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
    return {id: describe(id) for id in sorted(id for _, id in newest.values())}


def canonical(id: str) -> str:
    """The id as it is registered. Raises `ForageError` where it is not; `module:Id-v0` imports the module first."""
    if is_atari(id):
        register()
    try:
        gymnasium.spec(id)
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.Error, ModuleNotFoundError) as error:
        spelled = {known.lower(): known for known in gymnasium.registry}
        if id.lower() in spelled:
            return spelled[id.lower()]
        raise ForageError(f"Gymnasium has no {id}.") from error
    return id


def describe(id: str) -> str:
    """What the registry says of an environment."""
    if id.startswith("ALE/"):
        return f"Atari game {id[4:].rpartition('-')[0]}, with the standard preprocessing."
    module = str(gymnasium.registry[id].entry_point).partition(":")[0].removeprefix("gymnasium.envs.")
    return f"Gymnasium's {id.rpartition('-')[0]} ({module.partition('.')[0].replace('_', ' ')})."
