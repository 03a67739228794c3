"""Tuning: a search on tuning seeds, then a comparison of the best with the default on unseen test seeds."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forage.config.checks import seed_numbers
from forage.config.options import AUTO, PORTS
from forage.config.part_data import to_config
from forage.config.part_options import fields
from forage.config.ranges import check_call
from forage.config.resolve import resolve
from forage.config.run_config import RunConfig
from forage.core.errors import RunInterrupted
from forage.core.plain import dumps
from forage.core.ports.checking import check_agent
from forage.core.schedule import with_plain_numbers
from forage.core.storage import archives
from forage.core.types import ForageError
from forage.evaluation.statistics import score
from forage.runs import display as progress
from forage.runs import training
from forage.runs.locking import hold_new_directory, try_lock, wait_for_lock
from forage.runs.provenance import versions
from forage.runs.run import Run, check_no_others, read_json, write_json
from forage.runs.scoring import counting_sentences
from forage.studies.comparison.verdicts import comparison_words, with_mean
from forage.studies.tuning.population import PARTS, check_population, evolve, replay_schedule
from forage.studies.tuning.search import METHODS, Plan, Trial, best_trial, load_optuna, read_trials, run_trials
from forage.studies.tuning.shared import check_storage, run_shared_trials
from forage.studies.tuning.space import is_traced, parse_range, with_settings

TUNING = (0, 1, 2)
TEST = 5000  # the first of the seeds that the best and the default are judged on
POPULATION = 10_000  # the seed of a population's first member


def tune(
    agent: str,
    environment: Any,
    space: Sequence[str] = (),
    *,
    method: str = "tpe",
    trials: int = 32,
    steps: int | str | None = None,
    tuning_seeds: int | Sequence[int] = TUNING,
    seeds: int | Sequence[int] = 10,
    batch: int = 8,
    episodes: int | None = None,
    directory: str | os.PathLike[str] | None = None,
    display: str = "auto",
    evaluation_actions: str = "greedy",
    storage: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Search hyper-parameters and judge the best against the default. Return the content of tune.json.

    `space`: `learning_rate=1e-4:1e-2:log`, `epochs=1,4,10`, `memory.exponent=0.3:0.9`. `method`: `tpe`, `random`,
    `hyperband` or `pbt` (`trials` is then the population). Trials train on `tuning_seeds`, `batch` of them at once, and
    a population on seeds of its own, from 10,000 on; the best and the default are then trained on `seeds`. Both are
    numbers of seeds, from 0 and from 5,000 on, or lists of them, and must not overlap. `evaluation_actions` are
    `greedy` or `sampled`, for all trials. `options` as for `forage.train`. A search that was stopped continues when it
    is called again with the same directory. `storage`: `journal`, `sqlite` or the address of a database, by which
    processes with the same directory share one search, and take over from those that died.
    """
    check_call(
        tune,
        {
            "storage": storage,
            "space": space,
            "trials": trials,
            "batch": batch,
            "episodes": episodes,
            "directory": directory,
        },
    )
    methods = (*METHODS, "pbt")
    if method not in methods:
        raise ForageError(f"A search is by {', '.join(methods)}, not {method!r}.")
    if storage is not None:
        check_storage(storage, method)
    seeds = seed_numbers(seeds, TEST)
    population = [POPULATION + number for number in range(trials)] if method == "pbt" else seed_numbers(tuning_seeds)
    if shared := sorted(set(population) & set(seeds)):
        own = f" (a population trains on {population[0]} to {population[-1]})" if method == "pbt" else ""
        raise ForageError(
            f"Seeds for tuning and for testing are to be different, and {shared[0]} is among both{own}; what was tuned "
            f"on a seed says too much of itself there."
        )
    for what, number in (("trial", trials), ("trial at once", batch)):
        if number < 1:
            raise ForageError(f"A search takes 1 {what} or more, not {number}.")
    if not space:
        raise ForageError("A search needs --over NAME=LOW:HIGH, or choices NAME=A,B; again for another.")
    if evaluation_actions == AUTO:
        raise ForageError("All trials of a search are played one way: --evaluation-actions greedy or sampled.")
    options["evaluation_actions"] = evaluation_actions
    setup = resolve(agent, environment, steps=steps, seeds=population, **options)
    check_agent(with_plain_numbers(setup.agent), setup.spec)
    if not setup.native:
        setup.check_host()
    episodes = episodes or (32 if setup.native else 10)
    ranges = [parse_range(text, setup) for text in space]
    if len({one.name for one in ranges}) < len(ranges):
        raise ForageError("Each hyper-parameter is searched once; --over names one twice.")
    if method == "pbt":
        check_population(setup, ranges, trials)
    else:
        load_optuna()  # before anything is said or written
    if directory is not None and (Path(directory) / "config.json").exists():
        raise ForageError(f"{directory} holds a run; name another directory, where a search can be kept.")
    path = Path(directory) if directory is not None else training.new_directory(setup, ".tune")
    say = (lambda text: None) if display in ("quiet", "json") else (lambda text: print(text, flush=True))
    words = {
        "agent": agent, "environment": setup.environment_config, "space": list(space), "method": method,
        "steps": setup.steps, "tuning_seeds": population, "seeds": seeds, "episodes": episodes,
        "evaluation_actions": setup.evaluation_actions, "reward": setup.score_reward, "storage": storage,
        **{port: to_config(getattr(setup, port)) for port in PORTS},
    }  # fmt: skip
    check_directory(path, words)
    say(f"{agent} on {setup.name}: {method}, {trials} trials over {', '.join(one.name for one in ranges)}\n  in {path}")
    say(f"  {work(trials, method, setup, population, seeds)}")
    rows = path / ("population.jsonl" if method == "pbt" else "trials.jsonl")
    holding = hold_new_directory(path, lambda: not rows.exists()) if storage is None else contextlib.nullcontext()
    with holding:
        with contextlib.nullcontext() if storage is None else wait_for_lock(path / ".locks" / "search"):
            check_directory(path, words)  # again, as another search may have begun there meanwhile
            write_json(path / "search.json", words)
        started = time.monotonic()
        schedule = None
        if method == "pbt":
            shown, parts = shower(say), []

            def tell(row: dict[str, Any]) -> None:
                parts.append(row["part"])
                shown(row)

            schedule = evolve(setup, ranges, population, episodes, rows, tell, say)
            found: dict[str, Any] = {"best": schedule._asdict(), "trials": trials}
            new: float = trials * len(parts) / PARTS
        else:
            plan = Plan(setup, ranges, population, episodes, method, batch)
            before = len(read_trials(rows))
            if storage is None:
                done = run_trials(plan, trials, rows, teller(say, trials))
                new = len(done) - before
            else:
                told: list[Trial] = []
                tell_batch = teller(say, trials)

                def note_batch(found: list[Trial], seconds: float) -> None:
                    told.extend(found)
                    tell_batch(found, seconds)

                done = run_shared_trials(plan, trials, path, storage, note_batch)
                new = len(told)
                text = "".join(dumps(one._asdict()) + "\n" for one in done).encode()
                archives.write_atomically(rows, lambda file: file.write(text))
            found = {"best": best_trial(done)._asdict(), "trials": len(done)}
            found["complete"] = sum(trial.state == "complete" for trial in done)
        seconds = time.monotonic() - started

        broke: dict[str, str] = {}
        cut: dict[str, str] = {}

        def test_returns(settings: dict[str, Any], name: str, what: str, wait: bool = True) -> np.ndarray | None:
            waits = wait and storage is not None
            try:
                with wait_for_lock(path / ".locks" / name) if waits else contextlib.nullcontext():
                    run = train_test_seeds(
                        with_settings(setup, settings), environment, seeds, path / name, display, options
                    )
            except RunInterrupted:
                raise
            except ForageError as error:
                broke[what] = str(error)
                return None
            if said := counting_sentences(run.evaluation or {}):
                cut[what] = "; ".join(said)
            return returns_of(run, setup)

        if storage is not None:  # whichever run is free; the other one is another process's
            for name, settings in (("default", {}), (f"tuned-{found['best']['number']}", found["best"]["settings"])):
                with try_lock(path / ".locks" / name) as free:
                    if free:
                        test_returns(settings, name, "", wait=False)
            broke.clear()
            cut.clear()
        default = test_returns({}, "default", "default")
        if schedule is not None:
            played = replay_schedule(setup, schedule, seeds, episodes, path / "tuned.npz", say)
            values = played if np.isfinite(played).all() else None
            if values is None:
                broke["tuned"] = "What the agent learned became NaN, or its environment failed."
        else:
            values = test_returns(found["best"]["settings"], f"tuned-{found['best']['number']}", "tuned")
    result = {
        **words, **found,
        "search_seconds": round(seconds, 3), "trials_per_minute": round(60 * new / max(seconds, 1e-9), 2),
        "together": [one.name for one in ranges if is_traced(setup, one)],
        "default": None if default is None else default.tolist(), "tuned": None if values is None else values.tolist(),
        "broke": broke, "cut": cut, "verdict": verdict_sentence(values, default, broke),
        "versions": versions() | {"cores": os.cpu_count()},
    }  # fmt: skip
    write_json(path / "tune.json", result)
    return result


