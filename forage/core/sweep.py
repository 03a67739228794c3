"""The members of a run: each setting of a sweep, with each seed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forage.core.errors import ForageError


def members_of(sweep: dict[str, list[float]], seeds: list[int]) -> list[dict[str, Any]]:
    """Return each combination of the values of a sweep, with each seed."""
    return [{"seed": seed, **setting} for setting in settings_of(sweep) for seed in seeds]


def settings_of(sweep: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Return each combination of the values of a sweep; without a sweep, one empty combination."""
    return [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]


def label_of(member: dict[str, Any]) -> str:
    """Return the settings of a member, without its seed: `learning_rate=0.001`; empty without a sweep."""
    return ", ".join(f"{name}={value:g}" for name, value in member.items() if name != "seed")


def best_member(
    what: str,
    members: list[dict[str, Any]],
    returns: Sequence[float | None] | None,
    wanted: dict[str, Any],
    aggregate: Callable[[np.ndarray], float] = np.mean,
) -> int:
    """Return the number of the best member among those that are as wanted; the first, where there are no returns.

    Of a sweep that is a seed of the best setting: settings are judged over all their seeds, by `aggregate`, so that one
    lucky seed does not decide. `wanted` names a seed, or settings of the sweep. Raises `ForageError` if no member is
    so.
    """
    for name, value in wanted.items():
        if name not in members[0]:
            swept = ", ".join(key for key in members[0] if key != "seed")
            raise ForageError(f"{what} has no sweep over {name}; it has {f'one over {swept}' if swept else 'none'}.")
        there = list(dict.fromkeys(member[name] for member in members))
        if value not in there:
            raise ForageError(
                f"{what} has {'seeds' if name == 'seed' else name} {', '.join(map(str, there))}, not {value}."
            )
    fits = [number for number, member in enumerate(members) if wanted.items() <= member.items()]
    values = [-np.inf if value is None else value for value in returns or [0.0] * len(members)]
    seeds = len({member["seed"] for member in members})
    groups = [values[start : start + seeds] for start in range(0, len(values), seeds)]  # settings one after the other
    worth = [float(aggregate(np.array(group))) if np.isfinite(group).all() else -np.inf for group in groups]
    return max(fits, key=lambda number: (worth[number // seeds], values[number]))


def member_words(member: dict[str, Any]) -> str:
    """Return a member in words: `seed 1, learning_rate=0.001`."""
    return ", ".join([f"seed {member['seed']}", *(f"{name}={v:g}" for name, v in member.items() if name != "seed")])
