"""How fast environments step beside the libraries they compare with: `python benchmarks/environments.py [row ...]`.

Random actions, one jitted scan over steps with all environments side by side; nothing is learned or stored, and the
last observation is kept so that making it cannot be left out. Each row runs in a process of its own, its contestants
alternate in it. Three ways of stepping:

- `episodes`: ended episodes begin anew, by the library's own automatic reset, and in Forage from the pool of starts.
- `bare`: steps only, never a reset. Forage's adapter beside the library it opens: what the adapter costs.
- `host`: on the host, with new episodes, all handed the same actions. Forage's adapter beside the library.

Writes `results/environments.json` and the table `results/ENVIRONMENTS.md`. Rows whose library is missing are
left out, by name.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).resolve().parent / "results"


class Row(NamedTuple):
    id: str  # Forage's id
    way: str  # episodes, bare or host
    peers: dict[str, str]  # stepper of steppers.py, or of host_steppers.py -> the id there
    num_envs: int
    steps: int  # of each environment, in one timed run
    wanted: float  # Forage's speed over the fastest peer's


NATIVE, ADAPTER = 1.2, 0.97
ROWS: dict[str, Row] = {
    "cartpole": Row("CartPole-v1", "episodes", {"gymnax": "CartPole-v1"}, 1024, 2000, NATIVE),
    "acrobot": Row("Acrobot-v1", "episodes", {"gymnax": "Acrobot-v1"}, 1024, 500, NATIVE),
    "mountain-car": Row("MountainCar-v0", "episodes", {"gymnax": "MountainCar-v0"}, 1024, 2000, NATIVE),
    "pendulum": Row("Pendulum-v1", "episodes", {"gymnax": "Pendulum-v1"}, 1024, 2000, NATIVE),
    "deep-sea": Row("DeepSea-8", "episodes", {"gymnax": "DeepSea-bsuite"}, 1024, 2000, NATIVE),
    "breakout": Row("minatar:Breakout", "episodes", {"gymnax": "Breakout-MinAtar"}, 1024, 1000, NATIVE),
    "asterix": Row("minatar:Asterix", "episodes", {"gymnax": "Asterix-MinAtar"}, 1024, 500, NATIVE),
    "freeway": Row("minatar:Freeway", "episodes", {"gymnax": "Freeway-MinAtar"}, 1024, 500, NATIVE),
    "space-invaders": Row("minatar:SpaceInvaders", "episodes", {"gymnax": "SpaceInvaders-MinAtar"}, 1024, 500, NATIVE),
    "grid-empty": Row(
        "grid:Empty-8x8",
        "episodes",
        {"navix": "Navix-Empty-8x8-v0", "xland": "MiniGrid-Empty-8x8"},
        1024,
        500,
        NATIVE,
    ),
    "grid-doorkey": Row(
        "grid:DoorKey-8x8",
        "episodes",
        {"navix": "Navix-DoorKey-8x8-v0", "xland": "MiniGrid-DoorKey-8x8"},
        1024,
        500,
        NATIVE,
    ),
    "craftax": Row("craftax:Craftax-Symbolic-v1", "episodes", {"craftax": "Craftax-Symbolic-v1"}, 256, 16, NATIVE),
    "gymnax-adapter": Row("gymnax:CartPole-v1", "bare", {"gymnax": "CartPole-v1"}, 1024, 2000, ADAPTER),
    "minatar-adapter": Row("gymnax:Breakout-MinAtar", "bare", {"gymnax": "Breakout-MinAtar"}, 1024, 1000, ADAPTER),
    "jumanji-adapter": Row("jumanji:Snake-v1", "bare", {"jumanji": "Snake-v1"}, 1024, 200, ADAPTER),
    "jumanji-tsp-adapter": Row("jumanji:TSP-v1", "bare", {"jumanji": "TSP-v1"}, 1024, 200, ADAPTER),
    "jaxmarl-adapter": Row(
        "jaxmarl:MPE_simple_spread_v3", "bare", {"jaxmarl": "MPE_simple_spread_v3"}, 512, 200, ADAPTER
    ),
    "smax-adapter": Row("jaxmarl:SMAX-3m", "bare", {"jaxmarl": "SMAX-3m"}, 128, 50, ADAPTER),
    "brax-adapter": Row("brax:ant", "bare", {"brax": "ant"}, 128, 20, ADAPTER),
    "playground-adapter": Row("playground:CheetahRun", "bare", {"playground": "CheetahRun"}, 128, 30, ADAPTER),
    "craftax-adapter": Row("craftax:Craftax-Symbolic-v1", "bare", {"craftax": "Craftax-Symbolic-v1"}, 256, 30, ADAPTER),
    "xland-adapter": Row("xland:MiniGrid-Empty-8x8", "bare", {"xland": "MiniGrid-Empty-8x8"}, 1024, 500, ADAPTER),
    "navix-adapter": Row("navix:Navix-Empty-8x8-v0", "bare", {"navix": "Navix-Empty-8x8-v0"}, 1024, 500, ADAPTER),
    "ale-pong": Row("ale:Pong", "host", {"ale": "pong"}, 16, 100, ADAPTER),
    "envpool-cheetah": Row("envpool:HalfCheetah-v4", "host", {"envpool": "HalfCheetah-v4"}, 64, 1000, ADAPTER),
    "envpool-pong": Row("envpool:Pong-v5", "host", {"envpool": "Pong-v5"}, 16, 500, ADAPTER),
    "gymnasium-cheetah": Row("gymnasium:HalfCheetah-v5", "host", {"gymnasium": "HalfCheetah-v5"}, 8, 1000, ADAPTER),
    "gymnasium-pong": Row(
        "gymnasium:ALE/Pong-v5", "host", {"gymnasium": "ALE/Pong-v5", "ale": "pong"}, 16, 100, ADAPTER
    ),
    "pettingzoo-spread": Row(
        "pettingzoo:mpe/simple_spread_v3", "host", {"pettingzoo": "mpe2.simple_spread_v3"}, 16, 100, ADAPTER
    ),
    "mo-gymnasium-treasure": Row(
        "mo-gymnasium:deep-sea-treasure-v0", "host", {"mo_gymnasium": "deep-sea-treasure-v0"}, 16, 1000, ADAPTER
    ),
    "robotics-reach": Row("robotics:FetchReachDense-v4", "host", {"gymnasium": "FetchReachDense-v4"}, 4, 200, ADAPTER),
}

LIBRARIES = {"xland": "xminigrid", "playground": "mujoco_playground", "ale": "ale_py"}


def available(row: Row) -> bool:
    return all(importlib.util.find_spec(LIBRARIES.get(peer, peer)) is not None for peer in row.peers)


def measure(name: str, repeats: int, scale: float) -> dict[str, Any]:
    """Runs one row in this process. Returns each contestant's rates, in environment steps a second."""
    row = ROWS[name]
    steps = max(2, int(row.steps * scale))
    rates, compiling = (measure_host if row.way == "host" else measure_device)(row, steps, repeats)
    return {"row": name, "rates": rates, "compile": compiling, "steps": steps, "num_envs": row.num_envs}


