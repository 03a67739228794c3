"""Population based training: weak members copy strong ones, and continue with slightly changed hyper-parameters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forage.config.run_config import RunConfig
from forage.core.checkpoint import read_header, save_tree
from forage.core.types import ForageError
from forage.loop.soundness import NotFinite
from forage.runs.checkpoints import Interval
from forage.runs.curve import CurveRows, to_float
from forage.studies.tuning.batch import Batch
from forage.studies.tuning.space import OUTSIDE, SearchRange, is_traced

PARTS = 20  # of a run, after each of which the population looks at itself
SHARE = 0.2  # of the population: as many at the bottom copy as many at the top
RESAMPLED = 0.25  # probability that a number is drawn anew rather than changed
FACTORS = (0.8, 1.2)
SECONDS = 30.0  # of training that are lost at most when a population is killed, beside the part under way


class Schedule(NamedTuple):
    """The settings of one line of descent: `settings[i]` holds in part i of the run."""

    settings: list[dict[str, float]]
    value: float  # what it came to on its tuning seed


def evolve(
    setup: RunConfig,
    space: Sequence[SearchRange],
    seeds: Sequence[int],
    episodes: int,
    path: Path,
    tell: Callable[[dict[str, Any]], None],
    note: Callable[[str], None] = lambda text: None,
    chance: int = 0,
) -> Schedule:
    """Train a population, one member for each seed. Return the schedule of the best. `chance` seeds its draws.

    `path` has a line for each part. Beside it lies what a population that is killed goes on from.

    After each of `PARTS` parts the fifth with the lowest evaluation returns takes over what members of the highest
    fifth, drawn at random, have learned, and their settings, in which each number is then multiplied by 0.8 or 1.2, or
    with probability 1/4 drawn anew (truncation selection; perturb and resample).

    Source: Jaderberg, Dalibard, Osindero, Czarnecki, Donahue, Razavi, Vinyals, Green, Dunning, Simonyan, Fernando,
    Kavukcuoglu (2017), "Population Based Training of Neural Networks", arXiv 1711.09846, appendix A.1.
    """
    random, rows = np.random.default_rng(chance), CurveRows(path)
    saved = SavedPopulation(path.with_suffix(".npz"), note)
    history: list[list[dict[str, float]]] = [[] for _ in seeds]
    values, first = np.zeros(len(seeds)), 1
    then = saved.header()
    rows.drop_after(0 if then is None else then["part"], "part")
    if then is not None:
        random.bit_generator.state, history, first = then["random"], then["history"], then["part"] + 1
        values = np.array([-np.inf if value is None else value for value in then["values"]])
    settings = (
        [{one.name: draw_value(one, random) for one in space} for _ in seeds] if then is None else then["settings"]
    )
    batch = None if first > PARTS else saved.batch(then, Batch(setup, settings, seeds, episodes))
    for part in range(first, PARTS + 1):
        assert batch is not None
        history = [[*line, dict(now)] for line, now in zip(history, batch.settings, strict=True)]
        batch.advance(part / PARTS)
        values = batch.evaluate()
        row = {"part": part, "steps": batch.steps, "values": to_float(values), "settings": batch.settings}
        rows.append(row)
        tell(row)
        if part < PARTS:
            source = select_sources(values, random)
            settings = [batch.settings[i] for i in source]
            new = source != np.arange(len(source))
            settings = [perturb_settings(s, space, random) if n else s for s, n in zip(settings, new, strict=True)]
            history = [history[i] for i in source]
            batch.take_over(source, settings)
        saved.save(batch, part, values=to_float(values), random=random.bit_generator.state, history=history)
    if batch is not None:
        batch.close()
    top = int(np.argmax(values))
    if not np.isfinite(values[top]):
        raise ForageError("Every member of the population became NaN; narrower ranges, of learning rates first, help.")
    return Schedule(history[top], float(values[top]))


class SavedPopulation:
    """The saved state of members that train in one program, from which they continue after a kill."""

    def __init__(self, path: Path, note: Callable[[str], None]):
        self.path, self.note = path, note
        self.interval = Interval(SECONDS, time.monotonic())
        self.interval.train(time.monotonic())

    def header(self) -> dict[str, Any] | None:
        """Return the header of the state that an earlier session saved; `None` if it is missing or damaged."""
        if not self.path.exists():
            return None
        try:
            return read_header(self.path)
        except ForageError as error:
            self.note(f"{error} The members begin anew.")
            return None

    def batch(self, header: dict[str, Any] | None, batch: Batch) -> Batch:
        """Load the state of a header into a batch that has just started."""
        if header is not None:
            batch.runner.load(self.path)
            batch.steps, batch.why = header["steps"], header["why"]
            batch.broken = np.array(header["broken"], bool)
        return batch

    def save(self, batch: Batch, part: int, **more: Any) -> None:
        """Write the state after a part, if the earlier one is too old; after the last part, write the header alone."""
        began = time.monotonic()
        header = {"part": part, "steps": batch.steps, "settings": batch.settings, **more}
        header |= {"broken": batch.broken.tolist(), "why": batch.why}
        if part == PARTS:
            save_tree(self.path, {}, header)
        elif self.interval.due(began):
            try:
                batch.runner.save(self.path, header)
            except NotFinite:  # of a member that broke: the state before leads here again
                return
            self.interval.save(began, time.monotonic(), True)
            self.interval.train(time.monotonic())


def replay_schedule(
    setup: RunConfig,
    schedule: Schedule,
    seeds: Sequence[int],
    episodes: int,
    path: Path,
    note: Callable[[str], None] = lambda text: None,
) -> np.ndarray:
    """Train new seeds by a schedule. Return each seed's mean evaluation return.

    `path` is where they go on from when they are killed.
    """
    saved = SavedPopulation(path, note)
    then = saved.header()
    if then is not None and then["part"] == PARTS:
        return np.array([-np.inf if value is None else value for value in then["values"]])
    settings = [schedule.settings[0]] * len(seeds) if then is None else then["settings"]
    batch = saved.batch(then, Batch(setup, settings, seeds, episodes))
    for part, settings in enumerate(schedule.settings, 1):
        if then is not None and part <= then["part"]:
            continue
        batch.take_over(np.arange(len(seeds)), [settings] * len(seeds))
        batch.advance(part / PARTS)
        if part < PARTS:
            saved.save(batch, part)
    values = batch.evaluate()
    saved.save(batch, PARTS, values=to_float(values))
    batch.close()
    return values


def check_population(setup: RunConfig, space: Sequence[SearchRange], size: int) -> None:
    """Raise `ForageError` for a search space that does not suit a population."""
    for one in space:
        if one.choices or not is_traced(setup, one):
            why = "given as choices" if one.choices else "part of the program's shape"
            if one.port in OUTSIDE and not setup.native and not one.choices:
                why = "the same for all seeds that run together on the host"
            raise ForageError(
                f"A population changes numbers while it trains, and {one.name} is {why}; --method tpe searches it."
            )
    if size < 5:
        raise ForageError(f"A population has 5 members or more, a fifth of whom copies, not {size}.")


def select_sources(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the member each one copies: itself, or a random one of the top fifth if it is in the bottom fifth."""
    order = np.argsort(values, kind="stable")
    few = max(1, int(SHARE * len(values)))
    source = np.arange(len(values))
    source[order[:few]] = random.choice(order[-few:], few)
    return source


def perturb_settings(
    settings: dict[str, float], space: Sequence[SearchRange], random: np.random.Generator
) -> dict[str, float]:
    """Return each number a fifth larger or smaller, within its range, or redrawn."""
    found = {}
    for one in space:
        moved = float(np.clip(settings[one.name] * random.choice(FACTORS), one.low, one.high))
        found[one.name] = draw_value(one, random) if random.random() < RESAMPLED else moved
    return found


def draw_value(one: SearchRange, random: np.random.Generator) -> float:
    """Return a number from its range, evenly, or evenly in its logarithm."""
    if one.log:
        return float(np.exp(random.uniform(np.log(one.low), np.log(one.high))))
    return float(random.uniform(one.low, one.high))
