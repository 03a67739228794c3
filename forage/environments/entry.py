"""One row of a table of native environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """One native environment: where its class is, which fields differ from the class's own, what it is."""

    target: str  # module:Class below forage.environments
    description: str
    fields: Mapping[str, Any] = {}
    keep: tuple[int, ...] = ()  # the entries of the observation that are shown, where some are hidden
