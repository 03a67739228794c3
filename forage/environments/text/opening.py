"""Families by name."""

from __future__ import annotations

import importlib

from forage.core.errors import ForageError, nearest
from forage.environments.text import FAMILIES
from forage.environments.text.problems import Family

GYM = "reasoning-gym:"


def family(name: str) -> Family:
    """Return the family of a name: one of ours, or `reasoning-gym:NAME`.

    Raises:
        ForageError: There is no such family, or its library is not installed.
    """
    if name.startswith(GYM):
        from forage.environments.text.reasoning_gym import ReasoningGym

        return ReasoningGym(name.removeprefix(GYM))
    if name not in FAMILIES:
        raise ForageError(f"There is no family of problems named {name!r}{nearest(name, FAMILIES)}")
    module, _, made = FAMILIES[name].partition(":")
    return getattr(importlib.import_module(f"forage.environments.text.families.{module}"), made)()
