"""Ranges of hyper-parameters: by their field-standard names, or declared in a part's `ranges`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from forage.config.kinds import check_fields
from forage.config.packages import package_of
from forage.core.errors import ForageError
from forage.core.ranges import Range, declared_range
from forage.core.schedule import Schedule

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
    "latent_size": (1, INFINITE),
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
    "cost_discount": (0, 1),
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
    "initial_multiplier": (0, INFINITE),
    "multiplier_rate": (0, INFINITE),
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
        if dataclasses.is_dataclass(value) and not isinstance(value, type | Schedule):
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
    if isinstance(value, Schedule):
        yield from value.values()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        for item in value:
            yield from numbers(item)
