"""The checks of an adapter against its library: see `conformance.py`. Their docstrings are printed above the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import numpy as np
from conformance import Case, has_ended, same, tell

from forage.core import spaces
from forage.core.spaces import STATE
from forage.core.types import ForageError
from forage.environments import canonical_id


def episode(case: Case) -> str | None:
    """The same actions and keys give the same observations, rewards and ends, to the end of an episode."""
    for played in case.episodes:
        ours, theirs = played.first
        same(spaces.split_mask(ours)[0], theirs.observation, case.row.tolerance, "first observation")
        left: Any = np.False_
        for time, (step, seen) in enumerate(played.steps):
            left = tell(step, seen, left, case.row.tolerance, f"step {time}")
    return None


def check_terminated(case: Case) -> str | None:
    """An episode that ends by itself is terminated and not truncated, even at the step of the time limit."""
    if case.row.terminates:
        assert not any(np.any(step.terminated) for played in case.episodes for step, _ in played.steps)
        return case.row.terminates
    for played in (case.natural, *([case.at_once] if case.row.limit and not case.row.hidden else [])):
        *before, (last, _) = played.steps
        assert np.all(last.terminated) and not np.any(last.truncated)
        assert not any(has_ended(step) for step, _ in before)
    return None


def check_truncated(case: Case) -> str | None:
    """An episode that the time limit ends is truncated and not terminated, at the step given by `horizon`."""
    if not case.row.limit:
        assert case.horizon(None) is None
        return "no time limit"
    *before, (last, _) = case.cut.steps
    assert np.all(last.truncated) and not np.any(last.terminated) and len(before) == case.row.cut - 1
    assert not any(np.any(step.truncated) for step, _ in before)
    assert case.horizon(case.row.cut) == case.row.cut
    return None


def final(case: Case) -> str | None:
    """The observation at an end is of the state after the step; a new episode begins only after it."""
    played = case.cut if case.row.limit else case.natural
    last, seen = played.steps[-1]
    same(spaces.split_mask(last.observation)[0], seen.observation, case.row.tolerance, "final observation")
    case.goes_on(played)
    return None


def mask(case: Case) -> str | None:
    """The mask of allowed actions is the library's."""
    if case.natural.first[1].mask is None:
        assert spaces.split_mask(case.natural.first[0])[1] is None
        return "the library has none"
    for ours, seen in show(case):
        found = np.asarray(spaces.split_mask(ours)[1])
        assert found.dtype == bool
        wanted = np.asarray(seen.mask, bool).reshape(found.shape)
        if case.spec.num_agents > 1:  # a policy needs something to choose from, also where its choice is not heard
            wanted = wanted | ~wanted.any(-1, keepdims=True)
        np.testing.assert_array_equal(found, wanted)
    return None


def agents(case: Case) -> str | None:
    """Acting, waiting and absent agents are the library's, and a central critic sees the observations of all agents."""
    if case.spec.num_agents == 1:
        assert all(spaces.present(ours) is None for ours, _ in show(case))
        return "one agent"
    for ours, seen in show(case):
        same(ours[STATE], seen.state, case.row.tolerance, "state")
        same(spaces.present(ours), seen.present, 0, "present")
    return None


def check_contained(case: Case) -> str | None:
    """Spaces contain all observations, and their shapes and dtypes pass the check before a run."""
    case.contract()
    number = case.spec.num_agents
    for observation, _ in show(case):
        parts = [observation] if number == 1 else [jax.tree.map(lambda x: x[i], observation) for i in range(number)]  # noqa: B023
        for part in parts:
            outside(case.spec.observation_space, part, case.row.id)
    return None


def batch(case: Case) -> str | None:
    """A batch equals single environments: under `vmap` and `scan`, strongly typed; on the host with separate ends."""
    case.batch()
    return None


def check_saved(case: Case) -> str | None:
    """A saved and loaded state continues bit for bit."""
    return case.check_saved()


def draw(case: Case) -> str | None:
    """A picture is `uint8[height, width, 3]`, or one sentence explains its absence."""
    try:
        first, later = case.pictures()
    except NotImplementedError:
        assert case.row.drawn is not True
        return "cannot be drawn"
    except ForageError as error:
        assert case.row.drawn is not True, error
        assert str(error).endswith(".") and "\n" not in str(error)
        return str(error)
    assert case.row.drawn is not False
    assert first.dtype == np.uint8 and first.ndim == 3 and first.shape[2] == 3 and min(first.shape[:2]) > 8
    assert first.std() > 0 and later.shape == first.shape
    return None


def check_refused(case: Case) -> str | None:
    """An id or option that is not there is answered in one sentence with the nearest; case does not matter in ids."""
    prefix, _, rest = case.row.id.partition(":")
    assert canonical_id(case.row.id.upper()) == case.row.id
    for id, options, word in (
        (f"{prefix}:{rest[:-1]}{rest[-2]}q", {}, case.row.id),
        (case.row.id, {case.row.wrong_option: 1}, case.row.wrong_option),
    ):
        try:
            case.make(id, options)
        except ForageError as error:
            said = str(error)
            assert word in said and said.endswith((".", "?")) and "\n" not in said, said
        else:
            raise AssertionError(f"{id} with {options} was made")
    return None


CHECKS: dict[str, Callable[[Case], str | None]] = {
    "episode": episode,
    "terminated": check_terminated,
    "truncated": check_truncated,
    "final": final,
    "mask": mask,
    "agents": agents,
    "spaces": check_contained,
    "batch": batch,
    "saved": check_saved,
    "drawn": draw,
    "refused": check_refused,
}


def show(case: Case) -> list[tuple[Any, Any]]:
    """Return every observation of Forage with the library's result."""
    return [
        pair
        for played in case.episodes
        for pair in (played.first, *((step.observation, seen) for step, seen in played.steps))
    ]


def outside(space: gymnasium.Space[Any], value: Any, what: str) -> None:
    """Raise if a value is not in a space."""
    if isinstance(space, gymnasium.spaces.Dict):
        assert sorted(space.spaces) == sorted(value), f"{what} has {sorted(value)}, not {sorted(space.spaces)}"
        for name, inner in space.spaces.items():
            outside(inner, value[name], f"{what} {name}")
        return
    array = np.asarray(value)
    if isinstance(space, gymnasium.spaces.Discrete):
        assert 0 <= int(array) < space.n, f"{what}: {array} in {space}"
        return
    assert array.dtype == space.dtype, f"{what}: {array.dtype} in {space}"
    if isinstance(space, gymnasium.spaces.Box) and array.dtype.kind == "f":
        # A bound that the library computes may be off by the last bit.
        low, high = space.low - 1e-5 * (1 + np.abs(space.low)), space.high + 1e-5 * (1 + np.abs(space.high))
        assert ((array >= low) & (array <= high)).all(), f"{what}: {array.min()} to {array.max()} in {space}"
    else:
        assert space.contains(array), f"{what}: {array} in {space}"
