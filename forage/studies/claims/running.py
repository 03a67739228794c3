"""The runner of claims: it trains the arms one after another, measures, judges, and writes a result and a picture."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from forage.config import registry
from forage.config.defaults import default_memory
from forage.config.options import PORTS
from forage.config.resolve import resolve
from forage.core.mesh import prepare_devices
from forage.core.plain import dumps
from forage.core.types import ForageError
from forage.evaluation.statistics import score
from forage.runs import display as progress
from forage.runs import training
from forage.runs.changes import flatten_config, without_address
from forage.runs.locking import lock_directory
from forage.runs.provenance import differences
from forage.runs.run import Run, read_json, write_json
from forage.studies.claims import claim_row
from forage.studies.claims.building import build_claim
from forage.studies.claims.claim import (
    Claim,
    Measure,
    Scale,
    SecondMeasure,
    effects,
    environments,
    exclusion_sentences,
    join_verdicts,
    judged_arms,
    refusal,
)
from forage.studies.claims.picture import draw_claim
from forage.studies.claims.published import (
    RESULTS,
    ROOT,
    claim_commit,
    code_here,
    published_results,
    reuse_sentence,
    uncommitted_modules,
)

SCALES = ("laptop", "smoke", "paper")
SMOKE_CAPACITY = 10_000
KEPT_POINTS = 50  # of each curve, in the result
CLAIM_RUNS = Path("runs") / "claims"
CODE = "code.json"
SHARED = "shared.json"


def load_claim(name: str) -> Claim:
    """Return the claim of this name. Raise `ForageError` with the nearest names."""
    return build_claim(claim_row(name))


def run(
    name: str,
    scale: str = "laptop",
    directory: str | os.PathLike[str] | None = None,
    display: str = "auto",
    anyway: bool = False,
    seeds: tuple[int, ...] | None = None,
) -> dict[str, Any]:
    """Run a claim, or resume it after a stop. Return the content of result.json.

    `scale`: `laptop` (minutes to an hour on two cores), `smoke` (seconds; its verdict means nothing) or `paper`, the
    paper's own setting, which is refused without an accelerator unless `anyway`. `seeds`: other seeds than the scale's.
    At other scales than `smoke`, all
    modules that its runs import must be committed if git is present: the result names the commit, so that it can be
    checked.
    """
    claim = load_claim(name)
    if scale not in SCALES:
        raise ForageError(f"A claim runs at the scale {', '.join(SCALES)}, not {scale!r}.")
    size = size_of(claim, scale)
    if seeds is not None:
        size = size._replace(seeds=seeds)
    paper = claim.paper
    there = f"{paper.seeds} seeds of {paper.steps:,} steps in {paper.environment} for each of {len(claim.arms)} arms"
    if scale == "paper" and paper.lacks:
        raise ForageError(f"{name} cannot run at the paper's scale ({there}): {paper.lacks}; --scale laptop works.")
    if scale == "paper" and jax.default_backend() == "cpu" and not anyway:
        raise ForageError(
            f"At the paper's scale {name} trains {there}, which needs {paper.needs}; there is no accelerator here, and "
            f"--anyway starts it all the same."
        )
    if scale != "smoke" and (changed := uncommitted_modules(name)):
        more = f" and {len(changed) - 1} more have" if len(changed) > 1 else " has"
        raise ForageError(f"{changed[0]}{more} changes that are not committed; commit them before {name} is run.")
    path = Path(directory) if directory is not None else CLAIM_RUNS / f"{name}-{scale}"
    places = {slug(label): label for label in claim.arms}
    if len(places) != len(claim.arms):
        raise ForageError(f"Arms of {name} share a directory: {', '.join(claim.arms)} have only {', '.join(places)}.")
    made_by = {"claim_commit": claim_commit(name), "ran": code_here(name)._asdict()}
    if scale != "smoke":
        begin_claim(path, made_by, places, display)
    earlier = (
        [one.result for one in published_results().get(name, [])]
        if scale == "laptop" and made_by["ran"]["commit"]
        else []
    )
    if said := reuse_sentence(size.seeds, made_by["ran"]["fingerprint"], earlier):
        progress.make_display(display).note(f"What {name} finds now is not to be published: it would be of {said}.")
    progress.make_display(display).note(forecast(name, claim, size, scale))
    runs, seconds = {}, {}
    for number, label in enumerate(claim.arms, 1):
        progress.make_display(display).note(f"{name}, arm {number} of {len(claim.arms)}: {label}")
        started = time.monotonic()
        runs[label] = train_arm(claim, label, size, scale, path / slug(label), display)
        seconds[label] = round(max(runs[label].rows[-1]["seconds"], time.monotonic() - started), 1)
    values = {label: measure_run(claim.measure, run) for label, run in runs.items()}
    result = describe_result(name, claim, scale, size, runs, values, seconds) | made_by
    write_json(path / "result.json", result)
    draw_claim(path / "picture.png", result, environments(claim) if scale != "paper" else {})
    for done in runs.values():  # with replay they are gigabytes, and there is nothing to go on with
        shutil.rmtree(done.directory / "checkpoints", ignore_errors=True)
    return result


def forecast(name: str, claim: Claim, size: Scale, scale: str) -> str:
    """Describe the training of a claim, and the time that its newest published result took."""
    work = f"{name} trains {len(claim.arms)} arms, {len(size.seeds)} seeds of {size.steps:,} steps each"
    file = ROOT / RESULTS / f"{name}.json"
    seconds = read_json(file).get("seconds") if scale == "laptop" and file.exists() else None
    return f"{work}; its published runs took {progress.duration(seconds)}." if seconds else f"{work}."


def begin_claim(path: Path, made_by: dict[str, Any], places: Iterable[str], display: str) -> None:
    """Record the code that runs a claim; set aside runs of other code, as all arms must be of the same."""
    kept = path / CODE
    if kept.exists() and read_json(kept)["ran"]["fingerprint"] != made_by["ran"]["fingerprint"]:
        for place in (*places, *(f"{place}-before" for place in places)):
            if Run.begun(path / place):
                aside = set_aside(path / place)
                progress.make_display(display).note(
                    f"{path / place} was made by other code; it is kept as {aside.name}."
                )
    write_json(kept, made_by)


def size_of(claim: Claim, scale: str) -> Scale:
    if scale == "paper":
        return Scale(claim.paper.steps, tuple(range(1000, 1000 + claim.paper.seeds)))
    return claim.laptop if scale == "laptop" else claim.smoke


def train_arm(claim: Claim, label: str, size: Scale, scale: str, directory: Path, display: str) -> Run:
    """Load, resume or start the run of one arm; a run of another arm found there is set aside.

    An arm that another claim trained with the same settings and code is copied from there.
    """
    agent, environment, words = arm_words(claim, label, size, scale, directory, display)
    if Run.begun(directory):
        config = Run(directory).config
        if config["steps"] != words["steps"] or tuple(config["seeds"]) != size.seeds:
            raise ForageError(f"{directory} holds a run of another size; name another --directory or remove it.")
    elif scale == "laptop":
        equal = find_equal_run(agent, environment, directory, words)
        if equal is not None and copy_run(claim, equal, directory):
            progress.make_display(display).note(f"{label} is copied from {equal}: it has the same settings and code.")
    return load_or_train(agent, environment, directory, display, **words)


def arm_words(
    claim: Claim, label: str, size: Scale, scale: str, directory: Path, display: str
) -> tuple[str, Any, dict[str, Any]]:
    """Return an arm's agent, its environment and the other arguments of `forage.train`, and train the run before it."""
    arm = claim.arms[label]
    environment, options = arm.environment or claim.environment, dict(arm.options)
    if scale == "paper":
        environment = claim.paper.environment
        options |= {**claim.paper.options, **claim.paper.arms.get(label, {})}
    if callable(environment):
        environment = environment()
    common = {"evaluation_actions": "greedy", "seeds": size.seeds}
    parts = arm.parts()
    options |= parts.pop("agent_options", {})  # those that have to be made first, such as files
    if scale == "smoke" and "data" not in parts:
        parts = with_little_memory(arm.agent, parts)
    if (before := arm.before) is not None:
        start = directory.with_name(f"{directory.name}-before")
        given = before.parts()
        made = dict(before.options) | given.pop("agent_options", {})
        words = {"steps": size.steps if scale == "smoke" else before.steps, "agent_options": made}
        load_or_train(before.agent, environment, start, display, **given, **words, **common)
        parts |= {"start_from": str(start)}
    steps = arm.steps if arm.steps is not None and scale == "laptop" else size.steps
    return arm.agent, environment, parts | {"steps": steps, "agent_options": options} | common


