"""The sentences of a run: its introduction at the start, and its conclusion with pictures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from forage.config.run_config import RunConfig
from forage.core.ports import Environment, Evolver
from forage.core.records import printable, range_in
from forage.core.schedule import is_schedule
from forage.core.spaces import reading
from forage.evaluation.maps import heat_map
from forage.evaluation.statistics import by_setting
from forage.loop.runner import Runner, time_shares
from forage.memory.around import innermost
from forage.memory.dataset import DataSet
from forage.memory.mixed import MixedReplay
from forage.memory.texts import TextSet
from forage.rewards.environment import EnvironmentReward
from forage.runs.changes import flatten_config, history_sentences, record_event
from forage.runs.curve import NEWEST
from forage.runs.display import duration
from forage.runs.run import Run, draw_curve, draw_sweep, score_data, write_json
from forage.runs.scoring import normalised_words, score_lines


def conclude(
    directory: Path,
    setup: RunConfig,
    runner: Runner,
    evaluation: dict[str, Any],
    took: tuple[float, float],
    spent: dict[str, float],
    stopped: str = "",
) -> tuple[dict[str, Any], list[str]]:
    """Write the evaluation and the pictures of a run. Return its result as data, and as lines to show.

    `took`: the seconds of training, and of the evaluation behind the score. `spent`: seconds of this session by
    activity; empty if nothing was left to do. `stopped`: the reason why training ended before its last step, which is
    recorded.
    """
    if stopped:
        record_event(Run(directory), "stopped", runner.steps, {"reason": stopped})
    write_json(directory / "evaluation.json", evaluation)
    if spent:
        write_json(directory / "time.json", {name: round(took, 3) for name, took in spent.items()})
    picture, settings = draw_curve(Run(directory)), draw_sweep(Run(directory))
    where = write_visits(directory, setup, runner)
    scores = by_setting(setup.members, evaluation["return"], within=range_in(evaluation))
    lines, ends = [], Run(directory).config.get("ends")
    for label, found in scores.items():
        what = f" with {label}" if label else ""
        lines.append(f"{setup.names['agent']} on {setup.name}{what}: return {found}")
        lines += [f"  {line}" for line in normalised_words(found, ends)]
    seconds, evaluating = took
    unit = "updates" if setup.offline else "steps"
    speed = len(setup.members) * runner.steps / max(seconds, 1e-9)
    lines += [
        *(f"  {line}" for line in score_lines(evaluation)),
        *([f"  stopped after {runner.steps:,} of {setup.steps:,} {unit}: {stopped}"] if stopped else []),
        f"  {runner.steps:,} {unit} a seed in {duration(seconds)} ({speed:,.0f} steps/s, compiling included)"
        + (f", then {duration(evaluating)} of evaluation" if evaluating >= 1 else ""),
        *([f"  time: {time_shares(spent)}"] if spent else []),
        f"  curve {picture}"
        + (f", score by value {settings}" if settings else "")
        + (f", visits {where}" if where else ""),
        f"  watch it: forage watch {directory}",
    ]
    result = {
        "directory": str(directory),
        "agent": setup.names["agent"],
        "environment": setup.name,
        "steps": runner.steps,
        "seconds": round(seconds, 3),
        "evaluation_seconds": round(evaluating, 3),
        **score_data(scores, evaluation, ends),
        "return": evaluation["return"],
        **({"stopped": stopped} if stopped else {}),
    }
    return result, lines


def conclude_unscored(
    directory: Path,
    setup: RunConfig,
    runner: Runner,
    rows: list[dict[str, Any]],
    seconds: float,
    spent: dict[str, float],
) -> tuple[dict[str, Any], list[str]]:
    """Return the result of a run without an environment as data, and as lines to show: no score, but held episodes.

    `rows`: the points of its curve. `seconds`: of training. `spent`: as for `conclude`.
    """
    if spent:
        write_json(directory / "time.json", {name: round(took, 3) for name, took in spent.items()})
    memory = innermost(setup.memory)
    file = memory.file if isinstance(memory, DataSet) else setup.name
    last = rows[-1] if rows else {}
    held = {name: values for name, values in last.items() if name.startswith(("validation/", "start/"))}
    speed = len(setup.members) * runner.steps / max(seconds, 1e-9)
    lines = [f"{setup.names['agent']} on {setup.name}: nothing was played, so there is no score"]
    unit = "rows" if isinstance(memory, TextSet) else "episodes"
    lines += [f"  {line}" for line in validation_lines(rows, getattr(memory, "held_out", 0.0), unit)]
    lines += [
        f"  {runner.steps:,} updates a seed in {duration(seconds)} ({speed:,.0f} steps/s, compiling included)",
        *([f"  time: {time_shares(spent)}"] if spent else []),
        *([] if isinstance(memory, TextSet) else [f"  its value from data: forage estimate {directory} --data {file}"]),
    ]
    result = {
        "directory": str(directory),
        "agent": setup.names["agent"],
        "environment": None,
        "data": file,
        "steps": runner.steps,
        "seconds": round(seconds, 3),
        **held,
    }
    return result, lines


def validation_lines(rows: list[dict[str, Any]], share: float, unit: str = "episodes") -> list[str]:
    """Describe the metrics of held episodes at the last point of a curve, each as a mean over members.

    `unit`: the name of what was held out.
    """

    def mean(row: dict[str, Any], name: str) -> float:
        known = [value for value in row.get(name, []) if value is not None]
        return float(np.mean(known)) if known else float("nan")

    if not rows:
        return []
    first, last = rows[0], rows[-1]
    losses = [name for name in last if name.startswith("validation/") and name.endswith(("loss", "error", "accuracy"))]
    values = [name for name in last if name.startswith("start/")]
    lines = []
    if losses:
        each = [f"{n[11:].replace('_', ' ')} {mean(last, n):.4g} (first {mean(first, n):.4g})" for n in losses]
        held = f"{share:.0%} of the {unit} were held out" if share else f"{unit} that were held out"
        lines.append(f"{held}: {', '.join(each)}")
    if values:
        each = (f"{name[6:].replace('_', ' ')} {mean(last, name):.4g}" for name in values)
        lines.append(f"at their starts: {', '.join(each)}, by the agent's own estimate, which nobody has tested")
    return lines


def write_visits(directory: Path, setup: RunConfig, runner: Runner) -> Path | None:
    """Write the steps into each cell of the map and the episodes started there, and draw both in one picture.

    They are `visits.npy` and `begun.npy`, `[member, ...]`; return `None` if the run does not count them.
    """
    counts = runner.visits
    if counts is None:
        return None
    with (directory / "visits.npy").open("wb") as file:
        np.save(file, counts)
    title, seen = f"{Run(directory).title}: where it went", counts.sum(0)
    if runner.start_counts is not None:
        with (directory / "begun.npy").open("wb") as file:
            np.save(file, runner.start_counts)
        seen = seen + runner.start_counts.sum(0)
    reachable = setup.environment.reachable() if isinstance(setup.environment, Environment) else None
    return heat_map(directory / "visits.png", seen, title, reachable)


def device_failure(error: Exception, steps: int) -> str:
    """Describe an error that JAX raised while a compiled program ran, in one sentence."""
    text = str(error)
    if "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
        return f"There was not enough memory after step {steps:,}; fewer seeds, a smaller memory or network takes less."
    last = text.strip().splitlines()[-1].strip() if text.strip() else type(error).__name__
    return f"A compiled part of the loop failed after step {steps:,}: {last.rstrip('.')}."


def describe_run(run: Run) -> list[str]:
    """Describe a run in lines: its scores, its parent, its history and all its settings."""
    config, evaluation = run.config, run.evaluation
    directory = printable(str(run.directory))
    seeds = ", ".join(map(str, config["seeds"]))
    lines = [f"{run.title}: run", "", f"{config['steps']:,} steps of each seed, seeds {seeds}, in {directory}"]
    if evaluation is None and "data" in config["environment"]:
        lines.append("learned from data alone, so it has no score")
        share, unit = config["memory"].get("held_out", 0.0), "rows" if "kinds" in config["memory"] else "episodes"
        lines += [f"  {line}" for line in validation_lines(run.rows, float(share), unit)]
    elif evaluation is None:
        lines.append(f"not evaluated; forage evaluate {directory} does it")
    else:
        for label, one in run.scores.items():
            lines.append(f"{f'with {label}: ' if label else ''}return {one}")
        lines += [f"  {line}" for line in score_lines(evaluation)]
    if said := history_sentences(run):
        lines += ["", "history", *(f"  {line}" for line in said)]
    shown = {name: value for name, value in config.items() if name not in ("spec", "parent", "seeds", "steps")}
    return [*lines, "", "settings", *(f"  {name:36} {value}" for name, value in flatten_config(shown).items())]


def title(setup: RunConfig) -> str:
    """Return the title of a run: agent, environment, and the number of settings and seeds."""
    seeds, settings = len(setup.seeds), setup.settings
    each = f"{seeds} seed{'s' if seeds > 1 else ''}"
    many = f"{settings} settings with {each} each" if settings > 1 else each
    return f"{setup.names['agent']} on {setup.name}, {many}"


def introduction(setup: RunConfig, directory: Path, steps: int, spread: str = "") -> list[str]:
    """Return the title of a run of `steps` and lines about its decisive settings.

    `spread`: the division of members among devices.
    """
    lines = [title(setup), f"in {directory}"]
    if wrapped := setup.environment_config.get("wrap"):
        lines.append(f"{setup.name} in {', '.join(wrapped)}")
    if setup.why:
        lines.append(f"{setup.names['agent']} because {setup.why}")
    if setup.settings_from:
        lines.append(f"{setup.settings_from}: {sizes(setup)}")
    if setup.left_out:
        lines.append(setup.left_out)
    if spread:
        lines.append(spread)
    memory = innermost(setup.memory) if setup.offline or setup.memory.mixes else setup.memory
    if isinstance(memory, MixedReplay):
        lines.append(f"{describe_share(memory.share)} of each batch from {', '.join(memory.data)}")
    if isinstance(memory, TextSet):
        lines += memory.describe(setup.agent.batch_size)
        if setup.scored:
            lines.append(f"evaluated in {setup.score_spec.name}")
            if isinstance(setup.environment, Callable):
                played = setup.environment(1)
                lines += memory.unlike_prompts(getattr(played, "prompt_end", ""), setup.score_spec.name)
                played.close()
    elif isinstance(memory, DataSet):
        what = "none is taken in the environment" if setup.scored else "nothing is played"
        held = f"; {memory.held_out:.0%} of its episodes are held out and measured" if memory.held_out else ""
        lines.append(f"from {memory.file}; each step is an update, and {what}{held}")
        lines += setup.reading_from
        if setup.evaluation_spec is not None:
            lines.append(f"evaluated in {setup.evaluation_spec.name}")
    else:
        lines.append(f"returns on the way are means of each seed's last {NEWEST} training episodes or more")
    if setup.steps_from:
        lines.append(f"{setup.steps:,} steps of each seed, {setup.steps_from}; --steps changes it")
    if isinstance(agent := setup.agent, Evolver):
        lines.append(
            f"steps are those played: each seed plays generations of {agent.num_envs} episodes while one of full "
            f"length fits into its {steps:,} steps (`played` says "
            f"how many it took)"
        )
    return lines + reading(setup.spec.observation_space)


def describe_share(share: Any) -> str:
    """Describe the share of data in each batch."""
    return f"a share that follows {share}" if is_schedule(share) else f"{share:.0%}"


def sizes(setup: RunConfig) -> str:
    """Return the settings that decide most, in a line."""
    agent = setup.agent
    names = ("learning_rate", "epochs", "minibatches", "entropy_coefficient", "normalise_observation", "batch_size")
    own = {field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)}
    own |= {name: " or ".join(f"{value:g}" for value in values) for name, values in setup.sweep.items()}
    said = [f"{n.replace('_', ' ')} {own[n]}" for n in names if own.get(n, False) is not False]
    said = [text.removesuffix(" True") for text in said]
    if not isinstance(setup.rewards, EnvironmentReward):
        said.append(f"rewards {setup.names['rewards']}")
    copies, length = agent.num_envs, agent.rollout_length
    each = f"{copies} environment{'s' * (copies > 1)} x {length} step{'s' * (length > 1)}"
    return ", ".join(said if setup.offline else [each, *said])
