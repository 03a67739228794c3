"""Conformance of adapters with their libraries: one row for each compared environment, one function a check.

A row's library is driven directly by a driver (`conformance_libraries.py`, `conformance_host_libraries.py`), with the
same actions and the same keys or seeds as the adapter, to each of its ends. The runner decides how both are played:
`conformance_device.py`, `conformance_host.py`. A check returns nothing if it holds, a reason if it does not apply, and
raises if it fails. `test_conformance.py` runs them; `docs/make/conformance.py` prints the table.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from forage.core import prng, spaces
from forage.core.types import Spec
from forage.environments.catalogue import SUITES


class SeenRecord(NamedTuple):
    """A library's result of one step; with many agents, leaves `agent ...` as `together` makes them."""

    observation: Any
    mask: Any = None
    reward: Any = 0.0
    terminated: Any = False  # with many agents also of those who ended before
    truncated: Any = False
    present: Any = None  # 1 acts, 0 waits, -1 has left; `None`: all act, always
    state: Any = None  # what a central critic sees


@dataclasses.dataclass(frozen=True)
class Row:
    """One environment that is compared."""

    id: str  # as Forage names it
    library: str  # imported; skipped where it is not installed
    driver: Callable[..., Any]  # a class of conformance_libraries or conformance_host_libraries
    limit: str = ""  # the option that limits the time of an episode, empty where there is none
    act: Callable[[int], Any] | None = None  # actions by which an episode terminates; at random otherwise
    wait: Callable[[int], Any] | None = None  # actions by which the time limit ends it; at random otherwise
    terminates: str = ""  # why it never does, empty where it does
    hidden: str = ""  # why the library does not show that it does, where the time is up at that step
    within: int = 300  # steps by which it must have
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    wrong_option: str = "no_such_option"
    tolerance: float = 0.0  # where the compiler may arrange the same sums in another order
    saves: bool = True  # whether the state can be saved
    drawn: bool | None = True  # None where it takes OpenGL, which not every machine has
    slow: bool = False  # compiles for minutes: only the table compares it
    cut: int = 4  # a time limit that no episode ends before
    late: int = 0  # steps by which the library's episodes are longer than the limit says
    each: int = 1  # how many of what the limit counts make a step: frames

    @property
    def suite(self) -> str:
        return self.id.partition(":")[0]


class PlayedRecord(NamedTuple):
    """One episode, side by side."""

    first: tuple[Any, SeenRecord]  # Forage's first observation, and the library's
    steps: list[tuple[Any, SeenRecord]]  # Forage's Step, and what the library said
    more: Any = None  # what the runner needs besides


class Case(abc.ABC):
    """A row's environment and its episodes, played once. A subclass for each runner."""

    spec: Spec

    def __init__(self, row: Row):
        self.row = row

    def driver(self, limit: int | None = None) -> Any:
        return self.row.driver(self.row.id.partition(":")[2], **self.options(limit))

    def options(self, limit: int | None) -> dict[str, Any]:
        row = self.row
        return {**row.options} | ({} if limit is None else {row.limit: (limit - row.late) * row.each})

    def sample_case(self, time: int, observation: Any, axes: tuple[int, ...]) -> Any:
        """Actions at random among those that are allowed, leaves `*axes ...`."""
        return self._sample(jax.random.split(prng.key(1000 + time), axes), spaces.split_mask(observation)[1], len(axes))

    @functools.cached_property
    def _sample(self) -> Any:
        def sample(keys: Any, mask: Any, axes: int) -> Any:
            one = functools.partial(spaces.sample, self.spec.action_space)
            for _ in range(axes):
                one = jax.vmap(one)
            return one(keys, mask)

        return jax.jit(sample, static_argnums=2)

    @functools.cached_property
    def natural(self) -> PlayedRecord:
        """Play an episode to its termination (or, without terminations, the beginning of one)."""
        return self.play(None, 20 if self.row.terminates else self.row.within, self.row.act)

    @functools.cached_property
    def cut(self) -> PlayedRecord:
        """An episode that the time limit ends."""
        return self.play(self.row.cut, self.row.cut + 6, self.row.wait)

    @functools.cached_property
    def at_once(self) -> PlayedRecord:
        """The episode that terminates, with the time limit at that very step."""
        last = len(self.natural.steps)
        return self.play(last, last + 5, self.row.act)

    @property
    def episodes(self) -> list[PlayedRecord]:
        return [self.natural, *([self.cut] if self.row.limit else [])]

    @abc.abstractmethod
    def play(self, limit: int | None, most: int, act: Callable[[int], Any] | None) -> PlayedRecord:
        """Plays one episode to its end, or `most` steps."""

    @abc.abstractmethod
    def make(self, id: str, options: Mapping[str, Any]) -> Any:
        """Makes an environment as people do."""

    @abc.abstractmethod
    def horizon(self, limit: int | None) -> int | None:
        """Return the environment's declared horizon."""

    @abc.abstractmethod
    def contract(self) -> None:
        """Raise if shapes and dtypes fail the check before a run."""

    @abc.abstractmethod
    def goes_on(self, played: PlayedRecord) -> None:
        """Raise if the step after an end is wrong."""

    @abc.abstractmethod
    def batch(self) -> None:
        """Raise if a batch differs from a single environment."""

    @abc.abstractmethod
    def check_saved(self) -> str | None:
        """Raise if a saved and loaded state does not continue the same way. Return the reason if it cannot be saved."""

    @abc.abstractmethod
    def pictures(self) -> Sequence[Any]:
        """A picture of the first state and one of a later one."""


