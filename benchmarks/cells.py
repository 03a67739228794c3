"""Tables of results, one file each: a map from a cell's name to its result, which processes write in turns.

A script whose cells are trained in processes of their own is called again with `--here CELL`, and its last line is a
map from cells' names to their results.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from forage.evaluation.comparison import welch_difference, welch_p
from forage.evaluation.statistics import student_interval


def read(path: Path) -> dict[str, Any]:
    """Return all cells of a table; none where nothing has been written yet."""
    return json.loads(path.read_text()) if path.exists() else {}


def put(path: Path, name: str, cell: Any) -> None:
    """Add a cell, or write it anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path):
        write(path, read(path) | {name: cell})


def write(path: Path, cells: dict[str, Any]) -> None:
    """Write a whole table, sorted by name. Whoever reads meanwhile finds the old one or the new one."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(cells[name])}" for name in sorted(cells))
    part = path.with_suffix(".part")
    part.write_text("{\n" + lines + "\n}\n")
    os.replace(part, path)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process writes the table, and keep others out meanwhile. Windows does not keep them out."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fingerprint(told: Any) -> str:
    """Return twelve hexadecimal digits that stand for plain data: what a cell was made from."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the options of every script of cells."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", default="", help="how the names of cells begin; several with commas between them")
    made.add_argument("--list", action="store_true")
    made.add_argument("--table", action="store_true", help="only make the page anew")
    made.add_argument("--here", metavar="CELL", help="train one cell in this process and print it")
    return made


def chosen(names: Iterable[str], only: str) -> list[str]:
    """Return the cells that `--only` asks for, in its order."""
    names = list(names)
    return list(dict.fromkeys(name for start in only.split(",") for name in names if name.startswith(start)))


def work(
    script: str,
    results: Path,
    names: Iterable[str],
    arguments: argparse.Namespace,
    train: Callable[[str], Any],
    page: Callable[[dict[str, Any]], None],
) -> None:
    """Train what is missing of the cells that were asked for, one by one, or list it; and make the page."""
    if arguments.here:
        print(json.dumps({arguments.here: train(arguments.here)}), flush=True)
        return
    found, wanted = read(results), chosen(names, arguments.only)
    if arguments.list:
        print(*(f"{cell} {'done' if cell in found else ''}" for cell in wanted), sep="\n")
        return
    for cell in () if arguments.table else (cell for cell in wanted if cell not in found):
        train_one(script, results, cell)
    page(read(results))


def train_one(script: str, results: Path, cell: str, **how: Any) -> None:
    """Train a cell in a process of its own, and keep its results."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, script, "--here", cell], capture_output=True, text=True, **how)
    if done.returncode:
        print(f"{cell} failed: {done.stderr[-2000:]}", file=sys.stderr, flush=True)
        return
    for name, found in json.loads(done.stdout.strip().splitlines()[-1]).items():
        put(results, name, found)
    print(f"{cell}: {time.monotonic() - began:.0f} s", flush=True)


def train_together(script: str, results: Path, wanted: list[str]) -> None:
    """Train all seeds of each name in one process (`NAME/0,1,2`), one process after another, on JAX's own device."""
    for group in dict.fromkeys(cell.rpartition("/")[0] for cell in wanted):
        seeds = ",".join(cell.rpartition("/")[2] for cell in wanted if cell.rpartition("/")[0] == group)
        train_one(script, results, f"{group}/{seeds}")


def train_all(script: str, results: Path, wanted: list[str], jobs: int) -> None:
    """Train cells in processes of their own, so many at a time, each kept to one core where the system can do so."""
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    can_pin = hasattr(os, "sched_setaffinity")
    for core in (sorted(os.sched_getaffinity(0)) if can_pin else range(jobs))[:jobs]:
        cores.put(core)

    def train(cell: str) -> None:
        core = cores.get()
        pin = (lambda: os.sched_setaffinity(0, {core})) if can_pin else None
        environment = os.environ | {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
        train_one(script, results, cell, env=environment, preexec_fn=pin)
        cores.put(core)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(train, wanted))


def with_interval(means: np.ndarray) -> str:
    """Return the mean over seeds with Student's 95 % interval."""
    low, high = student_interval(means)
    return f"{means.mean():.4g} [{low:.4g}, {high:.4g}]"


def compared(ours: np.ndarray, theirs: np.ndarray) -> tuple[str, str]:
    """Compare two means over seeds as `forage compare` does, by Welch's 95 % interval of their difference.

    Return the difference with its interval and p, and the verdict on ours: better, worse or inconclusive.
    """
    value, low, high = welch_difference(ours, theirs)
    verdict = "better" if low > 0 else "worse" if high < 0 else "inconclusive"
    return f"{value:+.4g} [{low:.4g}, {high:.4g}], p = {welch_p(ours, theirs):.2g}", verdict
