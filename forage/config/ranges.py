"""Checks of options: their types, and their ranges, by field-standard names or declared in a part's `ranges`."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from forage.config.packages import package_of
from forage.core.errors import ForageError, check_path
from forage.core.loading import LazyModule
from forage.core.ranges import Range, declared_range

if TYPE_CHECKING:
    import numpy as np

    from forage.core import schedule
else:
    np = LazyModule("numpy")  # help needs none
    schedule = LazyModule("forage.core.schedule")  # it loads JAX

INFINITE = math.inf
RANGES: dict[str, tuple[float, float]] = {
    # sizes
    "num_envs": (1, INFINITE),
    "rollout_length": (1, INFINITE),
    "batch_size": (1, INFINITE),
    "minibatch_size": (1, INFINITE),
    "minibatches": (1, INFINITE),
    "epochs": (1, INFINITE),
    "simulations": (1, INFINITE),
    "considered": (1, INFINITE),
    "updates_per_rollout": (1, INFINITE),
    "capacity": (1, INFINITE),
    "n_step": (1, INFINITE),
    "outcomes": (1, INFINITE),
    "unroll": (1, INFINITE),
    "target_update_interval": (1, INFINITE),
    "policy_delay": (1, INFINITE),
    "episodes": (1, INFINITE),
    "hidden_sizes": (1, INFINITE),
    "value_sizes": (1, INFINITE),
    "embedding_size": (1, INFINITE),
    "size": (1, INFINITE),
    "heads": (1, INFINITE),
    "members": (2, INFINITE),
    "head_size": (1, INFINITE),
    "planning_depth": (1, INFINITE),
    "regression_steps": (1, INFINITE),
    "stages": (1, INFINITE),
    "burst": (1, INFINITE),
    "snapshots": (1, INFINITE),
    "burn_in": (0, INFINITE),
    "gru_size": (0, INFINITE),
    "learning_starts": (0, INFINITE),
    "lag": (0, INFINITE),
    "random_steps": (0, INFINITE),
    # rates and shares
    "learning_rate": (0, INFINITE),
    "final_learning_rate": (0, 1),
    "max_gradient_norm": (0, INFINITE),
    "discount": (0, 1),
    "bonus_discount": (0, 1),
    "norm_discount": (0, 1),
    "gae_lambda": (0, 1),
    "trace_lambda": (0, 1),
    "polyak": (0, 1),
    "target_rate": (0, 1),
    "clip": (0, INFINITE),
    "clip_rho": (0, INFINITE),
    "clip_c": (0, INFINITE),
    "rms_decay": (0, 1),
    "rms_epsilon": (0, INFINITE),
    "probability": (0, 1),
    "replay_probability": (0, 1),
    "staleness": (0, 1),
    "proportion": (0, 1),
    "recent": (0, 1),
    "fraction": (0, 1),
    "start": (0, 1),
    "end": (0, 1),
    "expectile": (0, 1),
    # weights and bounds
    "weight": (0, INFINITE),
    "entropy_coefficient": (0, INFINITE),
    "value_coefficient": (0, INFINITE),
    "exploration_noise": (0, INFINITE),
    "target_noise": (0, INFINITE),
    "initial_log_std": (-INFINITE, INFINITE),
    "target_entropy": (-INFINITE, INFINITE),
    "tolerance": (0, INFINITE),
    "sigma": (0, INFINITE),
    "weight_decay": (0, INFINITE),
    "initial_temperature": (0, INFINITE),
    "rank_temperature": (0, INFINITE),
    "priority_exponent": (0, INFINITE),
    "importance_exponent": (0, INFINITE),
    "replay_k": (0, INFINITE),
    "target_noise_clip": (0, INFINITE),
    "final_weight": (0, INFINITE),
    "value_scale": (0, INFINITE),
    "beta": (0, INFINITE),
    "most_weight": (0, INFINITE),
}
ABOVE = {
    "max_gradient_norm",
    "initial_temperature",
    "rank_temperature",
    "sigma",
    "clip_rho",
    "epsilon",
}
"""Names that exclude their lower bound: it would stop learning, or it is divided by or has no logarithm."""
BELOW = {"norm_discount", "rms_decay", "learning_rate", "weight", "entropy_coefficient", "value_coefficient"}
"""Names that exclude their upper bound: sums across the ends of episodes would diverge, new data would not count, or
one update would ruin the agent.
"""


def range_of(cls: type, field: str) -> Range | None:
    """Return the range of a part's field: the class's own, else the shared one; `None` if neither exists."""
    if (found := declared_range(cls, field)) is not None:
        return found
    if field in RANGES:
        return Range(*RANGES[field], field in ABOVE, field in BELOW)
    package = package_of(cls.__module__)
    return package.ranges.get(field) if package else None


def range_words(cls: type, field: str) -> str:
    """Describe the range of a part's field; empty if it has none."""
    found = range_of(cls, field)
    return found.words() if found else ""


