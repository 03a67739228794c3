"""Does it learn? Every row trains an agent with its default settings on seeds that nothing was tuned on.

    python benchmarks/learning.py --list
    python benchmarks/learning.py ppo-cartpole dqn-cartpole
    python benchmarks/learning.py                      # every row that has no result yet

Results are kept in results/learning/results.json, a row each, and results/learning/README.md is made from them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results" / "learning"
SEEDS = [100, 101, 102, 103, 104]


class Row(NamedTuple):
    """One experiment."""

    agent: str
    environment: str
    steps: int
    wanted: str  # what the number should be, in words
    options: dict[str, Any] = {}
    rewards: dict[str, Any] | None = None


ROWS: dict[str, Row] = {
    "ppo-cartpole": Row("ppo", "CartPole-v1", 100_000, "at least 475"),
    "dqn-cartpole": Row("dqn", "CartPole-v1", 150_000, "at least 475"),
    "ppo-acrobot": Row("ppo", "Acrobot-v1", 200_000, "at least -100"),
    "dqn-acrobot": Row("dqn", "Acrobot-v1", 100_000, "at least -100"),
    "sac-pendulum": Row("sac", "Pendulum-v1", 20_000, "at least -180"),
    "td3-pendulum": Row("td3", "Pendulum-v1", 20_000, "at least -180"),
    "sac-discrete-cartpole": Row("sac-discrete", "CartPole-v1", 50_000, "at least 475"),
    "ppo-masked": Row("ppo", "CartPole-masked", 500_000, "below 475: it has no memory", {"memory_size": 0}),
    "ppo-gru-masked": Row("ppo", "CartPole-masked", 500_000, "at least 475"),
    "dqn-masked": Row("dqn", "CartPole-masked", 150_000, "below 475: it has no memory", {"memory_size": 0}),
    "dqn-gru-masked": Row("dqn", "CartPole-masked", 150_000, "at least 475"),
    "dqn-deepsea": Row("dqn", "DeepSea-20", 200_000, "0: epsilon-greedy does not find it"),
    "dqn-rnd-deepsea": Row("dqn", "DeepSea-20", 200_000, "0.99", {}, {"part": "rnd"}),
    "ppo-breakout": Row("ppo", "minatar:Breakout", 5_000_000, "beside published figures"),
    "dqn-breakout": Row("dqn", "minatar:Breakout", 5_000_000, "beside published figures"),
    "ppo-halfcheetah": Row("ppo", "gymnasium:HalfCheetah-v5", 1_000_000, "beside Stable-Baselines3"),
    "sac-halfcheetah": Row("sac", "gymnasium:HalfCheetah-v5", 100_000, "beside Stable-Baselines3"),
}


def measure(name: str, seeds: list[int]) -> dict[str, Any]:
    """Trains one row. Returns what the table shows and the curve."""
    import forage
    from forage.registry import from_config
    from forage.run import use_compilation_cache

    use_compilation_cache()
    row = ROWS[name]
    parts = {"rewards": from_config(row.rewards)} if row.rewards else {}
    directory = Path(tempfile.mkdtemp()) / "run"
    started = time.monotonic()
    run = forage.train(
        row.agent,
        row.environment,
        steps=row.steps,
        seeds=seeds,
        directory=directory,
        agent_options=row.options,
        **parts,
    )
    steps, values = run.curve()
    score = run.score
    return {
        "agent": row.agent,
        "environment": row.environment,
        "options": row.options | ({"rewards": row.rewards} if row.rewards else {}),
        "steps": row.steps,
        "seeds": seeds,
        "score": score.value,
        "interval": [score.low, score.high],
        "returns": run.evaluation["return"] if run.evaluation else None,
        "wanted": row.wanted,
        "seconds": round(time.monotonic() - started, 1),
        "curve": {"steps": steps.tolist(), "mean": [round(float(v), 3) for v in values.mean(0)]},
        "machine": {"cores": os.cpu_count(), "system": platform.system()},
        "versions": json.loads((directory / "versions.json").read_text()),
    }


def table(results: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# Learning",
        "",
        "Default settings, seeds that nothing was tuned on; interquartile mean over seeds of evaluation episodes, with",
        "its 95 % interval. Made by `python benchmarks/learning.py`.",
        "",
        "| row | agent | environment | steps a seed | seeds | return | wanted | wall clock |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in ROWS:
        if name in results:
            r = results[name]
            low, high = r["interval"]
            shown = f"{r['score']:.4g}" + (f" [{low:.4g}, {high:.4g}]" if low is not None else "")
            lines.append(
                f"| {name} | {r['agent']} | {r['environment']} | {r['steps']:,} | {len(r['seeds'])} | {shown} "
                f"| {r['wanted']} | {r['seconds']:.0f} s |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    arguments = parser.parse_args()
    if arguments.list:
        for name, row in ROWS.items():
            print(f"{name:24} {row.agent} on {row.environment}, {row.steps:,} steps; wanted: {row.wanted}")
        return
    unknown = [name for name in arguments.rows if name not in ROWS]
    if unknown:
        sys.exit(f"There is no row {unknown[0]}; --list shows them.")
    path = RESULTS / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.rows or [name for name in ROWS if name not in results]:
        if len(arguments.rows) != 1:  # each row in a process of its own: JAX's devices are set once a process
            status = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, __file__, name, "--seeds", arguments.seeds])
            if status:
                sys.exit(status)
            continue
        results[name] = measure(name, [int(seed) for seed in arguments.seeds.split(",")])
        RESULTS.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "README.md").write_text(table(results))


if __name__ == "__main__":
    main()