def check_directory(path: Path, words: dict[str, Any]) -> None:
    """Raise `ForageError` if the directory holds another search or other files."""
    check_no_others(path, ["search.json"], lambda found: {"method", "space"} <= found.keys())
    if (path / "search.json").exists():
        then = read_json(path / "search.json")
        differing = [name for name in words if then.get(name) != json.loads(dumps(words[name]))]
        if differing:
            raise ForageError(
                f"{path} holds a search with another {differing[0]}; name another --directory, or the same search to "
                f"go on with it."
            )


def train_test_seeds(
    setup: RunConfig, environment: Any, seeds: Sequence[int], directory: Path, display: str, options: dict[str, Any]
) -> Run:
    """Train a setting on the test seeds, a run like any other."""
    own = {field.name for field in fields(type(setup.agent))}  # given beside agent_options
    rest = {name: value for name, value in options.items() if name not in {*PORTS, "agent_options", *own}}
    rest |= {port: getattr(setup, port) for port in PORTS} | {"steps": setup.steps, "seeds": list(seeds)}
    return training.train_or_resume(setup.agent, environment, directory=directory, display=display, **rest)


def returns_of(run: Run, setup: RunConfig) -> np.ndarray:
    """Return each seed's mean evaluation return; `setup` combines several rewards."""
    assert run.evaluation is not None
    names = setup.spec.reward_names
    if not names:
        return np.array(run.evaluation["return"], float)
    each = [run.evaluation[f"return/{name}"] for name in names]
    return setup.rewards.score(np.array(each, float).T, setup.spec)