Measured = tuple[dict[str, list[float]], dict[str, float]]
"""Each contestant's rates, and the seconds until it was ready."""


def measure_host(row: Row, steps: int, repeats: int) -> Measured:
    import host_steppers

    actions = host_steppers.actions_of(row.id, row.num_envs, steps)
    contestants = {"forage": row.id, **row.peers}
    running, starting = {}, {}
    for contestant, id in contestants.items():
        started = time.perf_counter()
        running[contestant] = getattr(host_steppers, contestant)(id, row.num_envs)
        for action in actions[:10]:
            running[contestant](action)
        starting[contestant] = time.perf_counter() - started
    rates: dict[str, list[float]] = {contestant: [] for contestant in contestants}
    for _ in range(repeats):
        for contestant, step in running.items():
            started = time.perf_counter()
            for action in actions:
                step(action)
            rates[contestant].append(steps * row.num_envs / (time.perf_counter() - started))
    return rates, starting


def measure_device(row: Row, steps: int, repeats: int) -> Measured:
    import jax
    import steppers

    ways = row.num_envs, steps, row.way
    contestants: dict[str, Callable[[], Any]] = {"forage": lambda: steppers.forage(row.id, *ways)}
    for peer, id in row.peers.items():
        contestants[peer] = lambda peer=peer, id=id: getattr(steppers, peer)(id, *ways)
    running, compiling = {}, {}
    for contestant, build in contestants.items():
        started = time.perf_counter()
        begin, advance = build()
        key = jax.random.PRNGKey(0)
        state = jax.block_until_ready(jax.jit(begin)(key))
        advance = jax.jit(advance).lower(state, key).compile()
        compiling[contestant] = time.perf_counter() - started
        running[contestant] = [advance, jax.block_until_ready(advance(state, key))]
    rates: dict[str, list[float]] = {contestant: [] for contestant in contestants}
    for repeat in range(repeats):
        for contestant, pair in running.items():
            key = jax.random.PRNGKey(repeat + 1)
            started = time.perf_counter()
            pair[1] = jax.block_until_ready(pair[0](pair[1], key))
            rates[contestant].append(steps * row.num_envs / (time.perf_counter() - started))
    return rates, compiling


