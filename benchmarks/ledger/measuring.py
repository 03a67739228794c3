"""Measures one row, in a process of its own: `python -m ledger.measuring '{a row}'`.

`checking.measure` starts it. So compilation starts from nothing,
the peak of memory is this row's alone, and JAX settles on this row's devices.
The last line that it prints is the figures, as JSON.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import jax
import numpy as np

from forage.config.part_data import rebuild_value
from forage.config.resolve import resolve
from forage.core.plain import dumps
from forage.core.types import ForageError
from forage.evaluation.statistics import score
from forage.evaluation.thresholds import first_reached
from forage.loop.runner import Runner
from forage.runs.curve import Totals
from forage.runs.provenance import versions
from forage.runs.scoring import evaluate_agents
from ledger.flops import flops_per_step

POINTS = 50  # on the curve
BLOCKS = 5  # of training, each timed between two looks at the yardstick
SIZE = 2048  # of the yardstick's matrices
PRODUCTS = 3  # in each look


class Yardstick:
    """The speed of the machine at this moment: the float32 rate of a large product of matrices, in GFLOP/s."""

    def __init__(self) -> None:
        # On one device: a run spreads its own arrays over several.
        self.matrix = jax.device_put(np.random.default_rng(0).normal(size=(SIZE, SIZE)).astype(np.float32))
        self.product = jax.jit(lambda x: x @ x)
        jax.block_until_ready(self.product(self.matrix))
        self.peak = 0.0  # of the best single product

    def look(self) -> float:
        """Return the mean time of some products, to detect other load on the machine."""
        spent = []
        for _ in range(PRODUCTS):
            began = time.perf_counter()
            jax.block_until_ready(self.product(self.matrix))
            spent.append(time.perf_counter() - began)
        operations = 2 * SIZE**3 / 1e9
        self.peak = max(self.peak, operations / min(spent))
        return operations / statistics.mean(spent)


class Compiling:
    """The time that JAX spent tracing, lowering or compiling."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []
        jax.monitoring.register_event_duration_secs_listener(self.hear)

    def hear(self, event: str, duration_secs: float, **_: Any) -> None:
        if event.startswith("/jax/core/compile/"):
            self.spans.append((time.perf_counter() - duration_secs, time.perf_counter()))

    @property
    def seconds(self) -> float:
        """Spans overlap, as one program is traced within another and two compile at once: their union."""
        total, until = 0.0, 0.0
        for begin, end in sorted(self.spans):
            total += max(0.0, end - max(begin, until))
            until = max(until, end)
        return total


def measure(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of the row that `Row.settings` describes."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    options = {name: rebuild_value(value, name) for name, value in settings["options"].items()}
    setup = resolve(
        settings["agent"],
        settings["environment"],
        steps=settings["steps"],
        seeds=range(settings["first_seed"], settings["first_seed"] + settings["seeds"]),
        agent_options=options,
        environment_options=settings["environment_options"],
    )
    runner = setup.runner()  # before anything makes JAX settle on its devices
    yardstick, compiling = Yardstick(), Compiling()
    looks = [yardstick.look()]
    runner.begin()
    runner.advance(0)  # on the device one program serves any number of turns; on the host each compiles when called
    looks.append(yardstick.look())
    curve, rates = train(runner, settings["steps"], yardstick, looks)
    evaluation = evaluate_agents(runner, setup, settings["episodes"])
    runner.close()
    compiled, memory = compiling.seconds, peak_memory()
    members = len(setup.members)
    between = [(a + b) / 2 for a, b in itertools.pairwise(looks[1:])]  # around each block
    rates = [members * rate for rate in rates]
    rate = statistics.median(rates)
    speed = statistics.median(r / y for r, y in zip(rates, between, strict=True))  # steps for each GFLOP
    times = first_reached(curve[0], curve[1], settings["threshold"])
    returns = evaluation["return"]
    mark = setup.loop().example_start_id() if setup.native else ()
    total = score(np.array(returns)) if None not in returns else None
    return {
        "returns": returns,
        "score": total and total.value,
        "interval": total and [total.low, total.high],
        "threshold_steps": times.time.tolist(),
        "threshold_reached": times.reached.tolist(),
        "steps_per_second": round(rate, 1),
        "yardstick_gflops": round(statistics.median(between), 1),  # as others left it
        "speed": speed,
        "peak_gflops": round(yardstick.peak, 1),
        "fraction_of_peak": flops_per_step(setup.learner(), mark) * speed / 1e9,
        "compile_seconds": round(compiled, 2),
        "compile_work": compiled * (looks[0] + looks[1]) / 2,
        "memory_mib": round(memory, 1),
        "seconds": round(time.perf_counter() - began, 1),
        "date": datetime.date.today().isoformat(),
        "hardware": hardware(),
        "load_before": round(load, 2),
        "commit": commit(),
        "versions": {name: value for name, value in versions().items() if name not in ("git", "machine")},
    }


def train(
    runner: Runner, steps: int, yardstick: Yardstick, looks: list[float]
) -> tuple[tuple[np.ndarray, np.ndarray], list[float]]:
    """Train to the end. Return the curve (steps, and returns `member point`) and each block's rate for one seed."""
    iterations = -(-steps // runner.steps_per_iteration)
    points = np.unique(np.linspace(0, iterations, min(iterations, POINTS) + 1).astype(int))
    ends = set(np.unique(np.linspace(0, len(points) - 1, BLOCKS + 1).astype(int))[1:].tolist())
    at, rows, rates, began, since = [], [], [], time.perf_counter(), 0
    for number, (start, end) in enumerate(itertools.pairwise(points), 1):
        totals = Totals()
        totals.add(runner.advance(int(end - start)))
        at.append(runner.steps)
        rows.append([np.nan if value is None else value for value in totals.point(())["return"]])
        if number in ends:
            rates.append((runner.steps - since) / (time.perf_counter() - began))
            looks.append(yardstick.look())
            began, since = time.perf_counter(), runner.steps
    return (np.array(at), np.array(rows).T), rates


def peak_memory() -> float:
    """Return the most memory that this process has held at once, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux getrusage counts what the process held before it became this program, too
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def hardware() -> dict[str, Any]:
    """Return the hardware that speed depends on; only figures from equal hardware are compared."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": cpu(), "cores": cores, "device": jax.devices()[0].device_kind, "system": platform.system()}


def commit() -> str | None:
    """Return Forage's commit, with `+` if its files differ from it; `None` outside of git."""
    try:
        git("ls-files", "--error-unmatch", "studies/ledger/measuring.py")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def git(*words: str) -> str:
    command = ["git", "-C", str(Path(__file__).parents[2]), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    try:
        print(dumps(measure(json.loads(sys.argv[1]))))
    except ForageError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except Exception as error:  # JAX ends a traceback with a remark of its own, and the last line is what is told
        traceback.print_exc()
        print(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", file=sys.stderr)
        sys.exit(1)
