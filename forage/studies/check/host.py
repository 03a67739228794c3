"""Checks of environments that are stepped on the host."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers.utils import RunningMeanStd

from forage.core.errors import ForageError, words_of
from forage.core.host import HostEnvironment, Misfit
from forage.core.spaces import describe_space
from forage.core.types import Spec
from forage.environments.adapters.gymnasium import saving
from forage.environments.adapters.gymnasium.make import horizon
from forage.environments.adapters.gymnasium.spaces import wrap_plain
from forage.environments.adapters.gymnasium.vector import VectorEnvironment
from forage.studies.check.findings import NOTE, OK, WRONG, Finding
from forage.studies.check.players import AsItIs, Batch, Parts, Player, Single, StepResults, Vector
from forage.studies.check.watching import Watch

REPLAYED = 100  # steps that are played again, to see whether they are the same
PATIENCE = 10.0  # seconds of playing
SLOW = 1e-3  # seconds a step, from which on a process for each copy pays

Fresh = Callable[[int], contextlib.AbstractContextManager[Player]]
"""A function that makes another copy, plays it with a seed, and closes it."""

Looked = tuple[str, list[Finding], float | None]
"""A description of the play, the findings, and steps a second."""


def look_at_single(batch: Any, steps: int, seed: int) -> Looked:
    """Check a Gymnasium environment; `batch` holds one and makes more."""
    env, again = batch.one(), fresh_player(batch.one)
    try:
        played, findings, speed, record = look_at_environment(Single(env, seed), steps, seed, batch.horizon, again)
    finally:
        env.close()
    if record is None:  # it failed on the way, and would again
        return played, findings, speed
    if is_seeded(findings):
        findings.append(copies(again, record, seed))
    findings.append(check_rendering(batch, seed))
    findings.append(check_saving(batch))
    return played, findings, speed


def is_seeded(findings: list[Finding]) -> bool:
    """Return whether the seed decides the course of episodes; otherwise copies cannot be compared."""
    return not any(one.verdict == WRONG and one.topic in ("seed", "determinism") for one in findings)


def fresh_player(make: Callable[[], gymnasium.Env[Any, Any]]) -> Fresh:
    """Return a function that plays in a new copy, and closes it."""

    @contextlib.contextmanager
    def fresh(seed: int) -> Iterator[Player]:
        env = make()
        try:
            yield Single(env, seed)
        finally:
            env.close()

    return fresh


def look_at_batch(batch: HostEnvironment, steps: int, seed: int, make: Callable[[], HostEnvironment]) -> Looked:
    """Check a batch of another library's environments, or the user's own; `make` makes another batch."""

    def player(environment: HostEnvironment) -> Player:
        vector = isinstance(environment, VectorEnvironment)
        return Vector(environment, seed) if vector else Batch(environment, seed)  # pyrefly: ignore[bad-argument-type]

    @contextlib.contextmanager
    def fresh(seed: int) -> Iterator[Player]:
        environment = make()
        try:
            yield player(environment)
        finally:
            environment.close()

    played, findings, speed, record = look_at_environment(player(batch), steps, seed, batch.horizon, fresh)
    findings += [Finding(WRONG, "agents", words) for words in batch.broken.values()]
    if record is not None:
        if is_seeded(findings):
            findings.append(copies(fresh, record, seed))
        findings.append(check_rendering(batch, seed))
        exact = batch.snapshot() is not None
        how = "can be saved exactly" if exact else "cannot be saved exactly; a resumed run begins new episodes"
        findings.append(Finding(OK if exact else NOTE, "saving", f"its state {how}"))
    return played, findings, speed


def look_at_vector(name: str, env: Any, steps: int, seed: int) -> tuple[str, list[Finding], float | None, Spec]:
    """Check a ready-made environment or VectorEnv. It is left open, and reset with the seed."""
    again: Fresh | None = None
    if isinstance(env, gymnasium.vector.VectorEnv):
        try:
            player: Player = Vector(VectorEnvironment(env, name, env.num_envs), seed)
        except ForageError as error:
            player, why = AsItIs(env, seed), Finding(NOTE, "autoreset", str(error).rstrip("."))
            played, findings, speed, _ = look_at_environment(player, steps, seed, horizon(env))
            return played, [*findings, why], speed, Spec(name, player.space, player.actions)
    else:
        with contextlib.suppress(Exception):  # what cannot be copied is not played beside a copy
            twin = copy.deepcopy(env)
            again = fresh_player(lambda: wrap_plain(twin))
        env = wrap_plain(env)
        player = Single(env, seed)
    played, findings, speed, _ = look_at_environment(player, steps, seed, horizon(env), again)
    return played, findings, speed, Spec(name, player.space, player.actions)


class Record:
    """The first steps, to be compared with the same steps played again."""

    def __init__(self, first: Parts):
        self.first = first
        self.actions: list[Any] = []
        self.brought: list[StepResults] = []

    def add(self, action: Any, brought: StepResults) -> None:
        if len(self.actions) < REPLAYED:
            self.actions.append(action)
            self.brought.append(brought)

    def differs(self, first: Parts, again: Callable[[Any], StepResults]) -> str:
        """Return the place of the first difference when it is played again; empty if there is none."""
        if not arrays_equal(first, self.first):
            return "in the first observation"
        for number, (action, before) in enumerate(zip(self.actions, self.brought, strict=True), 1):
            now = again(action)
            for what, one, other in (
                ("observation", now.seen, before.seen),
                ("reward", now.reward, before.reward),
                ("terminated", now.terminated, before.terminated),
                ("truncated", now.truncated, before.truncated),
                ("first observation after an end", now.following, before.following),
            ):
                if not arrays_equal(one, other):
                    return f"in the {what} at step {number}"
        return ""


def arrays_equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return all(arrays_equal(one[key], other[key]) for key in one)
    return np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")


def look_at_environment(
    player: Player, steps: int, seed: int, limit: int | None, again: Fresh | None = None
) -> tuple[str, list[Finding], float | None, Record | None]:
    """Play, and return a description, the findings, steps a second, and a record, which is `None` if playing failed.

    `again` makes another copy, to be played by the record.
    """
    watch = Watch(player.space, player.rows, limit)
    findings = [
        Finding(OK, "spaces", f"shows {describe_space(player.space)}, acts in {describe_space(player.actions)}")
    ]
    played = f"{steps:,} steps with random actions, seed {seed}"
    record, taken = None, 0
    try:
        first, info = player.reset(seed)
        watch.observe(first)
        watch.info.update(info)
        record, began = Record(first), time.monotonic()
        while taken < steps and time.monotonic() - began < PATIENCE:
            action = player.choose()
            brought = player.step(action)
            taken += 1
            record.add(action, brought)
            look_on(watch, brought)
        if taken < steps:
            played = f"{taken:,} steps in {PATIENCE:g} seconds with random actions, seed {seed}"
        findings += watch.findings()
        findings += player.findings() if isinstance(player, Vector) else []
        findings += of_seeds(player, record, seed, again)
        findings.append(speed_of(player, taken))
    except (Exception, SystemExit) as error:
        if isinstance(error, Misfit):
            words = f"it {error.message}; {error.should}"
        elif isinstance(error, ForageError):
            words = str(error).rstrip(".")
        elif isinstance(error, SystemExit):
            words = f"it called sys.exit({error.code!r}), which ends the whole run; raise an error, or end the episode"
        else:
            words = f"it raised {words_of(error)}; it must not for any action of its space"
        when = "in reset" if record is None else f"at step {taken + 1}"
        findings += [*watch.findings(whole=False), Finding(WRONG, "contract", f"{when} {words}")]
        return f"stopped {when}, with random actions, seed {seed}", findings, None, None
    return played, findings, player.rows * taken / max(player.seconds, 1e-9), record


def look_on(watch: Watch, brought: StepResults) -> None:
    """Pass a step to the watch."""
    for flag in (brought.terminated, brought.truncated):
        if not isinstance(flag, bool | np.bool_) and not (isinstance(flag, np.ndarray) and flag.dtype == np.bool_):
            watch.flags.add(type(flag).__name__)
    for key, value in brought.info.items():
        single = isinstance(value, np.ndarray | np.generic | bool | int | float)
        if single and np.size(value) == watch.rows and np.asarray(value).dtype.kind in "biuf":
            watch.numbers.add(key)
    ended = watch.step(brought.reward, brought.terminated, brought.truncated, brought.info)
    watch.observe(brought.seen)
    if ended.any():
        watch.observe(brought.following)


def of_seeds(player: Player, record: Record, seed: int, again: Fresh | None = None) -> list[Finding]:
    """Return whether the seed decides the course of episodes, and whether another seed changes it."""
    mend = "draw every random number from self.np_random, after super().reset(seed=seed)"
    first, _ = player.reset(seed)
    begun = arrays_equal(first, record.first)
    where = record.differs(first, player.step)
    if where and again is not None and not new_differs(record, seed, again):
        return [Finding(NOTE, "state", describe_kept_state(player, where))]
    if not begun:
        return [Finding(WRONG, "seed", f"two resets with seed {seed} show different observations; {mend}")]
    other, _ = player.reset(seed + 1)
    begins = "begins as this one does" if arrays_equal(other, first) else "begins elsewhere"
    said = [Finding(OK, "seed", f"two resets with one seed agree, and another seed {begins}")]
    if where:
        words = f"one seed and the same actions bring something else {where} the second time; {mend}"
        return [*said, Finding(WRONG, "determinism", words)]
    words = f"one seed and the same actions bring the same for {len(record.actions):,} steps"
    return [*said, Finding(OK, "determinism", words)]


def new_differs(record: Record, seed: int, again: Fresh) -> str:
    """Return the difference of a new copy from the record, or its error; empty if it plays the same."""
    try:
        with again(seed) as player:
            return record.differs(player.reset(seed)[0], player.step)
    except Exception as error:
        return type(error).__name__


def describe_kept_state(player: Player, where: str) -> str:
    """Describe state that survives a reset: a new copy plays the same, but this one after a reset does not."""
    layer, kept = getattr(player, "env", None), []
    while layer is not None:
        if any(isinstance(value, RunningMeanStd) for value in vars(layer).values()):
            kept.append(type(layer).__name__)
        layer = layer.env if isinstance(layer, gymnasium.Wrapper) else None
    what = f"the running statistics of {' and '.join(kept)}" if kept else "something, such as running statistics,"
    advice = (
        "each copy of it, and evaluation, has its own, so leave that to the agent: --rewards normalise-return, "
        "--normalise-observation true"
        if kept
        else "set in reset what an episode shall not inherit"
    )
    return (
        f"a new copy brings the same for one seed and the same actions, but after a reset something else {where}: "
        f"{what} {'go' if kept else 'goes'} on over resets; {advice}"
    )


def copies(again: Fresh, record: Record, seed: int) -> Finding:
    """Return whether two copies can be stepped side by side without disturbing one another."""
    try:
        with again(seed) as one, again(seed + 1) as other:
            first, _ = one.reset(seed)
            other.reset(seed + 1)

            def step_copy(action: Any) -> StepResults:
                other.step(other.choose())
                return one.step(action)

            where = record.differs(first, step_copy)
    except Exception as error:
        words = f"a second copy fails with {type(error).__name__}: {error}; a run makes num_envs of it for each seed"
        return Finding(WRONG, "copies", words)
    if where:
        words = f"a copy stepped beside another brings something else {where}; keep nothing in the class or the module"
        return Finding(WRONG, "copies", words)
    return Finding(OK, "copies", "two of it side by side do not disturb one another")


def check_saving(batch: Any) -> Finding:
    """Return whether its state can be saved exactly."""
    try:
        exact = saving.restores_exactly(batch.one)
        if exact and not batch.returns:
            return Finding(OK, "saving", "its state can be saved exactly; a run does so with --env.snapshots true")
    except Exception:  # where no copy can be made, nothing can be tried
        exact = False
    if exact:
        return Finding(OK, "saving", "its state can be saved exactly")
    return Finding(NOTE, "saving", "its state cannot be saved exactly; a resumed run begins new episodes")


def check_rendering(batch: HostEnvironment, seed: int) -> Finding:
    """Return whether it can be drawn."""
    try:
        batch.reset(seed)
        frame = batch.render()
    except ForageError as error:
        words = str(error).partition(f"{batch.name} ")[2] or str(error)
        return Finding(NOTE, "render", words)
    rate = f", {batch.frames_per_second:g} frames a second" if batch.frames_per_second else ""
    return Finding(OK, "render", f"draws {frame.shape[1]} x {frame.shape[0]} pixels{rate}")


def speed_of(player: Player, taken: int) -> Finding:
    """Return the finding on speed."""
    each = player.seconds / max(taken * player.rows, 1)
    words = f"{1 / max(each, 1e-9):,.0f} steps a second"
    if each > SLOW and isinstance(player, Single):
        return Finding(NOTE, "speed", f"{words}; a process for each copy pays: --env.parallel true")
    return Finding(OK, "speed", words)