def table(records: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# Environments beside peers",
        "",
        "Environment steps a second with random actions, median of repeats that alternate in one process; made by",
        "`python benchmarks/environments.py`. *episodes*: with new episodes, by the library's own automatic reset and",
        "in Forage from the pool of starts. *bare*: steps only, so that the ratio is what an adapter costs. *host*: on",
        "the host, with new episodes, in the library's own batch where it has one.",
        "",
        "| environment | way | environments | Forage | peers | ratio to the fastest | wanted |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in ROWS.items():
        if name not in records:
            continue
        rates = {who: statistics.median(values) for who, values in records[name]["rates"].items()}
        ours = rates.pop("forage")
        ratio = ours / max(rates.values())
        peers = ", ".join(f"{who} {rate:,.0f}" for who, rate in rates.items())
        lines.append(
            f"| `{row.id}` | {row.way} | {row.num_envs} | {ours:,.0f} | {peers} | {ratio:.2f} | {row.wanted} |"
        )
    machine = next(iter(records.values()))["machine"] if records else {}
    lines += ["", f"{machine.get('cpu', '')}, {machine.get('cores', '')} cores, {machine.get('date', '')}.", ""]
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    import jax

    return {
        "cores": os.cpu_count(),
        "cpu": platform.machine(),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="all, unless some are named")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the steps")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--smoke", action="store_true", help="a few steps of each row; writes nothing")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.repeats, arguments.scale)))
        return
    path = RESULTS / "environments.json"
    records = json.loads(path.read_text()) if path.exists() else {}
    for name in arguments.rows or ROWS:
        if not available(ROWS[name]):
            print(f"{name}: left out, {', '.join(ROWS[name].peers)} not installed", flush=True)
            continue
        repeats, scale = (1, 0.01) if arguments.smoke else (arguments.repeats, arguments.scale)
        command = [sys.executable, __file__, "--one", name, "--repeats", str(repeats), "--scale", str(scale)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{name}: failed\n{done.stderr[-2000:]}", flush=True)
            continue
        record = json.loads(done.stdout.strip().splitlines()[-1])
        records[name] = record | {"machine": machine()}
        rates = {who: statistics.median(values) for who, values in record["rates"].items()}
        said = ", ".join(f"{who} {rate:,.0f}" for who, rate in rates.items())
        print(f"{name}: {said} (compile {', '.join(f'{t:.1f}' for t in record['compile'].values())} s)", flush=True)
        if not arguments.smoke:
            path.write_text(json.dumps(records, indent=1))
            (RESULTS / "ENVIRONMENTS.md").write_text(table(records))


if __name__ == "__main__":
    main()
