"""What a bonus costs: time per environment step of training with it, over that of training without, in one run.

    python benchmarks/bonus_cost.py            every bonus with PPO, DQN and SAC; about twenty minutes
    python benchmarks/bonus_cost.py --smoke    a look at whether it works

All programs are compiled first. Then each is run for a few chunks in turn, round after round, and the ratio is the
median over rounds, so that what else the machine does falls on all alike. The compiled programs are searched for calls
to the host as well: there is none. Writes results/BONUS_COST.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results"
BONUSES = ("rnd", "icm", "disagreement", "counts", "e3b", "episodic-novelty", "shift")


class Bench(NamedTuple):
    """Who learns where, and for how many steps a measurement lasts."""

    agent: str
    environment: str
    steps: int
    options: dict[str, Any] = {}


BENCHES = {
    "PPO, grid 7x7x3, 64 environments": Bench("ppo", "grid:MultiRoom-N4-S5", 32_768, {"num_envs": 64}),
    "PPO, CartPole, 8 environments": Bench("ppo", "CartPole-v1", 32_768),
    "DQN, DeepSea-20": Bench("dqn", "DeepSea-20", 8_000),
    "SAC, Pendulum": Bench("sac", "Pendulum-v1", 1_500),
}
HOST = ("xla_python_cpu_callback", "xla_ffi_python", "outfeed", "infeed", "send-done", "recv-done")
"""What a program that talks to the host has in it."""


def measure(bench: Bench, rounds: int) -> dict[str, dict[str, Any]]:
    """Of each bonus: microseconds a step, the ratio to training without, and seconds to compile."""
    from forage.config.resolve import resolve

    runners, found = {}, {}
    for name in ("environment", *BONUSES):
        setup = resolve(
            bench.agent, bench.environment, steps=10_000_000, seeds=[0], agent_options=bench.options, rewards=name
        )
        runner = setup.runner()
        began = time.perf_counter()
        runner.begin()
        warm = setup.agent.learning_starts // runner.steps_per_iteration + 1
        runner.advance(warm)  # learning is under way
        found[name] = {"compile": round(time.perf_counter() - began, 1)}
        text = runner._loop().result().as_text()  # type: ignore[union-attr]
        found[name]["host_calls"] = sum(text.count(word) for word in HOST)
        runners[name] = runner
    times: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, runner in runners.items():
            count = max(1, bench.steps // runner.steps_per_iteration)
            began = time.perf_counter()
            runner.advance(count)
            times[name].append((time.perf_counter() - began) / (count * runner.steps_per_iteration))
    for name, own in times.items():
        found[name]["microseconds"] = 1e6 * statistics.median(own)
        ratios = [mine / plain for mine, plain in zip(own, times["environment"], strict=True)]
        found[name]["ratio"] = statistics.median(ratios)
    return found


def page(results: dict[str, dict[str, dict[str, Any]]], rounds: int) -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    lines = [
        "# What a bonus costs",
        "",
        f"Time per environment step of training with a bonus over that without, the median of {rounds} rounds in which",
        "all took turns, one seed, in one run; in brackets the microseconds a step. No program calls the host.",
        f"Cores: {cores}; {platform.system()}. Made by `python benchmarks/bonus_cost.py`. What is replayed",
        "gets the bonus of its day, so an agent with replay pays for the batch of every update: DQN, whose own network",
        "is small, for five transitions of each of 128 returns.",
        "",
        "| bonus | " + " | ".join(results) + " |",
        "|---|" + "---|" * len(results),
    ]
    for name in ("environment", *BONUSES):
        cells = [f"{found[name]['ratio']:.2f} ({found[name]['microseconds']:.1f})" for found in results.values()]
        lines.append(f"| {'none' if name == 'environment' else name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    from forage.runs.training import use_compilation_cache

    use_compilation_cache()
    rounds = 1 if arguments.smoke else arguments.rounds
    results = {}
    for name, bench in list(BENCHES.items())[: 1 if arguments.smoke else None]:
        results[name] = measure(bench, rounds)
        print(name, {k: round(v["ratio"], 2) for k, v in results[name].items()}, flush=True)
        assert not any(found["host_calls"] for found in results[name].values()), "a program calls the host"
    if not arguments.smoke:
        (RESULTS / "bonus_cost.json").write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "BONUS_COST.md").write_text(page(results, rounds))


if __name__ == "__main__":
    main()