def check_ranges(part: Any, name: str) -> None:
    """Raise `ForageError` for a hyper-parameter out of its range in `part`, or in a part within it."""
    check_fields(part, name)
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type | schedule.Schedule):
            check_ranges(value, name)
        for number in numbers(value):
            check_number(type(part), field.name, number, name)


def check_number(cls: type, field: str, number: float, name: str) -> None:
    """Raise `ForageError` if a number is out of range for the field of this class; messages call the part `name`."""
    wanted = range_of(cls, field) or Range()
    if not wanted.fits(number):
        raise ForageError(f"{field.replace('_', '-')} of {name} is {wanted.words()}, not {number:g}.")


def numbers(value: Any) -> Iterator[float]:
    """Yield the plain numbers in a field; of a schedule, its end points."""
    if isinstance(value, schedule.Schedule):
        yield from value.values()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        for item in value:
            yield from numbers(item)


WORDS: dict[Any, tuple[str, str]] = {  # of one, and of what a list of them has
    bool: ("true or false", "truth values"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
    os.PathLike: ("a path", "paths"),
}


def check_kinds(given: Mapping[str, Any], wanted: Mapping[str, Any], owner: str = "") -> None:
    """Raise `ForageError` for the first value that is not of the type `wanted` of its name; unknown types take all."""
    for name, value in given.items():
        kind = wanted.get(name, Any)
        if not fits(value, kind):
            of = f" of {owner}" if owner else ""
            raise ForageError(f"{name}{of} is {words(kind)}, not {value_text(value)}.")
        if names_paths(kind):
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, str | os.PathLike):
                    check_path(path)


def names_paths(wanted: Any) -> bool:
    """Return whether values of a type may be paths."""
    return typing.get_origin(wanted) is os.PathLike or any(map(names_paths, typing.get_args(wanted)))


def check_fields(part: Any, name: str) -> None:
    """Raise `ForageError` for a field of a wrong type in a part that messages call `name`."""
    usual = {field.name: field.default for field in dataclasses.fields(part)}
    changed = {field: value for field in usual if (value := getattr(part, field)) is not usual[field]}
    check_kinds(changed, types_of(type(part)), name)


def check_call(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise `ForageError` for the first argument of a function that is not of the type it is annotated with."""
    check_kinds(given, typing.get_type_hints(function))


@functools.cache
def types_of(cls: type) -> dict[str, Any]:
    """Return the types of a part's options, by name."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints.get(field.name, Any) for field in dataclasses.fields(cls)}


def fits(value: Any, wanted: Any) -> bool:
    """Return whether a value is of a type, as far as the type is one of numbers, texts, paths and lists of these."""
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, one) for one in inner)
    if wanted is types.NoneType:
        return value is None
    if isinstance(value, schedule.Schedule):
        return True  # that there can be one was checked where it was made
    if wanted in (bool, int, float) and hasattr(value, "dtype"):
        kind = {bool: np.bool_, int: np.integer, float: np.number}[wanted]
        return value.shape == () and np.issubdtype(value.dtype, kind)
    if wanted in (int, float):
        return isinstance(value, (int, wanted)) and not isinstance(value, bool)
    if wanted in (bool, str):
        return isinstance(value, wanted)
    if origin is tuple:
        return isinstance(value, (tuple, list)) and all(fits(item, inner[0]) for item in value)
    if origin is os.PathLike:
        return isinstance(value, os.PathLike)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(fits(item, inner[1]) for item in value.values())
    if origin is Sequence:
        listed = isinstance(value, (Sequence, Set)) or getattr(value, "ndim", 0) == 1
        listed = listed and not isinstance(value, str)
        return listed and all(fits(item, inner[0]) for item in value)
    return True


def words(wanted: Any) -> str:
    """Describe the values of a type."""
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (types.UnionType, typing.Union):
        named = [words(one) for one in inner if one is not types.NoneType]
        return " or ".join([*named, *(["None"] if types.NoneType in inner else [])])
    if origin is tuple:
        example = " such as (64, 64)" if inner[0] is int else ""
        return f"a list of {WORDS.get(inner[0], ('', 'values'))[1]}{example}"
    if origin is Mapping:
        return "a dictionary" + (f" of {words(inner[1])}" if inner[1] is not Any else "")
    if origin is Sequence:
        return f"a list of {WORDS.get(inner[0], ('', 'values'))[1]}"
    return WORDS.get(origin or wanted, (getattr(wanted, "__name__", str(wanted)), ""))[0]


def value_text(value: Any) -> str:
    """Return a value's text in a sentence, or its type if the text is long."""
    text = repr(value)
    return text if len(text) <= 60 and not text.startswith("<") else f"a {type(value).__name__}"
