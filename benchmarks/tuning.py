"""Trials a minute: `forage tune` beside Optuna with one trial at a time, for the same search in the same run.

    python benchmarks/tuning.py [--trials 16] [--steps 20000]

Both propose by TPE over the same ranges, train each trial on the same two seeds with the same agent, and evaluate it
alike; only that one trains trials side by side in one program, and the other calls `forage.train` for each, as people
do. Compiling counts. Writes results/TUNING.md.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

import forage
from forage.config.resolve import resolve
from forage.studies.tuning.search import Plan, load_optuna, run_trials
from forage.studies.tuning.space import parse_range

RESULTS = Path(__file__).parent / "results" / "TUNING.md"
SPACE = ("learning_rate=1e-4:1e-2:log", "gae_lambda=0.8:1.0", "entropy_coefficient=1e-4:0.1:log")
SEEDS = (0, 1)


def one_at_a_time(environment: str, steps: int, trials: int) -> float:
    """Optuna's usual loop. Returns seconds."""
    optuna = load_optuna()
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))

    def objective(trial: Any) -> float:
        settings = {
            "learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
            "gae_lambda": trial.suggest_float("gae_lambda", 0.8, 1.0),
            "entropy_coefficient": trial.suggest_float("entropy_coefficient", 1e-4, 0.1, log=True),
        }
        with tempfile.TemporaryDirectory() as directory:
            words: dict[str, Any] = {
                "agent_options": settings,
                "display": "quiet",
                "directory": Path(directory) / "run",
                "evaluation_actions": "greedy",
            }
            run = forage.train("ppo", environment, steps=steps, seeds=list(SEEDS), **words)
            return float(run.score.value)

    started = time.perf_counter()
    study.optimize(objective, n_trials=trials)
    return time.perf_counter() - started


def side_by_side(environment: str, steps: int, trials: int, batch: int) -> float:
    """`forage tune`'s search. Returns seconds."""
    setup = resolve("ppo", environment, steps=steps, seeds=list(SEEDS))
    plan = Plan(setup, [parse_range(text, setup) for text in SPACE], SEEDS, 32, "tpe", batch)
    with tempfile.TemporaryDirectory() as directory:
        started = time.perf_counter()
        run_trials(plan, trials, Path(directory) / "trials.jsonl", lambda found, seconds: None)
        return time.perf_counter() - started


@contextlib.contextmanager
def empty_cache() -> Iterator[None]:
    """Compiled programs are kept on disk, as `forage` does, and for each contestant there are none at first."""
    with tempfile.TemporaryDirectory() as directory:
        jax.config.update("jax_compilation_cache_dir", directory)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        compilation_cache.reset_cache()
        jax.clear_caches()  # and what this process has compiled
        yield
    jax.config.update("jax_compilation_cache_dir", None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", default="CartPole-v1,Acrobot-v1")
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20_000)
    arguments = parser.parse_args()
    lines = [
        "# Trials a minute",
        "",
        f"PPO, {arguments.trials} trials of {arguments.steps:,} steps on {len(SEEDS)} seeds each; TPE over a learning",
        f"rate, lambda and entropy bonus; {arguments.batch} trials at once against one at a time. Compiling counts.",
        f"Made by `python benchmarks/tuning.py` on {datetime.date.today().isoformat()}, {os.cpu_count()} cores.",
        "",
        "| environment | forage tune | Optuna, one at a time | ratio |",
        "|---|---|---|---|",
    ]
    for environment in arguments.environments.split(","):
        with empty_cache():
            together = side_by_side(environment, arguments.steps, arguments.trials, arguments.batch)
        with empty_cache():
            alone = one_at_a_time(environment, arguments.steps, arguments.trials)
        rates = [60 * arguments.trials / seconds for seconds in (together, alone)]
        print(f"{environment}: {rates[0]:.1f} trials a minute, one at a time {rates[1]:.1f}", flush=True)
        lines.append(f"| {environment} | {rates[0]:.1f} | {rates[1]:.1f} | {rates[0] / rates[1]:.2f} |")
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
