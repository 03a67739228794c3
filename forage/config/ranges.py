"""What hyper-parameters may be, by their field-standard names, whichever part has them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from forage.core.errors import ForageError

INFINITE = math.inf
RANGES: dict[str, tuple[float, float]] = {
    # sizes
    "num_envs": (1, INFINITE),
    "rollout_length": (1, INFINITE),
    "batch_size": (1, INFINITE),
    "minibatch_size": (1, INFINITE),
    "minibatches": (1, INFINITE),
    "epochs": (1, INFINITE),
    "updates_per_rollout": (1, INFINITE),
    "capacity": (1, INFINITE),
    "n_step": (1, INFINITE),
    "outcomes": (1, INFINITE),
    "unroll": (1, INFINITE),
    "target_update_interval": (1, INFINITE),
    "policy_delay": (1, INFINITE),
    "redraw_interval": (1, INFINITE),
    "episodes": (1, INFINITE),
    "hidden_sizes": (1, INFINITE),
    "embedding_size": (1, INFINITE),
    "size": (1, INFINITE),
    "snapshots": (1, INFINITE),
    "burn_in": (0, INFINITE),
    "memory_size": (0, INFINITE),
    "learning_starts": (0, INFINITE),
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
    "polyak": (0, 1),
    "target_rate": (0, 1),
    "clip": (0, INFINITE),
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
    "sigma": (0, INFINITE),
    "weight_decay": (0, INFINITE),
    "initial_multiplier": (0, INFINITE),
    "multiplier_rate": (0, INFINITE),
    "initial_temperature": (0, INFINITE),
    "rank_temperature": (0, INFINITE),
    "initial_information": (0, INFINITE),
    "priority_exponent": (0, INFINITE),
    "importance_exponent": (0, INFINITE),
    "replay_k": (0, INFINITE),
    "planning": (0, INFINITE),
    "target_noise_clip": (0, INFINITE),
    "final_weight": (0, INFINITE),
    "beta": (0, INFINITE),
    "most_weight": (0, INFINITE),
}
ABOVE = {"max_gradient_norm", "initial_temperature", "initial_information", "rank_temperature", "sigma"}
"""What is never its least number: nothing would be learned by it, its logarithm is taken, or it divides."""
BELOW = {"norm_discount"}
"""What is never its greatest: what is summed across the ends of episodes would have no bound."""


def check_ranges(part: Any, name: str) -> None:
    """Raises `ForageError` for a hyper-parameter of `part`, or of a part within it, that cannot be."""
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            check_ranges(value, name)
        for number in numbers(value):
            check_number(field.name, number, name)


def check_number(field: str, number: float, name: str) -> None:
    """Raises `ForageError` when a number cannot be the hyper-parameter called `field`."""
    low, high = RANGES.get(field, (-INFINITE, INFINITE))
    fits = low <= number <= high  # so that NaN never fits
    if not fits or (field in ABOVE and number == low) or (field in BELOW and number == high):
        shown = field.replace("_", "-")
        wanted = wanted_of(field, low, high)
        raise ForageError(f"{shown} of {name} is {wanted}, not {number:g}.")


def wanted_of(field: str, low: float, high: float) -> str:
    """The numbers from `low` to `high`, or to just before them, in words."""
    if low == -INFINITE:
        return "a number"
    if high == INFINITE:
        return f"above {low:g}" if field in ABOVE else f"{low:g} or more"
    end = f"below {high:g}" if field in BELOW else f"{high:g}"
    return f"above {low:g} and {end}" if field in ABOVE else f"from {low:g} to {end}"


def numbers(value: Any) -> Iterator[float]:
    """The plain numbers in a field."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        for item in value:
            yield from numbers(item)
