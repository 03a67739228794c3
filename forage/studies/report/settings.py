"""The settings of runs side by side: those that can have made a difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from forage.runs.changes import flatten_config, without_address

# What no agent learns from: where and how often a run writes and measures, and what follows from other settings.
ASIDE = ("spec.", "checkpoint_seconds", "devices", "extras", "evaluation_every", "visits")
NOTHING = {"", "None", "{}", "[]", "False"}


def differing(configs: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str], list[str]]:
    """Sort the names of settings into those that differ, those that only some runs have, and the rest.

    A number differs from another where their seventh digit does. A setting that one run lacks because its version
    did not know it counts only where the others use it.
    """
    flat = [flatten_config(config) for config in configs]
    names = list(dict.fromkeys(name for settings in flat for name in settings))
    matter, partly, rest = [], [], []
    for name in names:
        found = [settings[name] for settings in flat if name in settings]
        if name.startswith(ASIDE) or all(same_effect(found[0], other) for other in found[1:]):
            alone = len(found) < len(flat) and not name.startswith(ASIDE) and not set(found) <= NOTHING
            (partly if alone else rest).append(name)
        else:
            matter.append(name)
    return matter, partly, rest


def same_effect(one: str, other: str) -> bool:
    """Return whether two settings are equal in their effect on a run."""
    try:
        return one == other or math.isclose(float(one), float(other), rel_tol=1e-6)
    except ValueError:
        return without_address(one) == without_address(other)