def verdict_sentence(tuned: np.ndarray | None, default: np.ndarray | None, broke: dict[str, str]) -> str:
    if tuned is None or default is None:
        which = "The best setting" if tuned is None else "The default"
        return f"{which} broke on the test seeds: {broke['tuned' if tuned is None else 'default']}"
    pair = ("tuned", tuned), ("default", default)
    (better, a), (worse, b) = pair if tuned.mean() >= default.mean() else pair[::-1]
    return comparison_words(better, a, worse, b)


def work(trials: int, method: str, setup: RunConfig, population: Sequence[int], seeds: Sequence[int]) -> str:
    """Describe the training of a search, which takes most of its time."""
    each = f"{setup.steps:,} steps with {len(population)} seed{'s' * (len(population) > 1)}"
    searched = (
        f"{trials} members live for {each}" if method == "pbt" else f"each of {trials} trials trains up to {each}"
    )
    return f"{searched}; then the best and the default train {len(seeds)} seeds each, to be judged"


def teller(say: Any, total: int) -> Any:
    """Return a function that shows a batch of the `total` trials."""

    def tell(trials: list[Trial], seconds: float) -> None:
        top = max(trials, key=lambda trial: trial.value)
        states = ", ".join(
            f"{sum(t.state == state for t in trials)} {state}" for state in ("complete", "pruned", "failed")
        )
        say(
            f"  trials {trials[0].number} to {trials[-1].number} of {total}: {states}; best {top.value:.4g} with "
            f"{settings_text(top.settings)} ({progress.duration(seconds)})"
        )

    return tell


def shower(say: Any) -> Any:
    """Show a part of a population's life."""

    def tell(row: dict[str, Any]) -> None:
        values = np.array([-np.inf if value is None else value for value in row["values"]])
        say(
            f"  {row['steps']:>12,} steps   best {values.max():.4g}, median {np.median(values):.4g}, with "
            f"{settings_text(row['settings'][int(values.argmax())])}"
        )

    return tell


def settings_text(settings: dict[str, Any]) -> str:
    return ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in settings.items())


def worth(returns: list[float] | None) -> str:
    return "broke" if returns is None else with_mean(score(np.array(returns)), np.array(returns))


def tuning_sentences(result: dict[str, Any]) -> list[str]:
    """Describe the result, line by line."""
    top = result["best"]
    settings = top["settings"][-1] if isinstance(top["settings"], list) else top["settings"]
    at = "at the end " if isinstance(top["settings"], list) else ""
    value = top.get("value", np.mean(top["values"]) if top.get("values") else float("nan"))
    return [
        f"best of {result['trials']} trials {at}: {settings_text(settings)}".replace(" :", ":"),
        f"  {value:.4g} on the tuning seeds (optimistic: those seeds selected it)",
        f"  on {len(result['seeds'])} test seeds: tuned {worth(result['tuned'])}, default {worth(result['default'])}",
        *(f"  {what}: {said}" for what, said in result["cut"].items()),
        f"  {result['verdict']}",
        f"  {result['trials_per_minute']:.1f} trials a minute",
    ]
