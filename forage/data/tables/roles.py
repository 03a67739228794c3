"""The roles of columns, guessed by their names and kinds."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from forage.data.formats.reading import TERMINATED, TRUNCATED, Reading
from forage.data.tables.profile import ColumnProfile

ROLES = ("observation", "action", "reward", "terminated", "truncated", "episode", "time", "behaviour_probability")


GUESSES = {
    "action": ("action", "actions", "act", "decision", "choice", "treatment", "dose", "order"),
    "reward": ("reward", "rewards", "profit", "payoff", "return", "utility", "score", "revenue"),
    "terminated": ("terminated", "terminal", "terminals", "done", "closed", "end", "ended", "dead", "failed"),
    "truncated": ("truncated", "timeout", "timeouts", "time_out"),
    "episode": ("episode", "episode_id", "trajectory", "session", "run", "patient", "user", "customer", "shop", "id"),
    "time": ("time", "step", "t", "date", "day", "timestamp", "datetime"),
    "behaviour_probability": ("behaviour_probability", "propensity", "probability", "action_probability"),
}
"""Names of columns by the role that they are taken for."""
UNNAMED = re.compile(r"unnamed:? ?\d+", re.IGNORECASE)
"""Names of columns without one, such as the numbers of rows that pandas writes."""


def guess_reading(profiles: dict[str, ColumnProfile], said: Reading) -> tuple[Reading, list[str]]:
    """Return the description with a role for each column, and the roles that were guessed.

    What was said stays. Roles are guessed by names; the rest is observed, but for columns that identify rows.
    """
    roles: dict[str, Any] = {role: getattr(said, role) for role in ROLES}
    taken = {
        name for role in ROLES for name in ([roles[role]] if isinstance(roles[role], str) else roles[role]) if name
    }
    taken |= {*said.next_observation}
    guessed = []
    for role, words in GUESSES.items():
        if roles[role]:
            continue
        hits = [
            name for name in profiles
            if name not in taken
            and (name.lower().strip() in words or (role == "action" and name.lower().startswith("action")))
            and fits_role(role, profiles[name])
        ]  # fmt: skip
        hits.sort(key=lambda name: words.index(name.lower()) if name.lower() in words else 0)
        if hits:
            several = role == "action"
            roles[role] = tuple(sorted(hits, key=list(profiles).index)) if several else hits[0]
            roles[role] = (roles[role],) if role == "episode" else roles[role]
            taken |= set(roles[role]) if not isinstance(roles[role], str) else {roles[role]}
            guessed.append(role)
    if not roles["observation"]:
        usable = ("number", "category", "boolean")
        free = {n: p for n, p in profiles.items() if n not in taken and not UNNAMED.fullmatch(n)}
        roles["observation"] = tuple(n for n, p in free.items() if p.kind in usable and not ending_role(n))
        guessed.append("observation")
    return dataclasses.replace(said, **roles), guessed


def ending_role(name: str) -> str:
    """Return the end of an episode that a column is named after, empty if it is none."""
    return next((role for role in (TERMINATED, TRUNCATED) if name.lower().strip() in GUESSES[role]), "")


def fits_role(role: str, profile: ColumnProfile) -> bool:
    """Return whether the cells of a column can have a role."""
    kind = profile.kind
    if role in ("reward", "behaviour_probability"):
        return kind == "number"
    if role in (TERMINATED, TRUNCATED):
        return kind == "boolean" or (kind == "number" and {*profile.texts} <= {"0", "1", "0.0", "1.0"})
    if role == "action":
        return kind in ("number", "category", "boolean")
    return role != "time" or kind in ("number", "date")


def role_of(reading: Reading, name: str) -> str:
    """Return the role of a column, empty if it has none."""
    for role in (*ROLES, "next_observation"):
        told = getattr(reading, role)
        if name == told or (not isinstance(told, str) and name in told):
            return role
    return ""
