"""How fast is the device road on an accelerator? Agents and environments, each in a process of its own.

    python benchmarks/gpu.py                      # all rows on JAX's default device, in about five minutes
    python benchmarks/gpu.py --only ppo           # rows whose names begin so
    python benchmarks/gpu.py --platform cpu       # the same rows on the processor of this machine

A row prints one JSON line: its device, seconds until the first report (compilation is most of it), steps a second of
all seeds after it, the score, and the most memory that the device held. `--output FILE` collects the lines.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import gpu_language


class Row(NamedTuple):
    """One run: an agent in an environment, or random actions in one."""

    agent: str | None
    environment: str
    steps: int
    seeds: int = 1
    options: dict[str, Any] = {}
    num_envs: int = 1  # of random actions


ROWS: dict[str, Row] = {
    "ppo/cartpole/preset": Row("ppo", "CartPole-v1", 500_000),
    "ppo/cartpole/preset, 16 seeds": Row("ppo", "CartPole-v1", 200_000, seeds=16),
    "ppo/cartpole/2048": Row("ppo", "CartPole-v1", 20_000_000, options={"num_envs": 2048, "rollout_length": 64}),
    "ppo/breakout/1024": Row("ppo", "minatar:Breakout", 10_000_000, options={"num_envs": 1024}),
    "sac/pendulum/preset": Row("sac", "Pendulum-v1", 20_000),
    "sac/pendulum/preset, 16 seeds": Row("sac", "Pendulum-v1", 20_000, seeds=16),
    "dqn/cartpole/preset, 16 seeds": Row("dqn", "CartPole-v1", 50_000, seeds=16),
    "random/cartpole/65536": Row(None, "CartPole-v1", 500, num_envs=65_536),
    "random/breakout/65536": Row(None, "minatar:Breakout", 500, num_envs=65_536),
    "random/doorkey/65536": Row(None, "grid:DoorKey-8x8", 500, num_envs=65_536),
}


def peak_memory() -> int | None:
    """Return the most bytes that the first device held, where it counts them."""
    import jax

    statistics = jax.devices()[0].memory_stats()
    return statistics.get("peak_bytes_in_use") if statistics else None


def train(row: Row) -> dict[str, Any]:
    """Train as a user does, and read the run's own clock."""
    import forage

    assert row.agent
    with tempfile.TemporaryDirectory() as scratch:
        began = time.monotonic()
        run = forage.train(
            row.agent,
            row.environment,
            steps=row.steps,
            seeds=list(range(row.seeds)),
            directory=Path(scratch) / "run",
            display="quiet",
            agent_options=row.options,
        )
        seconds = time.monotonic() - began
        rows = run.rows
        first, last = rows[0], rows[-1]
        steps, spent = last["steps"] - first["steps"], last["seconds"] - first["seconds"]
        steady = row.seeds * steps / spent if spent else None  # `None`: one report, at the end
        score = run.score
    return {"steps_per_second": steady, "seconds_first": first["seconds"], "seconds": seconds, "score": str(score)}


def step(row: Row) -> dict[str, Any]:
    """Step an environment with random actions, new episodes included, in one compiled program."""
    import jax
    import steppers

    begin, advance = steppers.forage(row.environment, row.num_envs, row.steps, "episodes")
    state = jax.jit(begin)(jax.random.PRNGKey(0))
    run = jax.jit(advance)
    began = time.monotonic()
    state = jax.block_until_ready(run(state, jax.random.PRNGKey(1)))
    first, began = time.monotonic() - began, time.monotonic()
    jax.block_until_ready(run(state, jax.random.PRNGKey(2)))
    return {"steps_per_second": row.steps * row.num_envs / (time.monotonic() - began), "seconds_first": first}


def main() -> None:
    """Run the rows one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="how the names of rows begin")
    parser.add_argument("--platform", help="cpu, cuda or tpu; JAX's choice, where it is not given")
    parser.add_argument("--output", type=Path, help="a file that gets the lines, too")
    parser.add_argument("--limit", type=float, default=240, help="seconds that a row may take")
    parser.add_argument("--here", metavar="ROW", help="run one row in this process")
    arguments = parser.parse_args()
    if arguments.here:
        import jax

        row = ROWS.get(arguments.here)
        found = (train if row.agent else step)(row) if row else gpu_language.measure(arguments.here)
        device = jax.devices()[0]
        told = {"row": arguments.here, "device": device.device_kind, "peak_bytes": peak_memory()}
        print(json.dumps(told | found), flush=True)
        return
    environment = os.environ | ({"JAX_PLATFORMS": arguments.platform} if arguments.platform else {})
    for name in (*ROWS, *gpu_language.ROWS):
        if not name.startswith(tuple(arguments.only)):
            continue
        command = [sys.executable, __file__, "--here", name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=arguments.limit)
            line = done.stdout.strip().splitlines()[-1] if not done.returncode else ""
            line = line or json.dumps({"row": name, "failed": done.stderr[-1500:]})
        except subprocess.TimeoutExpired:
            line = json.dumps({"row": name, "failed": f"more than {arguments.limit:.0f} s"})
        print(line, flush=True)
        if arguments.output:
            with arguments.output.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
