"""Does an adapter say what the library says? One row for each environment that is compared, one function a check.

A row's library is driven directly by a `Driver` (`conformance_libraries.py`), action for action and key for key beside
the adapter, to each of its ends. A check returns nothing where it holds, a reason where it does not apply, and raises
where it fails. `test_conformance.py` runs them; `docs/conformance.py` prints the table.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from small import differing

from forage import checkpoint, fields, prng, spaces
from forage.environments import make
from forage.environments.checking import check_environment
from forage.environments.wrappers import with_fields
from forage.types import ForageError


class Seen(NamedTuple):
    """What a library said of one step, `mask` and the rest of the observation apart."""

    observation: Any
    mask: Any
    reward: Any
    terminated: Any
    truncated: Any


class Driver:
    """A library, driven as its own documentation does. A subclass for each."""

    def __init__(self, id: str, **options: Any):
        raise NotImplementedError

    def key(self, key: Any) -> Any:
        """The key that the library uses inside when it is given `key`: what Forage's step is handed."""
        return key

    def reset(self, key: Any) -> tuple[Any, Any, Any]:
        """Returns `(state, observation, mask)`."""
        raise NotImplementedError

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Seen]:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Row:
    """One environment that is compared."""

    id: str  # as Forage names it
    library: str  # imported; skipped where it is not installed
    driver: str  # a class of conformance_libraries
    limit: str = ""  # the option that limits the time of an episode, empty where there is none
    act: Callable[[int], Any] | None = None  # actions by which an episode terminates; at random otherwise
    terminates: str = ""  # why it never does, empty where it does
    within: int = 300  # steps by which it must have
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    wrong_option: str = "no_such_option"
    tolerance: float = 0.0  # where the compiler may arrange the same sums in another order
    drawn: bool | None = True  # None where it takes OpenGL, which not every machine has
    slow: bool = False  # compiles for minutes: only the table compares it
    cut: int = 4  # a time limit that no episode ends before

    @property
    def suite(self) -> str:
        return self.id.partition(":")[0]


class Played(NamedTuple):
    """One episode, side by side."""

    first: tuple[Any, Any]  # Forage's first observation, and the library's
    steps: list[tuple[Any, Seen]]  # Forage's Step, and what the library said
    states: list[Any]  # Forage's


class Case:
    """A row's environment and its episodes, played once."""

    def __init__(self, row: Row):
        self.row = row
        self.environment = make(row.id, **row.options)
        self.step = jax.jit(lambda environment, state, action, key: environment.step(state, action, key))
        self.reset = jax.jit(lambda environment, key: environment.reset(key))

    def action(self, time: int, observation: Any, act: Callable[[int], Any] | None) -> Any:
        space = self.environment.action_space
        if act is not None:
            return jnp.asarray(act(time), space.dtype if space.dtype != np.int64 else jnp.int32)
        _, mask = spaces.split_mask(observation)
        return self._sample(prng.key(1000 + time), mask)

    @functools.cached_property
    def _sample(self) -> Any:
        return jax.jit(lambda key, mask: spaces.sample(self.environment.action_space, key, mask))

    def play(self, environment: Any, driver: Driver, most: int, act: Callable[[int], Any] | None) -> Played:
        """Plays one episode to its end, or `most` steps."""
        foreign_reset, foreign_step = jax.jit(driver.reset), jax.jit(driver.step)
        key = jax.random.key(3)
        state, observation = self.reset(environment, key)
        foreign_state, foreign_observation, mask = foreign_reset(key)
        played = Played((observation, Seen(foreign_observation, mask, 0, False, False)), [], [state])
        for time in range(most):
            key = jax.random.key(5000 + time)
            action = self.action(time, observation, act)
            state, step = self.step(environment, state, action, driver.key(key))
            foreign_state, seen = foreign_step(foreign_state, action, key)
            played.steps.append(jax.device_get((step, seen)))
            played.states.append(state)
            observation = step.observation
            if step.terminated or step.truncated or seen.terminated or seen.truncated:
                break
        return played

    def limited(self, limit: int) -> tuple[Any, Driver]:
        """The environment and the library with another time limit."""
        import conformance_libraries

        options = {**self.row.options, self.row.limit: limit}
        numeric = [name for layer in fields.layers(self.environment) for name in fields.numeric_fields(layer)]
        if self.row.limit in numeric:
            environment = with_fields(self.environment, **{self.row.limit: limit})
        else:
            environment = make(self.row.id, **options)
        return environment, getattr(conformance_libraries, self.row.driver)(self.row.id.partition(":")[2], **options)

    @functools.cached_property
    def natural(self) -> Played:
        """An episode that terminates (or, where none does, the beginning of one)."""
        import conformance_libraries

        driver = getattr(conformance_libraries, self.row.driver)(self.row.id.partition(":")[2], **self.row.options)
        most = 20 if self.row.terminates else self.row.within
        return self.play(self.environment, driver, most, self.row.act)

    @functools.cached_property
    def cut(self) -> Played:
        """An episode that the time limit ends."""
        return self.play(*self.limited(self.row.cut), 10, None)

    @functools.cached_property
    def at_once(self) -> Played:
        """The episode that terminates, with the time limit at that very step."""
        last = len(self.natural.steps)
        return self.play(*self.limited(last), last + 5, self.row.act)

    @property
    def episodes(self) -> list[Played]:
        return [self.natural, *([self.cut] if self.row.limit else [])]


