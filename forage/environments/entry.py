"""One row of a table of native environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """One native environment: the location of its class, the fields that differ from its defaults, its description."""

    target: str  # module:Class below forage.environments
    description: str
    fields: Mapping[str, Any] = {}
    keep: tuple[int, ...] = ()  # the entries of the observation that are shown, where some are hidden