def find_equal_run(agent: str, environment: Any, directory: Path, words: dict[str, Any]) -> Path | None:
    """Return the finished run of an arm of another claim with the same settings, by the same commit."""
    commit = read_json(directory.parent / CODE)["ran"]["commit"]
    if not commit:
        return None
    for code in sorted(path for depth in ("*", "*/*") for path in CLAIM_RUNS.glob(f"{depth}/{CODE}")):
        if read_json(code)["ran"]["commit"] != commit or code.parent == directory.parent:
            continue
        for evaluation in sorted(code.parent.glob("*/evaluation.json")):
            config = Run(evaluation.parent).config
            same = config["steps"] == words["steps"] and tuple(config["seeds"]) == words["seeds"]
            if same and not config_mismatch(config, agent, environment, words, evaluation.parent):
                return evaluation.parent
    return None


def copy_run(claim: Claim, equal: Path, directory: Path) -> bool:
    """Copy an equal run, with its origin; return whether the claim can be measured on the copy."""
    origin = read_json(equal / SHARED) if (equal / SHARED).exists() else {"run": f"{equal.parent.name}/{equal.name}"}
    partial = directory.with_name(f"{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(equal, partial)
    try:
        measure_run(claim.measure, Run(partial))
        for also in claim.also:
            measure_run(also.measure, Run(partial), f"measured-{slug(also.measured)}")
    except ForageError:  # its checkpoints are gone
        shutil.rmtree(partial)
        return False
    write_json(partial / SHARED, origin)
    partial.rename(directory)
    return True


def load_or_train(agent: str, environment: Any, directory: Path, display: str, **words: Any) -> Run:
    """Load, resume or start the run of these arguments of `forage.train`.

    A run of other settings or other code in the directory is set aside.
    """
    if Run.begun(directory) and (other := config_mismatch(Run(directory).config, agent, environment, words, directory)):
        aside = set_aside(directory)
        progress.make_display(display).note(
            f"{directory} was made with {other}; it is kept as {aside.name}, and this one is trained anew."
        )
    return training.train_or_resume(agent, environment, directory=directory, display=display, **words)


def config_mismatch(
    stored: dict[str, Any], agent: str, environment: Any, words: dict[str, Any], directory: Path
) -> str:
    """Describe the differences between a stored run and a new one of `forage.train`; empty if there are none."""
    of_setup = {*inspect.signature(resolve).parameters, *PORTS}
    setup = resolve(agent, environment, **{name: value for name, value in words.items() if name in of_setup})
    wanted = setup.config() | {name: value for name, value in words.items() if name not in of_setup}
    now = flatten_config(json.loads(dumps(wanted)))
    then = flatten_config({name: stored.get(name) for name in wanted})
    differing = [n for n in now | then if without_address(then.get(n, "")) != without_address(now.get(n, ""))]
    if differing:
        return f"other settings ({', '.join(differing)})"
    # As for a run that is gone on with: before a look at the versions makes JAX settle on its devices.
    prepare_devices(len(setup.members), stored.get("devices"))
    return differences(read_json(directory / "versions.json"))


def set_aside(directory: Path) -> Path:
    """Rename a run's directory to a new name next to it, and return that. No process may be training it."""
    number = 1
    while (aside := directory.with_name(f"{directory.name}-before-{number}")).exists():
        number += 1
    with lock_directory(directory):
        return directory.rename(aside)


def measure_run(measure: Measure, run: Run, name: str = "measured") -> np.ndarray:
    """Return one number for each seed. It is stored in the run's directory, as its checkpoints may be deleted later.

    A value stored by another measure is not used; a second measure is stored under another `name`.
    """
    path = run.directory / f"{name}.json"
    measure_now = recipe(measure)
    if not run.checkpoints and path.exists() and (kept := read_json(path))["measure"] == measure_now:
        return np.array(kept["values"], float)
    try:
        values = np.array(measure(run), float)
    except ForageError as error:
        if run.checkpoints:
            raise
        raise ForageError(
            f"{run.directory} is over and cannot be measured anew ({str(error).rstrip('.')}); remove it, and the arm "
            f"is trained again."
        ) from None
    write_json(path, {"measure": measure_now, "values": values.tolist()})
    return values


def recipe(measure: Measure) -> str:
    """Return the identity of a measure: its source, and the numbers and texts that it takes from its surroundings."""
    around = inspect.getclosurevars(measure)
    names = {**around.globals, **around.nonlocals}
    plain = {name: value for name, value in names.items() if isinstance(value, int | float | str | list | tuple)}
    return f"{inspect.getsource(measure)}# {plain}"


def with_little_memory(agent: str, parts: dict[str, Any]) -> dict[str, Any]:
    """Return a small replay memory for a smoke run if the agent has one: zeroing hundreds of megabytes takes longer
    than learning.
    """
    memory: Any = parts.get("memory") or default_memory(registry.part_class("agent", agent)())
    if isinstance(memory, str):
        memory = registry.build("memory", memory, {})
    if getattr(memory, "capacity", 0) <= SMOKE_CAPACITY:
        return parts
    return parts | {"memory": dataclasses.replace(memory, capacity=SMOKE_CAPACITY)}


def describe_result(
    name: str,
    claim: Claim,
    scale: str,
    size: Scale,
    runs: Mapping[str, Run],
    values: Mapping[str, np.ndarray],
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """Return the claim, its experiment and its findings, as plain data."""
    found = effects(claim, values)
    also = [second_measure(claim, one, runs) for one in claim.also]
    environment = claim.paper.environment if scale == "paper" else next(iter(runs.values())).config["spec"]["name"]
    arms = {}
    made = max((run_versions(run) for run in runs.values()), key=lambda one: one["date"])
    for label, run in runs.items():
        total = score(values[label])
        steps, returns = run.curve()
        every = max(1, len(steps) // KEPT_POINTS)
        arms[label] = {
            "values": values[label].tolist(),
            "score": total.value,
            "interval": None if total.low is None else [total.low, total.high],
            "seconds": seconds[label],
            "agent": run.config["agent"],
            "steps": run.rows[-1]["steps"],
            **({"shared": read_json(run.directory / SHARED)["run"]} if (run.directory / SHARED).exists() else {}),
            "curve": {"steps": steps[::-every][::-1].tolist(), "return": rounded_values(returns[:, ::-every][:, ::-1])},
        }
    return {
        "claim": name,
        "title": claim.title,
        "authors": claim.authors,
        "year": claim.year,
        "arxiv": claim.arxiv,
        "statement": claim.statement,
        "note": claim.note,
        "measured": claim.measured,
        "scale": scale,
        "environment": environment,
        "steps": size.steps,
        "seeds": list(size.seeds),
        "treatment": claim.treatment,
        "rule": claim.rule._asdict(),
        "arms": arms,
        "effects": [effect._asdict() for effect in found],
        "verdict": join_verdicts(found),
        **({"also": also} if also else {}),
        "seconds": round(sum(seconds.values()), 1),
        "date": made["date"],
        "versions": {name: value for name, value in made.items() if name != "date"},
    }


def second_measure(claim: Claim, also: SecondMeasure, runs: Mapping[str, Run]) -> dict[str, Any]:
    """Return a second measure's values for every arm, and its effects."""
    values = {label: measure_run(also.measure, run, f"measured-{slug(also.measured)}") for label, run in runs.items()}
    return {
        "measured": also.measured,
        "values": {label: found.tolist() for label, found in values.items()},
        "effects": [effect._asdict() for effect in also.effects(claim, values)],
    }


def run_versions(run: Run) -> dict[str, Any]:
    """Return the versions that a run was trained with, and its date."""
    over = datetime.date.fromtimestamp((run.directory / "evaluation.json").stat().st_mtime)
    unsaid = {"date": over.isoformat(), "cores": os.cpu_count()}  # in a run of a time when these were not kept
    return unsaid | read_json(run.directory / "versions.json")


def rounded_values(values: np.ndarray) -> list[list[float | None]]:
    """Four digits are enough for a picture, and NaN is not JSON."""
    return [[None if np.isnan(v) else float(f"{v:.4g}") for v in row] for row in values]


def slug(label: str) -> str:
    """Return a label as the name of a directory."""
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-")


def result_sentences(result: Mapping[str, Any]) -> list[str]:
    """Describe a result, line by line."""
    measured = result["measured"]
    place = f"arXiv {result['arxiv']}" if result["arxiv"][0].isdigit() else result["arxiv"]
    lines = [f"{result['claim']}: {result['statement']}", f"  {result['title']}, {place}"]
    for label, arm in result["arms"].items():
        interval = "" if arm["interval"] is None else f" [{arm['interval'][0]:.4g}, {arm['interval'][1]:.4g}]"
        lines.append(f"  {label}: {measured} {arm['score']:.4g}{interval}, {arm['seconds']:.0f} s")
    for where in (result, *result.get("also", ())):
        if where is not result:
            lines.append(f"  Beside it, {where['measured']}, which does not decide:")
        for effect in where["effects"]:
            lines.append(
                f"  {result['treatment']} against {effect['baseline']}: {effect['value']:+.4g} "
                f"[{effect['low']:.4g}, {effect['high']:.4g}], {effect['verdict']}"
            )
    claim = load_claim(result["claim"])
    values = {label: np.array(arm["values"]) for label, arm in result["arms"].items()}
    refused = refusal(judged_arms(claim, values), claim.reach)
    lines += [f"  {line}" for line in ([refused] if refused else exclusion_sentences(result, claim.reach))]
    seeds = len(result["seeds"])
    lines.append(f"  {result['verdict']}, at the scale {result['scale']}, {seeds} seeds of {result['steps']:,} steps")
    return lines