@functools.lru_cache(maxsize=2)
def case(row_id: str) -> Case:
    from conformance_device import DeviceCase
    from conformance_host import HostCase
    from conformance_rows import ROWS

    row = next(row for row in ROWS if row.id == row_id)
    return HostCase(row) if SUITES[row.suite].host else DeviceCase(row)


def run_here(row: Row) -> bool:
    """Whether the row's library is installed."""
    return importlib.util.find_spec(row.library) is not None


def join_agents(shown: Sequence[Any], differ: bool) -> tuple[Any, Any]:
    """Return the agents' observations, padded to the largest and numbered if they `differ`, and the central state."""
    widest = max(x.shape[-1] for x in shown)
    padded = [jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, widest - x.shape[-1])]) for x in map(jnp.asarray, shown)]
    return number_agents(padded) if differ else jnp.stack(padded), number_agents(
        [jnp.concatenate(padded, -1)] * len(padded)
    )


def number_agents(shown: Sequence[Any]) -> Any:
    """Each agent's part with its number behind, one-hot."""
    ones = [jnp.broadcast_to(one, (*shown[0].shape[:-1], len(shown))) for one in np.eye(len(shown), dtype=np.float32)]
    return jnp.concatenate([jnp.stack(list(shown)), jnp.stack(ones)], -1)


def has_ended(told: Any) -> bool:
    """Whether an episode has ended: for all agents."""
    return bool(np.all(told.terminated | told.truncated))


def same(ours: Any, theirs: Any, tolerance: float, what: str) -> None:
    """Raise if two trees of numbers differ; the adapter may have changed dtypes and names of the structure."""
    ours, theirs = ([np.asarray(leaf) for leaf in jax.tree.leaves(tree)] for tree in (ours, theirs))
    assert len(ours) == len(theirs), f"{what}: {len(ours)} arrays for the library's {len(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape, f"{what}: {a.shape} for the library's {b.shape}"
        if a.dtype == np.float32 and b.dtype == np.float64:  # every adapter hands on float32
            b = b.astype(np.float32)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)


def tell(step: Any, seen: SeenRecord, left: Any, tolerance: float, what: str) -> Any:
    """Raise if Forage's step differs from the library's. Return the agents that have left, for the next step."""
    same(spaces.split_mask(step.observation)[0], seen.observation, tolerance, f"observation of {what}")
    reward = np.where(left, 0, seen.reward) if np.any(left) else seen.reward
    same(step.reward, reward, tolerance, f"reward of {what}")
    np.testing.assert_array_equal(step.terminated, np.logical_or(left, seen.terminated), f"terminated of {what}")
    late = np.logical_and(np.logical_not(left), seen.truncated)
    np.testing.assert_array_equal(step.truncated, late, f"truncated of {what}")
    return np.logical_or(left, np.logical_or(seen.terminated, seen.truncated))
