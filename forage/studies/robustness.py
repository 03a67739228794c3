"""Evaluation of a trained agent in other environments: a grid of numbers, noise, and other tasks.

The average and the worst case over a grid of the environment's numbers (an uncertainty set) are how robust
reinforcement learning is judged: Zouitine, Bertoin, Clavier, Geist, Rachelson (2024), "RRLS: Robust Reinforcement
Learning Suite", arXiv 2406.08406.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from forage.config.environment import wrap_innermost
from forage.config.options import AUTO
from forage.config.part_data import to_config
from forage.config.ranges import check_call
from forage.config.resolve import from_config
from forage.config.run_config import RunConfig
from forage.core import prng
from forage.core.fields import check_value, replace, value_of
from forage.core.ports import Environment, Tasks
from forage.core.types import ForageError
from forage.evaluation.conditions import Cell, conditions
from forage.evaluation.statistics import Score, score
from forage.runs.run import Run, write_json
from forage.runs.scoring import acting, check_episodes, cut_words, load_agents, step_limit


@dataclasses.dataclass(frozen=True)
class Point:
    """One environment that the agents were played in."""

    under: str  # what was put around the environment; empty: nothing
    fields: dict[str, float]  # the numbers that were set
    returns: list[float]  # each seed's mean return
    cut: int = 0  # episodes that went on when they were cut
    cut_after: int = 0  # steps

    @property
    def score(self) -> Score:
        return score(np.array(self.returns))


@dataclasses.dataclass(frozen=True)
class Robustness:
    """A trained run's return in many environments."""

    title: str
    episodes: int  # of each seed, at each point
    points: list[Point]
    picture: Path | None = None  # where they are drawn

    def draw(self, path: str | os.PathLike[str]) -> Path | None:
        """Draw all points, if they differ in at most two fields; see `conditions`."""
        cells = [Cell(point.under, point.fields, point.score) for point in self.points]
        return conditions(Path(path), cells, f"{self.title}, elsewhere")

    @property
    def mean(self) -> Score:
        """Take each seed's mean over all points, then the interquartile mean over seeds."""
        return score(np.mean([point.returns for point in self.points], axis=0))

    @property
    def worst_case(self) -> Score:
        """Take each seed's return at its worst point, then the interquartile mean over seeds."""
        return score(np.min([point.returns for point in self.points], axis=0))

    @property
    def worst_point(self) -> Point:
        """Return the point with the lowest mean over seeds."""
        return min(self.points, key=lambda point: np.mean(point.returns))

    def data(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        plain: Any = lambda s: {"score": s.value, "low": s.low, "high": s.high, "seeds": s.seeds}  # noqa: E731
        points = [dataclasses.asdict(point) | plain(point.score) for point in self.points]
        return {
            "episodes": self.episodes,
            "mean": plain(self.mean),
            "worst_case": plain(self.worst_case),
            "worst_point": {"under": self.worst_point.under, **self.worst_point.fields},
            "points": points,
        }

    def __str__(self) -> str:
        names = list(self.points[0].fields)
        under = any(point.under for point in self.points)
        header = [*(["under"] if under else []), *names, "return"]
        rows = [
            [
                *([point.under or "nothing"] if under else []),
                *(f"{v:g}" for v in point.fields.values()),
                str(point.score),
            ]
            for point in self.points
        ]
        widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
        lines = [
            "  " + "  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)
        ]
        if len(rows) > 1:
            lines += [f"mean over {len(rows)} rows: return {self.mean}", f"worst case: return {self.worst_case}"]
        if cut := sum(point.cut for point in self.points):
            every = self.episodes * sum(len(point.returns) for point in self.points)
            lines.append(cut_words(cut, every, max(point.cut_after for point in self.points if point.cut)))
        return "\n".join([f"{self.title}, {self.episodes} episodes of each seed", *lines])


def evaluate_under(
    directory: str | os.PathLike[str],
    grid: Mapping[str, Sequence[float]] | None = None,
    *,
    under: Sequence[str] = (),
    instead: Mapping[str, Environment] | None = None,
    wrap: Sequence[str] = (),
    tasks: Tasks | None = None,
    episodes: int = 100,
    seed: int = 0,
    environment: Any = None,
    actions: str | None = None,
) -> Robustness:
    """Play the newest agents of a run in other environments. Write robustness.json and robustness.png.

    `grid` maps fields to values: all combinations are played, in one program. Other fields are as in the tasks that
    evaluation draws; `tasks` replaces those of the run. `under` and `wrap` name wrappers (`action-noise:0.1`) that keep
    the spaces, and go directly around the environment, within all others: each of `under` is a condition of its own,
    besides the one without, and those of `wrap` always apply, so that `wrap=["action-noise:0"]` and a grid over
    `action_noise` are a curve over strengths.
    `instead` are whole environments, each a condition by its name, such as levels that were kept for testing.
    All points get the same random numbers. `actions`: `greedy`, `sampled` or `auto`, as for `evaluate`.

    Examples:
        >>> forage.evaluate_under("runs/ppo-CartPole-v1", {"length": [0.25, 0.5, 1.0, 2.0]})  # doctest: +SKIP
    """
    check_call(evaluate_under, locals())
    check_episodes(episodes)
    run = Run(directory)
    setup = from_config(run.config, environment, where=run.directory, evaluation_actions=actions)
    setup.check_played(run.directory)
    if not isinstance(setup.environment, Environment):
        raise ForageError(
            f"{setup.name} is stepped on the host, where its numbers cannot be set from outside; grids, wrappers and "
            f"tasks need a native environment such as CartPole-v1."
        )
    if setup.sweep:
        raise ForageError(f"{directory} is a sweep, whose settings are different agents; play those of one setting.")
    combinations = check_grid(wrap_innermost(setup.environment, wrap), grid or {})
    conditions = {words: wrap_innermost(setup.environment, [*wrap, words]) for words in under}
    conditions = {"": wrap_innermost(setup.environment, wrap), **conditions}
    for name, other in (instead or {}).items():
        kept = [(e.observation_space, e.action_space) for e in (other, setup.environment)]
        if kept[0] != kept[1]:
            raise ForageError(
                f"{name} shows {kept[0][0]} and takes {kept[0][1]}, and {run.title} knows {kept[1][0]} and "
                f"{kept[1][1]} only; an environment with these spaces works."
            )
        conditions[name] = other
    setups = {
        words: dataclasses.replace(
            setup,
            environment=around,
            tasks=tasks or setup.tasks,
            spec=dataclasses.replace(setup.spec, horizon=around.horizon),  # episodes are cut where theirs are
        )
        for words, around in conditions.items()
    }
    runner = setup.runner(learns=False)
    load_agents(run, runner)
    acted, _ = acting(runner, setup, episodes, None if actions == AUTO else run.choice)
    agents, points = runner.agent_states(), []
    for words, other in setups.items():
        played = play_combinations(
            other, agents, combinations, episodes, prng.EVALUATION_AGAIN + seed, acted == "sampled"
        )
        after = step_limit(other)
        points += [Point(words, fields, *one, after) for fields, one in zip(combinations, played, strict=True)]
    result = Robustness(run.title, episodes, points)
    described = {"wrap": list(wrap), "tasks": to_config(tasks or setup.tasks), "actions": acted}
    write_json(run.directory / "robustness.json", result.data() | described)
    return dataclasses.replace(result, picture=result.draw(run.directory / "robustness.png"))


def play_combinations(
    setup: RunConfig,
    agents: PyTree[Array],
    combinations: list[dict[str, float]],
    episodes: int,
    seed: int,
    sampled: bool,
) -> list[tuple[list[float], int]]:
    """Return each combination's mean return of every seed's agent, and the number of its cut episodes."""
    assert isinstance(setup.environment, Environment)
    environment, runner = setup.environment, setup.runner(learns=False)
    runner.use_agents(agents)
    points: Any = jax.tree.map(lambda _: None, environment)
    for name in combinations[0]:
        value = value_of(environment, name)
        values = jnp.array([fields[name] for fields in combinations], jnp.result_type(value))
        values = jnp.broadcast_to(values.reshape(-1, *(1,) * jnp.ndim(value)), (len(values), *jnp.shape(value)))
        points = replace(points, environment, name, values)
    limit = step_limit(setup)
    if combinations[0]:
        played = runner.evaluate_points(points, episodes, limit, seed, sampled)
        returns, lengths = np.asarray(played.returns, float), np.asarray(played.lengths)
    else:
        played = runner.evaluate(episodes, limit, seed, sampled)
        returns, lengths = np.asarray(played.returns, float)[:, None], np.asarray(played.lengths)[:, None]
    means = setup.rewards.score(returns, setup.spec).mean(-1).T.tolist()
    cut = (lengths >= limit).sum((0, 2)) if setup.spec.horizon is None else np.zeros(len(means), int)
    return list(zip(means, cut.tolist(), strict=True))


def check_grid(environment: Environment, grid: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Return all combinations of a grid's values. Raise `ForageError` for fields and values that cannot be set."""
    for name, values in grid.items():
        if not len(values):
            raise ForageError(f"A grid has one value or more for each field, and {name} has none.")
        whole = not jnp.issubdtype(jnp.result_type(value_of(environment, name)), jnp.floating)
        for value in values:
            if not np.isfinite(value):
                raise ForageError(f"A grid is of numbers, and {name} has {value}.")
            if whole and value != int(value):
                raise ForageError(f"{name} is a whole number, and {value:g} on the grid is none.")
            check_value(environment, name, float(value))
    return [dict(zip(grid, map(float, values), strict=True)) for values in itertools.product(*grid.values())]


def axis(words: str) -> tuple[str, list[float]]:
    """Return a field and its values, from `length=0.25:2.0:8` (evenly spaced, both ends included) or
    `length=0.25,0.5,1`.
    """
    name, equals, text = words.partition("=")
    explained = f"A grid is a field and its values, as in length=0.25:2.0:8 or length=0.25,0.5,1; {words!r} is not."
    if not name or not equals:
        raise ForageError(explained)
    try:
        if ":" in text:
            low, high, count = text.split(":")
            if int(count) < 2 or not float(low) < float(high):
                raise ForageError(f"--grid {words} needs low < high and 2 points or more.")
            return name.replace("-", "_"), np.linspace(float(low), float(high), int(count)).tolist()
        return name.replace("-", "_"), [float(value) for value in text.split(",")]
    except ValueError:
        raise ForageError(explained) from None
