"""Claims that take seeds until they are decided: looks at growing numbers of seeds, with one error for all.

A claim that has a published result of today's experiment and settings counts it as its first look, and goes on with
fresh seeds; another begins at 5 fresh seeds. Each further look doubles the number of seeds of every arm, until the rule
decides (`forage.evaluation.sequential`), there were five looks, or the next one would exceed the budget of seconds.
Each look is an ordinary run of the claim on its new seeds, in a folder of its own, and is resumed like one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.errors import ForageError
from forage.evaluation.sequential import FIRST, LOOKS
from forage.evaluation.statistics import score
from forage.runs import display as progress
from forage.runs.run import read_json, write_json
from forage.studies.claims import running
from forage.studies.claims.claim import (
    Claim,
    Rule,
    effects,
    environments,
    join_verdicts,
    judged_arms,
    refusal,
)
from forage.studies.claims.picture import draw_claim
from forage.studies.claims.published import (
    RESULTS,
    ROOT,
    experiment_here,
    experiment_of,
    published_results,
    settings_changed,
    settings_here,
)

FRESH = 10_000
"""The first seed that looks add; results without looks have lower ones."""

BUDGET = 600.0
"""Seconds of training that a claim may take, its first look included."""

SHARE = 0.1
"""The share of the distance between the ends of `reach` below which an effect is no difference."""


def decide(
    name: str,
    budget: float = BUDGET,
    directory: str | os.PathLike[str] | None = None,
    display: str = "auto",
) -> dict[str, Any]:
    """Run a claim at more and more seeds until it is decided. Return the content of result.json."""
    if not budget > 0:
        raise ForageError(f"A claim's budget is a number of seconds above 0, such as {BUDGET:.0f}, not {budget}.")
    claim = running.load_claim(name)
    path = Path(directory) if directory is not None else running.CLAIM_RUNS / f"{name}-decided"
    say = progress.make_display(display).note
    result = first_look(name, claim)
    if result is not None:
        say(f"The first look at {name} is its published result, of {len(result['seeds'])} seeds.")
        store_look(path, claim, result)
    while result is None or result["verdict"] == "undecided":
        if result is not None and (refused := refusal(judged_arms(claim, values_of(result)), claim.reach)):
            say(f"{name} is undecided, and more seeds would not decide it. {refused}")
            break
        known = [] if result is None else result["looks"]
        if len(known) == LOOKS:
            say(f"{name} is undecided after {LOOKS} looks.")
            break
        number = FIRST if result is None else len(result["seeds"])
        if result is not None and (total := 2 * result["seconds"]) > budget:
            say(f"{name} is undecided: its next look would make it {total:.0f} seconds, more than {budget:.0f}.")
            break
        seeds = next_seeds([] if result is None else result["seeds"], number)
        one = running.run(name, "laptop", path / f"look-{len(known) + 1}", display, seeds=seeds)
        result = add_look(claim, result, one)
        store_look(path, claim, result)
    assert result is not None
    return result


def store_look(path: Path, claim: Claim, result: Mapping[str, Any]) -> None:
    """Write the result of all looks so far, and its picture, into the directory `path`."""
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / "result.json", result)
    draw_claim(path / "picture.png", result, environments(claim))


def first_look(name: str, claim: Claim) -> dict[str, Any] | None:
    """Return the newest published result of today's experiment and settings, judged as a look; `None` without one."""
    file = ROOT / RESULTS / f"{name}.json"
    if not file.exists():
        return None
    result = read_json(file)
    published = [one for one in published_results().get(name, []) if one.result["seeds"] == result["seeds"]]
    if not published or experiment_of(published[-1]) != experiment_here(name):
        return None
    same = read_json(ROOT / "docs" / "claims" / "settings.json")["same"]
    if settings_changed(result, settings_here([name]).found[name], same):
        return None
    return judge_look(claim, result if "looks" in result else result | {"looks": [describe_look(result)]})


def next_seeds(former: Sequence[int], number: int) -> tuple[int, ...]:
    """Return `number` seeds above all former ones."""
    first = max(FRESH, *(seed + 1 for seed in former)) if former else FRESH
    return tuple(range(first, first + number))


def describe_look(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the seeds of a look and the code that ran them."""
    return {
        key: result[key] for key in ("seeds", "ran", "claim_commit", "date", "seconds", "versions") if key in result
    }


def add_look(claim: Claim, former: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """Join a run of new seeds with the looks before it, and judge all of them."""
    if former is None:
        return judge_look(claim, {**new, "looks": [describe_look(new)]})
    arms = {label: join_arm(former["arms"][label], arm) for label, arm in new["arms"].items()}
    joined = {
        **new,
        "arms": arms,
        "seeds": [*former["seeds"], *new["seeds"]],
        "seconds": round(former["seconds"] + new["seconds"], 1),
        "looks": [*former["looks"], describe_look(new)],
    }
    if "also" in new:
        earlier = {one["measured"]: one["values"] for one in former.get("also", ())}
        joined["also"] = [
            one | {"values": {label: [*earlier[one["measured"]][label], *own] for label, own in one["values"].items()}}
            for one in new["also"]
            if one["measured"] in earlier
        ]
    return judge_look(claim, joined)


def join_arm(former: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Join an arm's values of two looks, and its curves if they have the same steps; else the longer look's stay."""
    values = [*former["values"], *new["values"]]
    curve = max((former, new), key=lambda one: len(one["values"]))["curve"]
    if former["curve"]["steps"] == new["curve"]["steps"]:
        curve = new["curve"] | {"return": [*former["curve"]["return"], *new["curve"]["return"]]}
    total = score(np.array(values))
    interval = None if total.low is None else [total.low, total.high]
    seconds = round(former["seconds"] + new["seconds"], 1)
    return {**new, "values": values, "score": total.value, "interval": interval, "seconds": seconds, "curve": curve}


def judge_look(claim: Claim, result: Mapping[str, Any]) -> dict[str, Any]:
    """Judge a result by the rule of several looks."""
    rule = look_rule(claim)
    claim = claim._replace(rule=rule)
    found = effects(claim, values_of(result))
    judged = {"rule": rule._asdict(), "effects": [one._asdict() for one in found], "verdict": join_verdicts(found)}
    if "also" in result:
        measures = {one.measured: one for one in claim.also}
        judged["also"] = [
            one | {"effects": [effect._asdict() for effect in measures[one["measured"]].effects(claim, arrays(one))]}
            for one in result["also"]
            if one["measured"] in measures
        ]
    return {**result, **judged}


def values_of(result: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the values of each arm as arrays."""
    return {label: np.array(arm["values"]) for label, arm in result["arms"].items()}


def arrays(also: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the values of a second measure as arrays."""
    return {label: np.array(values) for label, values in also["values"].items()}


def look_rule(claim: Claim) -> Rule:
    """Return a claim's rule for several looks; without its `reach`, every effect is a difference."""
    same = SHARE * abs(claim.reach[1] - claim.reach[0]) if claim.reach is not None else 0.0
    return claim.rule._replace(looks=LOOKS, same=same)