@functools.lru_cache(maxsize=2)
def case(row_id: str) -> Case:
    from conformance_rows import ROWS

    return Case(next(row for row in ROWS if row.id == row_id))


def same(ours: Any, theirs: Any, tolerance: float, what: str) -> None:
    """Raises where two trees of numbers differ; the adapter may have changed dtypes and names of the structure."""
    ours, theirs = ([np.asarray(leaf) for leaf in jax.tree.leaves(tree)] for tree in (ours, theirs))
    assert len(ours) == len(theirs), f"{what}: {len(ours)} arrays for the library's {len(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape, f"{what}: {a.shape} for the library's {b.shape}"
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=what)


def episode(case: Case) -> str | None:
    """The same actions and keys bring the same observations, rewards and ends, to the end of an episode."""
    for played in case.episodes:
        ours, theirs = played.first
        same(spaces.split_mask(ours)[0], theirs.observation, case.row.tolerance, "first observation")
        for time, (step, seen) in enumerate(played.steps):
            # The one at the end is checked below: it must be of the state that the step led to.
            same(spaces.split_mask(step.observation)[0], seen.observation, case.row.tolerance, f"step {time}")
            same(step.reward, seen.reward, case.row.tolerance, f"reward of step {time}")
            assert (step.terminated, step.truncated) == (seen.terminated, seen.truncated), f"ends of step {time}"
    return None


def terminated(case: Case) -> str | None:
    """An episode that ends by itself is terminated and not truncated, also where the time is up at that step."""
    if case.row.terminates:
        assert not any(step.terminated for played in case.episodes for step, _ in played.steps)
        return case.row.terminates
    for played in (case.natural, *([case.at_once] if case.row.limit else [])):
        *before, (last, _) = played.steps
        assert last.terminated and not last.truncated
        assert not any(step.terminated or step.truncated for step, _ in before)
    return None


def truncated(case: Case) -> str | None:
    """An episode that the time limit ends is truncated and not terminated, at that step; `horizon` says when."""
    if not case.row.limit:
        assert case.environment.horizon is None
        return "no time limit"
    *before, (last, _) = case.cut.steps
    assert last.truncated and not last.terminated and len(before) == case.row.cut - 1
    assert not any(step.truncated for step, _ in before)
    assert case.limited(case.row.cut)[0].horizon == case.row.cut
    return None


def final(case: Case) -> str | None:
    """The observation at an end is of the state that the step led to, and stepping on does not start afresh."""
    played = case.cut if case.row.limit else case.natural
    last, seen = played.steps[-1]
    same(spaces.split_mask(last.observation)[0], seen.observation, case.row.tolerance, "final observation")
    # Another step from there goes on from there: a reset would bring what `reset` brings, whatever the action.
    environment = case.limited(case.row.cut)[0] if case.row.limit else case.environment
    state, _ = case.step(environment, played.states[-1], case.action(0, last.observation, None), prng.key(77))
    fresh, _ = case.reset(environment, prng.key(77))
    assert differing(state, fresh), "the step after the end gave the state of a reset"
    return None


