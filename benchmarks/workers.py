"""What do workers bring? A step of all environments, stepped by this process and by workers, in turns in one run.

    python benchmarks/workers.py    # on a machine otherwise idle; writes results/WORKERS.md

Stepping alone, with random actions: nothing is learned, and nobody acts. Medians of 400 steps.
"""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from forage.core.host import HostEnvironment
from forage.environments import HostFactory
from forage.loop.cluster.pool import Pool

RESULTS = Path(__file__).parent / "results" / "WORKERS.md"
STEPS, TURN, SLEEP = 400, 50, 0.005


class Sleeping(gymnasium.Env):
    """Waits for 5 ms, as for a simulator elsewhere."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,))
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode that does not end."""
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> Any:
        """Wait."""
        time.sleep(SLEEP)
        return np.zeros(4, np.float32), 1.0, False, False, {}


class Row(NamedTuple):
    """What is stepped, how many of them, and by how many threads of each of two workers."""

    build: Callable[[int], HostEnvironment]
    num_envs: int
    threads: int = 1
    alone: bool = True  # this process steps them too


ROWS: dict[str, Row] = {
    "an environment that sleeps 5 ms": Row(HostFactory("sleeping", maker=Sleeping).build, 16, 8, False),
    "gymnasium:HalfCheetah-v5": Row(HostFactory("gymnasium:HalfCheetah-v5").build, 16),
    "gymnasium:CartPole-v1": Row(HostFactory("gymnasium:CartPole-v1").build, 8),
}


def measured(row: Row) -> list[float]:
    """Return the median milliseconds of a step in this process, where it takes any, and by two workers."""
    batches = [row.build(row.num_envs)] if row.alone else []
    batches.append(Pool(row.build, row.num_envs, 2, row.threads))
    seconds: list[list[float]] = [[] for _ in batches]
    space = gymnasium.vector.utils.batch_space(batches[0].action_space, row.num_envs)
    space.seed(0)
    kind = np.int32 if isinstance(batches[0].action_space, gymnasium.spaces.Discrete) else np.float32
    for batch in batches:
        batch.reset(0)
        for _ in range(TURN):
            batch.step(space.sample().astype(kind))
    for _ in range(STEPS // TURN):
        for batch, took in zip(batches, seconds, strict=True):
            for _ in range(TURN):
                action = space.sample().astype(kind)
                began = time.perf_counter()
                batch.step(action)
                took.append(time.perf_counter() - began)
    for batch in batches:
        batch.close()
    return [1000 * float(np.median(took)) for took in seconds]


def main() -> None:
    """Measure, and write the page."""
    lines = [
        "# What workers bring",
        "",
        f"`python benchmarks/workers.py`, {datetime.date.today()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}: milliseconds of one step of all environments, medians of {STEPS}, in turns.",
        "",
        "| environments | this process | 2 workers | |",
        "|---|---|---|---|",
    ]
    for name, row in ROWS.items():
        *alone, spread = measured(row)
        what = f"{name}, {row.num_envs}" + (f", {row.threads} threads each" if row.threads > 1 else "")
        if alone:
            lines.append(f"| {what} | {alone[0]:.2f} | {spread:.2f} | {alone[0] / spread:.2f}x |")
        else:
            lines.append(f"| {what} | | {spread:.2f} | {100 * 1000 * SLEEP / spread:.0f} % of what is possible |")
        print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
