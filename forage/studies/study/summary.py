"""The results of a study: scores of seeds, on a scale that makes environments comparable, and aggregates over them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from forage.core import records
from forage.core.errors import ForageError
from forage.evaluation.comparison import probability_of_improvement
from forage.evaluation.references import human_bounds, min_max_normalised
from forage.evaluation.statistics import (
    FEW,
    Ends,
    Score,
    Statistic,
    interquartile_mean,
    mean,
    optimality_gap,
    score,
    task_median,
)
from forage.runs.listing import is_done
from forage.studies.study.design import Design

AGGREGATES: dict[str, Statistic] = {
    "IQM": interquartile_mean,
    "mean": mean,
    "median": task_median,
    "optimality gap": optimality_gap,
}
"""Statistics of normalised scores over seeds and environments."""


class SeedScore(NamedTuple):
    """The result of one seed of an agent in an environment."""

    agent: str
    task: str
    seed: int
    steps: int  # made
    budget: int  # made, without the overshoot of the last rollout
    value: float  # its mean return in the final evaluation
    normalised: float
    run: str  # its directory within the study's


class TaskScale(NamedTuple):
    """The returns that are 0 and 1 on the common scale, and their source."""

    low: float
    high: float
    source: str


class StudyResult(NamedTuple):
    """All results of a study."""

    design: Design
    directory: Path
    scores: list[SeedScore]
    scales: dict[str, TaskScale]
    ranges: dict[str, Ends]  # of the return in each environment; infinite where it is unknown
    failed: dict[str, str]  # reasons by the key of a cell

    def returns(self, agent: str, task: str, normalised: bool = False) -> np.ndarray:
        """Return the score of each seed, in the order of the design's seeds."""
        found = [one for one in self.scores if (one.agent, one.task) == (agent, task)]
        return np.array([one.normalised if normalised else one.value for one in found], float)

    def matrix(self, agent: str) -> Float[np.ndarray, "seeds tasks"] | None:
        """Return an agent's normalised scores; `None` unless each seed of each environment has one."""
        columns = [self.returns(agent, task, normalised=True) for task in self.design.environments]
        if any(len(column) < len(self.design.seeds) for column in columns):
            return None
        return np.stack(columns, axis=1)

    def matrices(self) -> dict[str, np.ndarray]:
        """Return the matrix of each agent that is complete."""
        found = {agent: self.matrix(agent) for agent in self.design.agents}
        return {agent: matrix for agent, matrix in found.items() if matrix is not None}

    def aggregates(self) -> dict[str, dict[str, Score]]:
        """Return each statistic of each complete agent, with its interval."""
        return {
            agent: {name: score(matrix, statistic=statistic) for name, statistic in AGGREGATES.items()}
            for agent, matrix in self.matrices().items()
        }

    def task_scores(self) -> dict[tuple[str, str], Score]:
        """Return the score over seeds of each agent in each environment that has any."""
        pairs = itertools.product(self.design.agents, self.design.environments)
        return {
            (agent, task): score(values, within=self.ranges[task])
            for agent, task in pairs
            if len(values := self.returns(agent, task))
        }

    def improvements(self) -> list[tuple[str, str, Score]]:
        """Return the probability that one agent beats the next one, from the highest IQM down."""
        found = self.matrices()
        order = sorted(found, key=lambda agent: -float(interquartile_mean(found[agent])))
        return [(a, b, probability_of_improvement(found[a], found[b])) for a, b in itertools.pairwise(order)]


def collect_results(design: Design, directory: Path, failed: Mapping[str, str] | None = None) -> StudyResult:
    """Return the results of the runs that are complete."""
    rows: list[SeedScore] = []
    bounds: dict[str, list[Ends]] = {}
    for cell in design.cells():
        place = directory / cell.key
        if not (place / "evaluation.json").exists():
            continue
        config, evaluation = records.read_config(place), records.read_evaluation(place)
        if evaluation is None or not is_done(place, config, evaluation):
            continue
        steps = evaluation.get("steps", config["steps"])
        for seed, value in zip(config["seeds"], evaluation["return"], strict=True):
            if value is None:
                raise ForageError(
                    f"{place} has no finite score for seed {seed}; remove it, and the study trains it again."
                )
            rows.append(
                SeedScore(
                    cell.agent, cell.task, seed, steps, min(steps, config["steps"]), float(value), np.nan, cell.key
                )
            )
        bounds.setdefault(cell.task, []).append(records.range_in(evaluation) or (-np.inf, np.inf))
    ranges = {
        task: (min(low for low, _ in found), max(high for _, high in found)) if found else (-np.inf, np.inf)
        for task in design.environments
        for found in [bounds.get(task)]
    }
    scales = {
        task: find_scale(task, own, [row.value for row in rows if row.task == task], ranges[task])
        for task, own in design.environments.items()
    }
    rows = [row._replace(normalised=normalise(row.value, scales[row.task])) for row in rows]
    return StudyResult(design, directory, rows, scales, ranges, dict(failed or {}))


def find_scale(
    task: str, own: Mapping[str, Any], returns: Sequence[float], bounds: Ends = (-np.inf, np.inf)
) -> TaskScale:
    """Return the scale of an environment.

    The first that there is: `low` and `high` of the design; random play and a person of the Atari table; the smallest
    and the largest return that the environment can give; the lowest and the highest score of the study itself.
    """
    if "low" in own:
        return TaskScale(float(own["low"]), float(own["high"]), "the study's file")
    stored = own.get("environment", task)
    name = stored.get("id", task) if isinstance(stored, Mapping) else str(stored)
    if "ALE/" in name or "NoFrameskip" in name:
        try:
            return TaskScale(*human_bounds(name), "random play and a person")
        except ForageError:
            pass
    if np.isfinite(bounds).all() and bounds[0] < bounds[1]:
        return TaskScale(*bounds, "the least and the most that an episode can return")
    if not returns:
        return TaskScale(0.0, 1.0, "no score yet")
    low, high = min(returns), max(returns)
    return TaskScale(low, high if high > low else low + 1.0, OWN_SCORES)


OWN_SCORES = "the lowest and the highest seed of this study"


def normalise(value: float, scale: TaskScale) -> float:
    return float(min_max_normalised(np.array(value), scale.low, scale.high))


def cautions(result: StudyResult) -> list[str]:
    """Return sentences about limits of the aggregates."""
    said = []
    own = [task for task, scale in result.scales.items() if scale.source == OWN_SCORES]
    if own:
        said.append(
            f"Scores in {', '.join(own)} are on a scale from the lowest to the highest seed of this study, so they "
            f"compare its agents and nothing beyond it; low and high in the study's file name returns from elsewhere."
        )
    seeds = len(result.design.seeds)
    if 1 < seeds < FEW:
        said.append(
            f"With {seeds} seeds, bootstrap intervals over several environments are too narrow; take {FEW} or more."
        )
    missing = [agent for agent in result.design.agents if agent not in result.matrices()]
    if missing:
        said.append(f"{', '.join(missing)}: not all runs are complete, so there is no aggregate.")
    if len({len(set(budgets(result, task))) for task in result.design.environments} - {0, 1}):
        said.append("Seeds of one environment made different numbers of steps; scores.csv has them.")
    said += [f"{key.removeprefix('runs/')} failed: {why}" for key, why in result.failed.items()]
    return said


def budgets(result: StudyResult, task: str) -> list[int]:
    return [row.budget for row in result.scores if row.task == task]
