"""The comparison of a run's spaces with those of the run whose weights it starts with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
from gymnasium import spaces

from forage.core.columns import Columns
from forage.core.spaces import MixedSpace, Tokens, describe_space, offset_of, same_shape, scale_of, spaces_by_path
from forage.core.specs import spec_from_config
from forage.core.types import ForageError, Spec
from forage.runs.run import Run


@contextlib.contextmanager
def blame_spaces(parent: Run | None, specs: Sequence[Spec]) -> Iterator[None]:
    """Raise the sentence about other spaces in place of one about the settings that a run takes over.

    `specs`: that of the run's environment, once it is known.
    """
    try:
        yield
    except ForageError:
        if parent is not None and specs:
            check_spaces(parent, specs[0])
        raise


def check_spaces(parent: Run, here: Spec) -> None:
    """Raise `ForageError` if an environment has observations or actions of other shapes than a run's.

    Texts pass, as networks of language fit any length of them.
    """
    there = spec_from_config(parent.config)
    differences = list(different_shapes(there, here))
    if not differences:
        return
    own, other = (" and ".join(words) for words in zip(*differences, strict=True))
    raise ForageError(
        f"{parent.directory} was trained in {there.name}, which {own}, and {here.name} {other}; its weights fit an "
        f"environment with the same spaces{wrapped_words(parent)}."
    )


def wrapped_words(parent: Run) -> str:
    """Return the words that put a run's wrappers around another environment, if it had some."""
    wrap = parent.config["environment"].get("wrap") or []
    return f", and it had {' '.join(f'--wrap {words}' for words in wrap)}" if wrap else ""


def different_shapes(there: Spec, here: Spec) -> Iterator[tuple[str, str]]:
    """Yield the facts that networks have to fit and that differ between two specs, in words of each."""
    for kind, verb in (("observation", "shows"), ("action", "takes")):
        one, other = (getattr(spec, f"{kind}_space") for spec in (there, here))
        if not same_shape(one, other) and not all(isinstance(space, Tokens) for space in (one, other)):
            described = describe_space(one), describe_space(other)
            if described[0] == described[1]:
                described = str(one), str(other)
            yield f"{verb} {described[0]}", f"{verb} {described[1]}"
    if len(there.reward_names) != len(here.reward_names):
        yield tuple(f"pays {', '.join(spec.reward_names) or 'one reward'}" for spec in (there, here))  # pyrefly: ignore


def check_meanings(parent: Run, here: Spec) -> None:
    """Raise `ForageError` if weights fit a run but would read its observations or actions wrongly."""
    there = spec_from_config(parent.config)
    if there.observation_space == here.observation_space and is_read_differently(there, here):
        raise ForageError(
            f"{parent.directory} learned while all whole numbers of an observation were divided by their largest "
            f"bound, and each is divided by its own today; train it again, or go on with forage resume."
        )
    if there.columns is not None and here.columns is not None:
        for role in ("observation", "action"):
            one, other = (column_words(table, role) for table in (there.columns, here.columns))
            if [*one.items()] != [*other.items()]:
                verb = "observes" if role == "observation" else "chooses"
                odd = next(iter([*(one.items() - other.items()), *(other.items() - one.items())]), ("", ""))[0]
                raise ForageError(
                    f"{parent.directory} {verb} the columns {', '.join(one)}, and the table of this run has "
                    f"{', '.join(other)}"
                    + (f", with other words or kinds in {odd}" if [*one] == [*other] else "")
                    + "; its weights fit a table with the same columns in the same order."
                )


def column_words(table: Columns, role: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the kind and the words of each column by name, in order."""
    return {column.name: (column.kind, column.names) for column in getattr(table, role)}


def notes(parent: Run, here: Spec, wrap: list[str]) -> list[str]:
    """Return sentences about meanings that changed while the shapes stayed, for the start of a run."""
    there, found = spec_from_config(parent.config), []
    if (lost := parent.config["environment"].get("wrap") or []) and lost != wrap:
        found.append(f"that run's wrappers were {', '.join(lost)}, and this one's are {', '.join(wrap) or 'none'}")
    if there.observation_space != here.observation_space and is_read_differently(there, here):
        found.append("whole numbers of the observation have other bounds, by which networks see them divided")
    if there.action_space != here.action_space:
        one, other = (action_words(spec.action_space) for spec in (there, here))
        if one != other:
            found.append(f"actions were {one}, and are {other} here")
    if there.reward_names != here.reward_names:
        found.append(f"rewards were {', '.join(there.reward_names)}, and are {', '.join(here.reward_names)} here")
    if there.columns is not None and here.columns is not None and there.columns != here.columns:
        found.append("numbers of the table are standardised by other means and deviations")
    return found


def action_words(space: spaces.Space) -> str:
    """Return the names and bounds of an action in words."""
    if isinstance(space, MixedSpace):
        return str(space.nested)
    if isinstance(space, spaces.Box):
        low, high = (np.unique(bound) for bound in (space.low, space.high))
        if len(low) == len(high) == 1:
            return f"from {low[0]:g} to {high[0]:g}"
    return str(space)


def is_read_differently(there: Spec, here: Spec) -> bool:
    """Return whether networks see the same whole number of an observation as another one."""
    one, other = (spaces_by_path(spec.observation_space) for spec in (there, here))
    return any(
        not np.array_equal(scale_of(one[path]), scale_of(other[path]))
        or not np.array_equal(np.asarray(offset_of(one[path])), np.asarray(offset_of(other[path])))
        for path in one.keys() & other.keys()
        if one[path].shape == other[path].shape
    )
