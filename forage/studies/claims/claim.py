"""A claim: a paper's statement, the arms of the experiment that tests it, and the rule of its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from forage.evaluation.comparison import welch_difference
from forage.runs.run import Run

SEEDS = tuple(range(1000, 1010))
"""Seeds that no search for presets used: presets were tuned on 0 to 4, learning rows use those from 100."""

Measure = Callable[[Run], list[float]]
"""One number for each seed of a trained run."""


class PriorRun(NamedTuple):
    """A run that precedes an arm's own, which continues it."""

    agent: str
    steps: int  # of each seed; in a smoke those of the arms
    options: Mapping[str, Any] = {}  # of the agent
    parts: Callable[[], dict[str, Any]] = dict  # any other word of `forage.train`


class Arm(NamedTuple):
    """One arm of a comparison: the arguments of `forage.train` that the arms do not share."""

    agent: str
    options: Mapping[str, Any] = {}  # of the agent
    parts: Callable[[], dict[str, Any]] = dict  # for other ports, and any other word of `forage.train`
    environment: Any = None  # an id, or what makes an environment, where it is not the claim's own
    before: PriorRun | None = None  # the run that it goes on from
    steps: int | None = None  # of each seed at the scale laptop, where not the claim's: updates from data, labels


class SecondMeasure(NamedTuple):
    """A second measure, shown with the first and its effects. It does not affect the verdict."""

    measure: Measure
    measured: str  # what it is, in words
    higher: bool | None = None  # more of it is better; None: as the claim's rule has it

    def effects(self, claim: Claim, values: Mapping[str, np.ndarray]) -> list[Effect]:
        """Compare the treatment with every baseline by this measure."""
        higher = claim.rule.higher if self.higher is None else self.higher
        return effects(claim._replace(rule=claim.rule._replace(higher=higher)), values)


class Scale(NamedTuple):
    """The size of the experiment."""

    steps: int  # of each seed
    seeds: tuple[int, ...] = SEEDS


class Paper(NamedTuple):
    """The paper's own setting, described, and run on the right hardware."""

    environment: str
    steps: int
    seeds: int
    needs: str  # hardware and time, in words
    options: Mapping[str, Any] = {}  # of every arm's agent, over its own
    lacks: str = ""  # what is missing here to run it, where something is
    arms: Mapping[str, Mapping[str, Any]] = {}  # of one arm's agent, over those


class Rule(NamedTuple):
    """The rule by which a verdict follows from the numbers.

    The effect is the treatment's mean over seeds less the baseline's (the other way round where lower is better), with
    Welch's interval (`welch_difference`). The claim holds where the whole interval lies above `margin`, fails where it
    lies below, and is undecided otherwise.
    """

    margin: float = 0.0
    higher: bool = True  # more of the measure is better
    confidence: float = 0.95


class Effect(NamedTuple):
    """The treatment against one baseline."""

    baseline: str
    value: float
    low: float
    high: float
    verdict: str  # holds, fails or undecided


class Claim(NamedTuple):
    """A statement, and the experiment that would confirm it here. `treatment` and each of `baselines` are labels of
    `arms`.
    """

    title: str
    authors: str
    year: int
    arxiv: str  # its number, or another place where it was published
    statement: str  # in one sentence
    environment: Any  # an id, or what makes an environment
    arms: Mapping[str, Arm]
    treatment: str
    baselines: tuple[str, ...]
    measure: Measure
    measured: str  # what `measure` is, in words
    laptop: Scale
    smoke: Scale
    paper: Paper
    also: tuple[SecondMeasure, ...] = ()
    rule: Rule = Rule()
    note: str = ""  # where the experiment differs from the paper's, and why
    judge: Callable[[Mapping[str, np.ndarray], Rule], list[Effect]] | None = None  # in place of differences of means
    judged_by: str = ""  # the rule in words, where `judge` has its own


def environments(claim: Claim) -> dict[str, str]:
    """Return the ids of the environments of arms that have another than the claim's."""
    return {label: arm.environment for label, arm in claim.arms.items() if isinstance(arm.environment, str)}


def effects(claim: Claim, values: Mapping[str, np.ndarray]) -> list[Effect]:
    """Compare the treatment with every baseline, from each arm's numbers."""
    if claim.judge is not None:
        return claim.judge(values, claim.rule)
    found = []
    for baseline in claim.baselines:
        better, worse = values[claim.treatment], values[baseline]
        if not claim.rule.higher:
            better, worse = worse, better
        value, low, high = welch_difference(better, worse, claim.rule.confidence)
        found.append(Effect(baseline, value, low, high, interval_verdict(low, high, claim.rule.margin)))
    return found


def interval_verdict(low: float, high: float, margin: float) -> str:
    """Return the verdict of an interval on an effect that must be larger than `margin`."""
    if low > margin:
        return "holds"
    return "fails" if high < margin else "undecided"


def join_verdicts(found: list[Effect]) -> str:
    """Join the verdicts of all comparisons: the claim holds against every baseline, or fails against one."""
    said = {effect.verdict for effect in found}
    if "fails" in said:
        return "fails"
    return "undecided" if "undecided" in said else "holds"


def evaluation_return(run: Run) -> list[float]:
    """Return the mean return of the evaluation after training."""
    assert run.evaluation is not None
    return [float(value) for value in run.evaluation["return"]]


def area(run: Run) -> list[float]:
    """Return the mean return over the whole of training: the area under the learning curve, over its length.

    What was seen before the first episode ended counts as the first episode did.
    """
    steps, values = run.curve()
    result = []
    for row in values:
        known = np.isfinite(row)
        filled = np.interp(steps, steps[known], row[known])
        result.append(float(np.trapezoid(filled, steps) / (steps[-1] - steps[0])))
    return result


def late(name: str, share: float = 0.1) -> Measure:
    """Return the mean of a metric over the last `share` of training."""

    def measure(run: Run) -> list[float]:
        rows = run.rows
        rows = rows[-max(1, round(share * len(rows))) :]
        return [float(np.mean([row[name][i] for row in rows])) for i in range(len(rows[0][name]))]

    return measure
