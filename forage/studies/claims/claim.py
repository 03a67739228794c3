"""A claim: a paper's statement, the arms of the experiment that tests it, and the rule of its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from forage.evaluation.sequential import look_confidence, repeated_interval
from forage.runs.run import Run

SEEDS = tuple(range(1000, 1010))
"""Seeds that no search for presets used: presets were tuned on 0 to 4, learning rows use those from 100."""

NEAR = 0.05
"""The share of `reach` within which an arm is at one of its ends."""

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
        return effects(claim._replace(rule=claim.rule._replace(higher=higher), reach=None), values)


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
    the interval of one of `looks` looks (`repeated_interval`; with one look it is Welch's, or Student's of paired
    seeds). The claim holds where the whole interval lies above `margin` and fails where it lies below. Where the margin
    is 0 and the interval lies within `same` on both sides, there is no difference. Otherwise, the claim is undecided.
    """

    margin: float = 0.0
    higher: bool = True  # more of the measure is better
    confidence: float = 0.95  # of all looks together
    looks: int = 1  # the most numbers of seeds at which it is judged
    same: float = 0.0  # the largest effect, up or down, that is no difference; 0: every effect is one
    paired: bool = False  # a seed decides the same in all arms, so its differences are judged

    def at_a_look(self) -> Rule:
        """Return the rule of a single look, with the confidence of its interval."""
        return self._replace(confidence=look_confidence(self.looks, self.confidence), looks=1)

    def verdict(self, low: float, high: float) -> str:
        """Return the verdict of an interval on an effect."""
        said = interval_verdict(low, high, self.margin)
        if said == "undecided" and not self.margin and -self.same < low and high < self.same:
            return "no difference"
        return said


class Effect(NamedTuple):
    """The treatment against one baseline."""

    baseline: str
    value: float
    low: float
    high: float
    verdict: str  # holds, fails, no difference or undecided


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
    reach: tuple[float, float] | None = None  # the measure of an arm that learns nothing, and of one that has learned


def environments(claim: Claim) -> dict[str, str]:
    """Return the ids of the environments of arms that have another than the claim's."""
    return {label: arm.environment for label, arm in claim.arms.items() if isinstance(arm.environment, str)}


def effects(claim: Claim, values: Mapping[str, np.ndarray]) -> list[Effect]:
    """Compare the treatment with every baseline, from each arm's numbers; undecided where they allow no verdict."""
    found = compare_arms(claim, values)
    refused = refusal(judged_arms(claim, values), claim.reach)
    return [one._replace(verdict="undecided") for one in found] if refused else found


def judged_arms(claim: Claim, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the numbers of the treatment and its baselines; those of all arms where the claim has its own judge."""
    labels = values if claim.judge is not None else (claim.treatment, *claim.baselines)
    return {label: values[label] for label in labels}


def refusal(judged: Mapping[str, np.ndarray], reach: Sequence[float] | None) -> str:
    """Return the reason why the numbers of the judged arms allow no verdict, as a sentence; empty if they do.

    They allow none where all are the same, and where the means of all arms lie within a twentieth of the same end of
    `reach`: the experiment could not have shown a difference.
    """
    if not judged:
        return ""
    everything = np.concatenate([np.ravel(values) for values in judged.values()])
    if np.isfinite(everything).all() and np.ptp(everything) == 0:
        return f"There is no verdict, as every seed of every judged arm has {everything[0]:.4g}."
    if reach is None:
        return ""
    floor, learned = reach
    shares = [(float(np.mean(values)) - floor) / (learned - floor) for values in judged.values()]
    if max(shares) <= NEAR:
        return f"There is no verdict, as no judged arm learned: all are within {NEAR:.0%} of {floor:.4g}, or worse."
    if min(shares) >= 1 - NEAR:
        return (
            f"There is no verdict, as every judged arm is at the ceiling: all are within {NEAR:.0%} of {learned:.4g}, "
            f"or better."
        )
    return ""


def compare_arms(claim: Claim, values: Mapping[str, np.ndarray]) -> list[Effect]:
    """Compare the treatment with every baseline by the claim's rule."""
    rule = claim.rule
    if claim.judge is not None:
        return claim.judge(values, rule.at_a_look())
    found = []
    for baseline in claim.baselines:
        better, worse = values[claim.treatment], values[baseline]
        if not rule.higher:
            better, worse = worse, better
        value, low, high = repeated_interval(better, worse, rule.looks, rule.confidence, rule.paired)
        found.append(Effect(baseline, value, low, high, rule.verdict(low, high)))
    return found


def interval_verdict(low: float, high: float, margin: float) -> str:
    """Return the verdict of an interval on an effect that must be larger than `margin`."""
    if low > margin:
        return "holds"
    return "fails" if high < margin else "undecided"


def join_verdicts(found: list[Effect]) -> str:
    """Join the verdicts of all comparisons.

    The claim holds against every baseline, or fails against one. If one comparison is undecided, so is the claim; else
    there is no difference from at least one baseline.
    """
    said = {effect.verdict for effect in found}
    return next((one for one in ("fails", "undecided", "no difference") if one in said), "holds")


def exclusion_sentences(result: Mapping[str, Any], reach: Sequence[float] | None) -> list[str]:
    """Describe the effects that the intervals of an undecided result exclude, in the measure and as shares of `reach`.

    The share is of the distance between an arm that learns nothing and one that has learned.
    """
    said = []
    for one in result["effects"]:
        if one["verdict"] not in ("undecided", "no difference") or not np.isfinite([one["low"], one["high"]]).all():
            continue
        more, less = max(one["high"], 0.0), max(-one["low"], 0.0)
        scale = abs(reach[1] - reach[0]) if reach is not None else 0.0
        shares = f", {more / scale:.0%} and {less / scale:.0%} of all there is to learn" if scale else ""
        said.append(
            f"Against {one['baseline']}, the interval excludes that {result['treatment']} is better by more than "
            f"{more:.3g} or worse by more than {less:.3g}{shares}."
        )
    return said


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
