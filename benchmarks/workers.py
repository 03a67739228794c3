"""What do workers bring? A step of all environments, stepped by this process and by workers, in turns in one run.

    python benchmarks/workers.py    # on a machine otherwise idle; writes results/WORKERS.md

Stepping alone, with random actions: nothing is learned, and nobody acts. Medians of eight turns of 100 steps.
"""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from forage.core.host import HostEnvironment
from forage.environments import HostFactory
from forage.loop.cluster.pool import Pool
from forage.loop.cluster.slots import Slots

RESULTS = Path(__file__).parent / "results" / "WORKERS.md"
STEPS, TURN, SLEEP = 800, 100, 0.005


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


SLEEPER = HostFactory("sleeping", maker=Sleeping).build
ROWS: dict[str, Row] = {
    "an environment that sleeps 5 ms": Row(SLEEPER, 16, 8),
    "gymnasium:HalfCheetah-v5": Row(HostFactory("gymnasium:HalfCheetah-v5").build, 16),
    "gymnasium:CartPole-v1": Row(HostFactory("gymnasium:CartPole-v1").build, 8),
}


def seconds_of(batch: HostEnvironment, actions: Sequence[np.ndarray]) -> float:
    """Return the mean seconds of a step of all environments, which go on one by one where they are slots."""
    began = time.perf_counter()
    if isinstance(batch, Slots):
        each, taken = [slot.rows for slot in batch.slots], np.zeros(batch.num_envs, int)
        batch.tell(each, actions[0])
        while any(slot.under_way for slot in batch.slots):
            rows = [one.rows for one in batch.hear()]
            for row in rows:
                taken[row] += 1
            ready = [row for row in rows if taken[row.start] < len(actions)]
            if ready:
                batch.tell(ready, actions[taken[ready[0].start]])
    else:
        for action in actions:
            batch.step(action)
    return (time.perf_counter() - began) / len(actions)


def measured(row: Row) -> list[float]:
    """Return the median milliseconds of a step here, by two workers together, and by two of whom none waits.

    Those that sleep would do so one after the other here; there it is one alone.
    """
    here = row.build(1 if row.threads > 1 else row.num_envs)
    batches = [here, Pool(row.build, row.num_envs, 2, row.threads), Slots(row.build, row.num_envs, 2, row.threads)]
    seconds: list[list[float]] = [[] for _ in batches]
    kind = np.int32 if isinstance(here.action_space, gymnasium.spaces.Discrete) else np.float32
    try:
        for turn in range(-1, STEPS // TURN):
            for batch, took in zip(batches, seconds, strict=True):
                space = gymnasium.vector.utils.batch_space(batch.action_space, batch.num_envs)
                space.seed(turn + 1)
                if turn < 0:
                    batch.reset(0)
                took.append(seconds_of(batch, [space.sample().astype(kind) for _ in range(TURN)]))
    finally:
        for batch in batches:
            batch.close()
    return [1000 * float(np.median(took[1:])) for took in seconds]


def main() -> None:
    """Measure, and write the page."""
    lines = [
        "# What workers bring",
        "",
        f"`python benchmarks/workers.py`, {datetime.date.today()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}: milliseconds of one step of all environments, medians of {STEPS // TURN} turns",
        f"of {TURN}. *First come*: nobody waits for others within a turn.",
        "",
        "| environments | this process | 2 workers | 2 workers, first come |",
        "|---|---|---|---|",
    ]
    for name, row in ROWS.items():
        here, *spread = measured(row)
        if row.threads > 1:
            shown = f"{here:.2f}, one alone"
            told = [f"{ms:.2f}, {100 * 1000 * SLEEP / ms:.0f} % of 5 ms, {here / ms:.0%} of one alone" for ms in spread]
        else:
            shown, told = f"{here:.2f}", [f"{ms:.2f}, {here / ms:.2f}x" for ms in spread]
        threads = f", {row.threads} threads each" if row.threads > 1 else ""
        lines.append(f"| {name}, {row.num_envs}{threads} | {shown} | {' | '.join(told)} |")
        print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
