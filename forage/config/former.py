"""Former names of options and parts. A person who gives one reads the new name; a stored one is translated."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from forage.core.errors import ForageError

OPTIONS: dict[str, tuple[str, ...]] = {
    "memory_size": ("gru_size", "lstm_size"),
    "memory_layers": ("lstm_layers",),
    "climb": ("policy_q",),
    "charged": ("kl_placement",),
    "low": ("clip_low",),
    "high": ("clip_high",),
    "ceiling": ("ratio_cap",),
    "margin": ("overlong_buffer",),
    "alike": ("zero_variance_groups",),
    "ahead": ("policy_lag",),
    "extras": ("track",),
    "first_come": ("async_envs",),
}
"""Options of parts and of a training by their former names, with the new ones; a part has at most one of these."""

VALUES: dict[str, dict[Any, Any]] = {
    "policy_q": {"least": "min"},
    "kl_placement": {"answer": "reward-sequence", "token": "reward-token"},
}
"""Values of options by their former names, with today's."""

PARTS: dict[str, str] = {
    "own": "policy",
    "worked": "expert-text",
    "greedy-first": "greedy-first-sample",
    "first-policy": "reference-policy",
    "lesson": "action-advice",
}
"""Parts by their former names, with today's."""


def today(option: str, known: Collection[str]) -> str | None:
    """Return today's name of an option, among those that a part has; `None` if the option is none of the former."""
    if option in known:
        return None
    return next((name for name in OPTIONS.get(option, ()) if name in known), None)


def check_option(option: str, known: Collection[str], owner: str) -> None:
    """Raise `ForageError` for the former name of an option, with today's, both as the person wrote them."""
    start = option[: option.rindex(".") + 1] if "." in option else "--" if option.startswith("--") else ""
    names = {one.removeprefix(start).replace("-", "_") for one in known}
    name = today(option.removeprefix(start).replace("-", "_"), names)
    if name is not None:
        shown = start + (name.replace("_", "-") if start else name)
        raise ForageError(f"The option {option} of {owner} is called {shown} now.")


def check_value(option: str, value: Any, owner: str) -> None:
    """Raise `ForageError` for the former name of a value, with today's."""
    if isinstance(value, str) and (name := VALUES.get(option, {}).get(value)) is not None:
        raise ForageError(f"The value {value} of {owner}'s {option} is called {name} now.")


def check_part(name: str, known: Collection[str]) -> None:
    """Raise `ForageError` for the former name of a part, with today's."""
    if name not in known and PARTS.get(name) in known:
        raise ForageError(f"The part {name} is called {PARTS[name]} now.")


def stored_name(part: str) -> str:
    """Return the new name of a stored part."""
    return TARGETS.get(part) or PARTS.get(part, part)


def with_today(stored: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the stored options of a part, with today's names of options and values."""
    found = {today(option, known) or option: value for option, value in stored.items()}
    return {
        option: VALUES[option].get(value, value) if option in VALUES and isinstance(value, str) else value
        for option, value in found.items()
    }


def with_former_words(source: str) -> str:
    """Return the source of a claim's functions with the former names of functions and classes in it."""
    return re.sub(rf"\b(?:{'|'.join(FORMER_WORDS)})\b", lambda found: FORMER_WORDS[found[0]], source)


def with_former(value: Any, option: str = "") -> Any:
    """Return a row of a claim with all former names, by which experiments of all versions are compared."""
    if isinstance(value, Mapping):
        return {FORMER_OPTIONS.get(key, key): with_former(one, key) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [with_former(one) for one in value]
    if isinstance(value, str) and option in FORMER_VALUES:
        return FORMER_VALUES[option].get(value, value)
    if isinstance(value, str) and option in ("call", "function", "measure"):
        return with_former_words(value)
    return FORMER_PARTS.get(value, value) if option in ("part", "behaviour") else value


FUNCTIONS: dict[str, str] = {
    "evaluated": "evaluation_return",
    "judged": "interval_verdict",
    "learned": "train_agent",
    "loosely": "weak_swing_up",
    "played": "play_rule",
    "record": "record_clip",
    "written": "write_texts",
}
"""Functions that claims call and that their results depend on, by their former names, with the new ones."""

WATCHED: dict[str, str] = FUNCTIONS | {
    "Before": "PriorRun",
    "Guided": "GuidedAugmentation",
    "Lesson": "ActionAdvice",
    "Logged": "LoggedEpisodes",
    "Masked": "SelectEntries",
    "Mixed": "MixedReplay",
    "Own": "AgentPolicy",
    "Recorded": "RecordedMemory",
    "Stitched": "StitchedGoals",
    "Target.chosen": "Target.at_logged_actions",
    "Target.padded": "Target.pad_episodes",
    "Target.taken": "Target.taken_probability",
    "Weighted": "WeightedRewards",
    "flat": "flatten_observation",
    "inside": "clip_interval",
    "marginalised": "marginalised_importance",
    "verdict": "join_verdicts",
}
"""Classes, methods and functions that results of claims depend on, by their former names, with the new ones."""

TARGETS: dict[str, str] = {
    "forage.core.frozen:Frozen": "forage.core.frozen:FrozenPolicy",
    "forage.nn.language.pretrained:Pretrained": "forage.nn.language.pretrained:PretrainedModel",
    "forage.tasks.distributions:Fixed": "forage.tasks.distributions:Constant",
}
"""`module:Class` of parts without a name, by their former names, with the new ones."""

CALLED: dict[str, str] = FUNCTIONS | {
    "make_setup": "resolve",
    "Ended": "CutAsTerminated",
    "read": "read_data",
    "search": "breadth_first",
    "write": "write_data",
}
"""Functions and classes that functions of claims use, by their former names, with the new ones."""

FORMER_WORDS = {name: former for former, name in CALLED.items()}
FORMER_WATCHED = {name: former for former, name in WATCHED.items()}
FORMER_OPTIONS = {name: option for option, names in OPTIONS.items() for name in names}
FORMER_VALUES = {option: {name: former for former, name in table.items()} for option, table in VALUES.items()}
FORMER_PARTS = {name: former for former, name in PARTS.items()}
