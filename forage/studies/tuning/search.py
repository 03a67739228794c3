"""Search: Optuna proposes settings, trials run in batches, and Optuna receives their results.

Random search (Bergstra and Bengio, 2012); TPE (Bergstra, Bardenet, Bengio and Kégl, 2011); Hyperband (Li, Jamieson,
DeSalvo, Rostamizadeh and Talwalkar, 2018, arXiv 1603.06560) over TPE, with an early stop of weak trials. The samplers
and the pruner are those of Optuna (Akiba, Sano, Yanase, Ohta and Koyama, 2019, arXiv 1907.10902).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forage.config.run_config import RunConfig
from forage.core import records
from forage.core.types import ForageError
from forage.runs.curve import CurveRows, read_rows, to_float
from forage.studies.tuning.batch import Batch, repeat_settings
from forage.studies.tuning.space import SearchRange, is_traced, with_settings

METHODS = ("tpe", "random", "hyperband")
RUNGS = 9  # parts of the budget at which Hyperband looks
FACTOR = 3  # one trial in so many goes on
WORST = -1e30  # what a broken trial is worth, for Optuna, which takes no infinity


class Trial(NamedTuple):
    """One setting and its results."""

    number: int
    settings: dict[str, Any]
    values: list[float | None]  # each tuning seed's mean evaluation return, `None` where it broke; empty: did not run
    steps: int  # that each seed was trained
    state: str  # complete, pruned or failed
    why: str = ""  # it failed or broke
    looks: Sequence[float] = ()  # what Hyperband saw of it after each part of the budget

    @property
    def value(self) -> float:
        whole = [value for value in self.values if value is not None]
        return float(np.mean(whole)) if whole and len(whole) == len(self.values) else -np.inf


class Plan(NamedTuple):
    """The settings that all trials have in common."""

    setup: RunConfig
    space: Sequence[SearchRange]
    seeds: Sequence[int]
    episodes: int
    method: str
    batch: int  # trials at once


def run_trials(plan: Plan, trials: int, path: Path, tell: Callable[[list[Trial], float], None]) -> list[Trial]:
    """Run trials until there are `trials`; those in the file `path` count. `tell` reports each batch."""
    optuna = load_optuna()
    done, rows = read_trials(path), CurveRows(path)
    rows.drop_half()
    while len(done) < trials:
        started = time.monotonic()
        # Anew for each batch, so that a search that was killed proposes what it would have.
        study = study_of(optuna, plan, done)
        asked = [study.ask(distributions(optuna, plan)) for _ in range(min(plan.batch, trials - len(done)))]
        found = run(plan, asked, len(done))
        rows.extend([one._asdict() for one in found])  # at once: a batch is there as a whole, or not at all
        done += found
        tell(found, time.monotonic() - started)
    return done


def study_of(optuna: Any, plan: Plan, done: Sequence[Trial]) -> Any:
    """Return a study that knows of these trials."""
    # Hyperband tells brackets apart by the study's name, which is else a random one.
    study = optuna.create_study(study_name="forage", direction="maximize", **samplers(optuna, plan, len(done)))
    for trial in done:
        study.add_trial(optuna_trial(optuna, plan, trial, worst(done)))
    return study


def run(plan: Plan, asked: Sequence[Any], first: int) -> list[Trial]:
    """Train these trials, those that can share a program together."""
    static = [one.name for one in plan.space if not is_traced(plan.setup, one)]

    def static_values(index: int) -> list[tuple[str, str]]:
        return [(name, repr(asked[index].params[name])) for name in static]

    found: dict[int, Trial] = {}
    order = sorted(range(len(asked)), key=static_values)
    for _, group in itertools.groupby(order, key=static_values):
        indices = list(group)
        settings = [dict(asked[index].params) for index in indices]
        try:
            setup = with_settings(plan.setup, {name: settings[0][name] for name in static})
            traced = [{name: v for name, v in s.items() if name not in static} for s in settings]
            batch = repeat_settings(setup, traced, plan.seeds, plan.episodes, plan.setup.rewards)
        except ForageError as error:  # these settings do not go together
            for index, s in zip(indices, settings, strict=True):
                found[index] = Trial(first + index, s, [], 0, "failed", str(error))
            continue
        brought = train_trials(plan, batch, [asked[index] for index in indices])
        for index, s, one in zip(indices, settings, brought, strict=True):
            found[index] = Trial(first + index, s, *one)
    return [found[index] for index in range(len(asked))]


def train_trials(
    plan: Plan, batch: Batch, asked: Sequence[Any]
) -> list[tuple[list[float | None], int, str, str, list[float]]]:
    """Train a batch to the end, with Hyperband only those that do not fall behind.

    Return what a `Trial` says of each: values, steps, state, why it broke and what Hyperband saw of it.
    """
    seeds = len(plan.seeds)
    running, results = list(range(len(asked))), {}  # trials by their place in `asked`
    looks: list[list[float]] = [[] for _ in asked]
    for rung in range(1, RUNGS + 1) if plan.method == "hyperband" else (RUNGS,):
        batch.advance(rung / RUNGS)
        values = batch.evaluate().reshape(-1, seeds)
        for place, (index, row) in enumerate(zip(running, values, strict=True)):
            why = next(filter(None, batch.why[place * seeds : (place + 1) * seeds]), "")
            state = "complete" if rung == RUNGS else "pruned"
            value = float(row.mean()) if np.isfinite(row).all() else WORST
            asked[index].report(value, rung)
            if plan.method == "hyperband":
                looks[index].append(value)
            results[index] = to_float(row), batch.steps, state, why, looks[index]
        left = [row for row, index in enumerate(running) if rung == RUNGS or not asked[index].should_prune()]
        if not left:
            break
        if len(left) < len(running):
            batch.keep([row * seeds + seed for row in left for seed in range(seeds)])
            running = [running[row] for row in left]
    batch.close()
    return [results[index] for index in range(len(asked))]


def samplers(optuna: Any, plan: Plan, done: int) -> dict[str, Any]:
    """Return the sampler and the pruner. `done`: trials of earlier sessions, not to be repeated."""
    if plan.method == "random":
        return {"sampler": optuna.samplers.RandomSampler(seed=done)}
    sampler = optuna.samplers.TPESampler(seed=done, multivariate=True, constant_liar=True)
    if plan.method == "tpe":
        return {"sampler": sampler}
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=RUNGS, reduction_factor=FACTOR)
    return {"sampler": sampler, "pruner": pruner}


def distributions(optuna: Any, plan: Plan) -> dict[str, Any]:
    """Return the space as Optuna writes it."""

    def one(over: SearchRange) -> Any:
        if over.choices:
            return optuna.distributions.CategoricalDistribution(over.choices)
        kind = optuna.distributions.IntDistribution if over.whole else optuna.distributions.FloatDistribution
        return kind(over.low, over.high, log=over.log)

    return {over.name: one(over) for over in plan.space}


def optuna_trial(optuna: Any, plan: Plan, trial: Trial, worst: float) -> Any:
    """Return a finished trial for Optuna. A broken one gets the value `worst`, so that the sampler avoids it."""
    state = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}[trial.state]
    value = trial.value if np.isfinite(trial.value) else worst
    return optuna.trial.create_trial(
        params={name: tuple(v) if isinstance(v, list) else v for name, v in trial.settings.items()},
        distributions=distributions(optuna, plan),
        value=None if state == "FAIL" else value,
        intermediate_values=dict(enumerate(trial.looks, 1)),
        state=optuna.trial.TrialState[state],
    )


def worst(trials: Sequence[Trial]) -> float:
    """Return the lowest finite value so far."""
    finite = [trial.value for trial in trials if np.isfinite(trial.value)]
    return min(finite, default=WORST)


def best_trial(trials: Sequence[Trial]) -> Trial:
    """Return the trial of highest value among those trained to the end."""
    complete = [trial for trial in trials if trial.state == "complete" and np.isfinite(trial.value)]
    if not complete:
        why = next((f" ({trial.why.rstrip('.')})" for trial in trials if trial.why), "")
        raise ForageError(f"No trial came to its end{why}; other ranges or more trials may.")
    return max(complete, key=lambda trial: trial.value)


def read_trials(path: Path) -> list[Trial]:
    """Return the whole lines of a file of trials."""

    def wrong(row: dict[str, Any]) -> str:
        whole = {"number", "settings", "values", "steps", "state"} <= row.keys() <= set(Trial._fields)
        whole = whole and isinstance(row["settings"], dict) and records.are(row["values"], records.is_measured)
        return "" if whole and not records.wrong_row(row) else "it is no trial"

    return [Trial(**row) for row in read_rows(path, wrong)]


def load_optuna() -> Any:
    """Import Optuna. Raise `ForageError` with the command that installs it if it is missing."""
    try:
        import optuna
    except ImportError as error:
        raise ForageError("Searching needs Optuna: pip install 'forage-rl[tune]'; --method pbt does not.") from error
    import warnings

    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
