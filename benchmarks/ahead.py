"""What does it bring that workers act by themselves? Training speed of IMPALA, in turns of one run.

    python benchmarks/ahead.py    # on a machine otherwise idle; writes results/AHEAD.md

HalfCheetah with 16 environments and two workers. All arms take turns of fifteen rollouts. What workers are ahead at the
end of a turn is waited for within it, as they begin the next with as much.
"""

from __future__ import annotations

import datetime
import os
import platform
import time
from pathlib import Path

import numpy as np

from forage.config.resolve import resolve
from forage.loop.cluster.workers import Workers
from forage.loop.host.policy_lag import LaggedLoop
from forage.loop.host.runner import HostRunner

RESULTS = Path(__file__).parent / "results" / "AHEAD.md"
ENVIRONMENT, NUM_ENVS, TURNS, ROLLOUTS = "gymnasium:HalfCheetah-v5", 16, 12, 15
ARMS = {
    "no workers": Workers(),
    "`--workers 2`": Workers(2),
    "`--workers 2 --policy-lag 0`": Workers(2, policy_lag=0),
    "`--workers 2 --policy-lag 1`": Workers(2, policy_lag=1),
}


def turn(runner: HostRunner) -> float:
    """Train for a turn. Return the environment steps of a second."""
    began, steps = time.perf_counter(), runner.steps
    runner.advance(ROLLOUTS)
    for loop in runner.loops:
        if isinstance(loop, LaggedLoop):
            loop.environment.final_memory()
        for leaf in loop.flat.leaves:
            leaf.block_until_ready()
    return (runner.steps - steps) / (time.perf_counter() - began)


def main() -> None:
    """Measure, and write the page."""
    setup = resolve("impala", ENVIRONMENT, seeds=[0], steps=10_000_000, agent_options={"num_envs": NUM_ENVS})
    runners: dict[str, HostRunner] = {}
    try:
        for name, workers in ARMS.items():
            runner = runners[name] = setup.runner(workers=workers)  # type: ignore[assignment]
            runner.begin()
            turn(runner)  # which compiles
        speeds: dict[str, list[float]] = {name: [] for name in runners}
        for _ in range(TURNS):
            for name, runner in runners.items():
                speeds[name].append(turn(runner))
    finally:
        for runner in runners.values():
            runner.close()
    length = setup.agent.rollout_length  # type: ignore[union-attr]
    lines = [
        "# What acting beside the environments brings",
        "",
        f"`python benchmarks/ahead.py`, {datetime.date.today()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}: environment steps of a second",
        f"in training, IMPALA on {ENVIRONMENT} with {NUM_ENVS} environments and rollouts of {length} steps;",
        f"medians of {TURNS} turns of {ROLLOUTS} rollouts, with the lower and the upper quartile.",
        "",
        "| | steps/s | against no workers |",
        "|---|---|---|",
    ]
    alone = np.median(speeds["no workers"])
    for name, found in speeds.items():
        low, middle, high = np.percentile(found, (25, 50, 75))
        lines.append(f"| {name} | {middle:,.0f} ({low:,.0f} to {high:,.0f}) | {middle / alone:.2f}x |")
    print("\n".join(lines))
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