def mask(case: Case) -> str | None:
    """Which actions are allowed is what the library says."""
    if case.natural.first[1].mask is None:
        assert spaces.split_mask(case.natural.first[0])[1] is None
        return "the library has none"
    for played in case.episodes:
        pairs = [(played.first[0], played.first[1]), *((step.observation, seen) for step, seen in played.steps)]
        for ours, seen in pairs:
            found = np.asarray(spaces.split_mask(ours)[1])
            assert found.dtype == bool
            np.testing.assert_array_equal(found, np.asarray(seen.mask).reshape(-1))
    return None


def contained(case: Case) -> str | None:
    """Spaces contain what comes, and their shapes and dtypes are what a check before a run wants."""
    check_environment(case.environment, case.row.id)
    for played in case.episodes:
        for observation in (played.first[0], *(step.observation for step, _ in played.steps)):
            outside(case.environment.observation_space, observation, case.row.id)
    return None


def outside(space: gymnasium.Space[Any], value: Any, what: str) -> None:
    """Raises where a value is not in a space."""
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


def compiled(case: Case) -> str | None:
    """Outputs are strongly typed; `vmap` and `scan` work, and a batch brings what one brings."""
    environment, action_space = case.environment, case.environment.action_space

    def roll(environment: Any, key: Any) -> Any:
        state, first = environment.reset(key)

        def advance(state: Any, key: Any) -> Any:
            state, step = environment.step(state, spaces.example(action_space), key)
            return state, step

        _, steps = jax.lax.scan(advance, state, jax.random.split(key, 2))
        return first, steps

    shapes = jax.eval_shape(roll, environment, prng.key(0))
    weak = [name for name, leaf in checkpoint.named_leaves(shapes) if leaf.weak_type]
    assert not weak, f"weakly typed: {weak}"
    batch = jax.jit(jax.vmap(roll, (None, 0)))(environment, jnp.stack([prng.key(1), prng.key(2)]))
    alone = jax.jit(roll)(environment, prng.key(2))
    for left, right in zip(jax.tree.leaves(batch), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(left[1], right, rtol=2e-3, atol=2e-3)
    return None


def saved(case: Case) -> str | None:
    """A state that was saved and loaded goes on bit for bit."""
    state = case.natural.states[1]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "state.npz"
        checkpoint.save(path, state, {})
        loaded, _ = checkpoint.load(path, jax.eval_shape(lambda: state))
    assert not differing(state, loaded)
    action = case.action(0, case.natural.first[0], None)
    on = [case.step(case.environment, s, action, prng.key(9)) for s in (state, loaded)]
    assert not differing(*on)
    return None


def drawn(case: Case) -> str | None:
    """A picture `uint8[height, width, 3]`, or one sentence that says why there is none."""
    try:
        image = case.environment.render(case.natural.states[0])
    except ForageError as error:
        assert case.row.drawn is not True, error
        assert str(error).endswith(".") and "\n" not in str(error)
        return str(error)
    assert case.row.drawn is not False
    assert image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and min(image.shape[:2]) > 8
    later = case.environment.render(case.natural.states[min(5, len(case.natural.states) - 1)])
    assert image.std() > 0 and later.shape == image.shape
    return None


def refused(case: Case) -> str | None:
    """An id or option that is not there is answered in one sentence with the nearest; case does not matter in ids."""
    prefix, _, rest = case.row.id.partition(":")
    assert type(make(case.row.id.upper(), **case.row.options)) is type(case.environment)
    for id, options, word in (
        (f"{prefix}:{rest[:-1]}{rest[-2]}q", {}, case.row.id),
        (case.row.id, {case.row.wrong_option: 1}, case.row.wrong_option),
    ):
        try:
            make(id, **options)
        except ForageError as error:
            said = str(error)
            assert word in said and said.endswith((".", "?")) and "\n" not in said, said
        else:
            raise AssertionError(f"{id} with {options} was made")
    return None


CHECKS: dict[str, Callable[[Case], str | None]] = {
    "episode": episode,
    "terminated": terminated,
    "truncated": truncated,
    "final": final,
    "mask": mask,
    "spaces": contained,
    "vmap, scan": compiled,
    "saved": saved,
    "drawn": drawn,
    "refused": refused,
}


def here(row: Row) -> bool:
    """Whether the row's library is installed."""
    return importlib.util.find_spec(row.library) is not None
