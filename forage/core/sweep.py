"""The members of a run: each setting of a sweep, with each seed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from forage.core.errors import ForageError


def members_of(sweep: dict[str, list[float]], seeds: list[int]) -> list[dict[str, Any]]:
    """Each combination of the values of a sweep, with each seed."""
    return [{"seed": seed, **setting} for setting in settings_of(sweep) for seed in seeds]


def settings_of(sweep: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Each combination of the values of a sweep; without one, the one that changes nothing."""
    return [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]


def best(
    what: str, members: list[dict[str, Any]], returns: Sequence[float | None] | None, wanted: dict[str, Any]
) -> int:
    """Return the number of the best member among those that are as wanted; the first, where there are no returns.

    `wanted` names a seed, or settings of the sweep. Raises `ForageError` where no member is so.
    """
    for name, value in wanted.items():
        if name not in members[0]:
            swept = ", ".join(key for key in members[0] if key != "seed") or "nothing"
            raise ForageError(f"{what} has no sweep over {name}; it has one over {swept}.")
        there = list(dict.fromkeys(member[name] for member in members))
        if value not in there:
            raise ForageError(
                f"{what} has {'seeds' if name == 'seed' else name} {', '.join(map(str, there))}, not {value}."
            )
    fits = [number for number, member in enumerate(members) if wanted.items() <= member.items()]
    values = [-np.inf if value is None else value for value in returns or [0.0] * len(members)]
    return max(fits, key=values.__getitem__)


def told(member: dict[str, Any]) -> str:
    """A member in words: `seed 1, learning_rate=0.001`."""
    return ", ".join([f"seed {member['seed']}", *(f"{name}={v:g}" for name, v in member.items() if name != "seed")])
