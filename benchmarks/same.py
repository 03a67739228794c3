"""Does another version of Forage compute the same numbers? Small runs of every family, held bit for bit.

    python benchmarks/same.py RUNS                       train them into RUNS; writes RUNS/same.json
    python benchmarks/same.py RUNS --compare OLD.json    the same, then say which numbers differ from another version's
    python benchmarks/same.py --check RUNS               evaluate and resume the runs that another version trained
    python benchmarks/same.py --list                     the runs and their commands

Every run is trained by the command line, in a process of its own. Its record holds a SHA-256 of each array of the
weights, of each column of its metrics but the times, and of the score's returns. The trained runs are then played again
on fresh episodes, and some are resumed to twice their steps; what comes of that is in the record, too. `--compare` and
`--check` exit with 1 when a number differs.

An array or column that has only another name or place is listed as renamed, not as different. Numbers are comparable
on one kind of processor, with one number of cores and the same versions of the packages: the record has them.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OPTION = {"gru-size": "gru-size"}
"""Options that may be renamed: the word used below, and the word that this version takes."""

TIMES = ("seconds", "steps_per_second", "evaluation_seconds", "spent")
"""Columns of metrics that are about time."""

DATA = "data.npz"
"""The name, below the folder of the runs, of the data set that the offline runs learn from."""


class Row(NamedTuple):
    """One small run: what follows `forage train`, and how it is checked."""

    words: str
    data: bool = False  # it learns from the data set
    resume: int = 0  # the steps to which it is resumed; 0 leaves that out


ROWS: dict[str, Row] = {
    "sac": Row("sac Pendulum-v1 --steps 1200 --seeds 2 --learning-starts 400 --hidden-sizes 32,32", resume=2000),
    "ppo": Row("ppo CartPole-v1 --steps 16k --seeds 3", resume=32_000),
    "ppo-host": Row("ppo gymnasium:CartPole-v1 --steps 4096 --seeds 2", resume=8192),
    "ppo-gru": Row("ppo CartPole-masked --steps 8k --seeds 2 --gru-size 16 --hidden-sizes 32"),
    "dqn": Row("dqn CartPole-v1 --steps 4k --seeds 2 --memory prioritised --n-step 3 --hidden-sizes 32,32"),
    "tqc-host": Row(
        "tqc gymnasium:Pendulum-v1 --steps 600 --seeds 1 --learning-starts 300 --hidden-sizes 32,32 "
        "--value-sizes 32,32 --critics 2"
    ),
    "impala": Row("impala CartPole-v1 --steps 16k --seeds 2"),
    "open-es": Row("open-es CartPole-v1 --steps 100k --seeds 2 --hidden-sizes 16"),
    "q-learning": Row("q-learning tabular:Garnet-20 --steps 4k --seeds 3"),
    "rnd": Row(
        "dqn MountainCar-v0 --steps 4k --seeds 2 --rewards rnd --behaviour ez-greedy --hidden-sizes 32,32 "
        "--learning-starts 1000"
    ),
    "iql": Row("iql Pendulum-v1 --steps 400 --seeds 2 --hidden-sizes 32,32", data=True, resume=800),
    "cql": Row("cql Pendulum-v1 --steps 200 --seeds 1 --hidden-sizes 32,32", data=True),
    "decision-transformer": Row(
        "decision-transformer Pendulum-v1 --steps 100 --seeds 1 --width 16 --layers 1 --context 5", data=True
    ),
    "grpo": Row("grpo text:addition --steps 32 --seeds 1 --num-envs 16 --env.response 16"),
}
EVERY_RUN = "--evaluation-episodes 4 --checkpoint-seconds 1e6 --quiet"
RECORD = "--steps 3000 --actions random"
PLAY = "--episodes 4 --seed 1 --quiet"

SOURCE = "sac"
"""The run in whose environment the data set is recorded."""

ONE = "--one-in-this-process"
Record = dict[str, Any]


def main() -> int:
    """Train, compare or check. Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=Path, help="a new folder for the runs, or with --check one with runs")
    parser.add_argument("--check", action="store_true", help="load, evaluate and resume the runs of an older version")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="say what differs from this record")
    parser.add_argument(
        "--keep", action="store_true", help="keep runs and records that are there, after an interruption"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=ROWS, default=list(ROWS), help="these runs alone")
    parser.add_argument("--list", action="store_true", help="print the commands")
    arguments = parser.parse_args()
    if arguments.list:
        print(*(f"{name:22} forage train {row.words}" for name, row in ROWS.items()), sep="\n")
        return 0
    if arguments.runs is None:
        parser.error("name a folder for the runs")
    runs = arguments.runs.resolve()
    if arguments.check:
        old = json.loads((runs / "same.json").read_text())
        new = old | {"made": about(), "runs": again(runs, old, arguments.only)}
        old = old | {"runs": {name: old["runs"][name] for name in new["runs"]}}
        return report(old, new, kinds=("evaluated", "resumed"))
    new = train(runs, arguments.only, arguments.keep)
    if arguments.compare is None:
        return 0
    old = json.loads(arguments.compare.read_text())
    old = old | {"runs": {name: one for name, one in old["runs"].items() if name in new["runs"]}}
    return report(old, new)


def train(runs: Path, names: Iterable[str], keep: bool) -> Record:
    """Train the runs, each below `runs`, write and return their record; with `keep` those are left that are there."""
    runs.mkdir(parents=True, exist_ok=True)
    found: Record = {"made": about(), "runs": {}}
    if keep and (runs / "same.json").exists():
        found["runs"] = json.loads((runs / "same.json").read_text())["runs"]
    for name in names:
        if keep and name in found["runs"]:
            continue
        if ROWS[name].data and not (runs / DATA).exists():
            if not (runs / SOURCE / "agent.npz").exists():
                apart(SOURCE, runs, trains=True)
            apart(DATA, runs, trains=True)
        found["runs"][name] = apart(name, runs, trains=not (keep and (runs / name / "evaluation.json").exists()))
        if (runs / DATA).exists():
            found["data"] = arrays(runs / DATA)
        (runs / "same.json").write_text(json.dumps(found, indent=1) + "\n")
    return found


def again(runs: Path, old: Record, names: Iterable[str]) -> dict[str, Record]:
    """Load, evaluate and resume copies of stored runs. Return what comes of it, by run."""
    return {name: apart(name, runs, trains=False) for name in names if name in old["runs"]}


def apart(name: str, runs: Path, trains: bool) -> Record:
    """Return what `one` does in a process of its own; end the program if that fails."""
    began = time.monotonic()
    cache = Path(tempfile.gettempdir()) / f"forage-same-{os.getuid()}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": str(cache)}
    with tempfile.TemporaryDirectory(prefix="same-") as folder:
        target = Path(folder) / "record.json"
        command = [sys.executable, str(Path(__file__).resolve()), ONE, name, str(runs), str(int(trains)), str(target)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name} ended with {done.returncode}: {done.stderr.strip()}")
        print(f"{name:22} {time.monotonic() - began:5.1f} s", flush=True)
        return json.loads(target.read_text())


def one(name: str, runs: Path, trains: bool) -> Record:
    """Train a run, where `trains`; load it, evaluate a copy of it, and resume another one where its row says so."""
    if name == DATA:
        forage("data", "record", str(runs / SOURCE), *RECORD.split(), "--output", str(runs / DATA), "--quiet")
        return {}
    row, run = ROWS[name], runs / name
    data = ["--data", str(runs / DATA)] if row.data else []
    found: Record = {}
    if trains:
        shutil.rmtree(run, ignore_errors=True)
        words = [f"--{OPTION.get(word[2:], word[2:])}" if word.startswith("--") else word for word in row.words.split()]
        forage("train", *words, *EVERY_RUN.split(), *data, "--directory", str(run))
    found["trained"] = record(run)
    with tempfile.TemporaryDirectory(prefix="same-") as folder:
        copy = Path(shutil.copytree(run, Path(folder) / name))
        forage("evaluate", str(copy), *PLAY.split())
        found["evaluated"] = returns(copy)
        if row.resume:
            shutil.rmtree(copy)
            shutil.copytree(run, copy)
            forage("resume", str(copy), "--steps", str(row.resume), "--anyway", "--quiet", *data)
            found["resumed"] = record(copy)
    return found


def forage(*words: str) -> None:
    """Run the command line in this process, and raise `SystemExit` if it fails."""
    sys.argv = ["forage", *words]
    try:
        runpy.run_module("forage", run_name="__main__", alter_sys=True)
    except SystemExit as stopped:
        if stopped.code:
            raise SystemExit(stopped.code) from None


def record(run: Path) -> Record:
    """Return the hashes of a trained run: its weights, its metrics and its score."""
    found = {f"weights {name}": value for name, value in arrays(run / "agent.npz").items()}
    for file in ("metrics", "evaluations"):
        found |= {f"{file} {name}": value for name, value in columns(run / f"{file}.jsonl").items()}
    return found | returns(run)


def returns(run: Path) -> Record:
    """Return the hash of the returns that a run's newest evaluation has, and what they are on average."""
    evaluation = json.loads((run / "evaluation.json").read_text())
    return {"returns": f"{digest(json.dumps(evaluation['return']).encode())} {mean(evaluation['return']):.9g}"}


def mean(values: Any) -> float:
    """Return the mean of nested lists of numbers."""
    while values and isinstance(values[0], list):
        values = [value for row in values for value in row]
    return sum(values) / len(values)


def arrays(path: Path) -> dict[str, str]:
    """Return the hash of each array of an archive, by name.

    A checkpoint calls its arrays `leaf0`, `leaf1`, ... and lists their names beside them; one that is mostly zero lies
    there in pieces (`filled0`, `bytes0`, `like0`), which are hashed together.
    """
    found: dict[str, str] = {}
    with np.load(path) as archive:
        names = json.loads(archive["names"].tobytes()) if "names" in archive else None
        for entry in archive.files:
            if entry in ("header", "names"):
                continue
            name = entry if names is None else names[int(entry.lstrip("abcdefghijklmnopqrstuvwxyz"))]
            array = archive[entry]
            text = f"{array.dtype}{list(array.shape)} ".encode()
            found[name] = digest(found.get(name, "").encode() + text + array.tobytes())
    return found


def columns(path: Path) -> dict[str, str]:
    """Return the hash of each column of a file of JSON lines, but the times."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    names = dict.fromkeys(name for row in rows for name in row if name not in TIMES)
    return {name: digest(json.dumps([row.get(name) for row in rows]).encode()) for name in names}


def digest(content: bytes) -> str:
    """Return the first sixteen digits of the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


def about() -> Record:
    """Return what the numbers may depend on beside the code."""
    packages = ("jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium")
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def report(old: Record, new: Record, kinds: Iterable[str] = ("trained", "evaluated", "resumed")) -> int:
    """Print which numbers differ between two records. Return the exit code."""
    if old["made"] != new["made"]:
        print(f"made on {old['made']}\nnow on  {new['made']}")
    if "data" in old and "data" in new and old["data"] != new["data"]:
        print("The data sets differ, and with them what is learned from them.")
    failed = 0
    for name, before in old["runs"].items():
        for kind in kinds:
            if kind in before:
                differ, renamed = differences(before[kind], new["runs"][name][kind])
                failed += bool(differ)
                total = len(before[kind])
                said = f"{len(differ)} of {total} differ: {', '.join(differ[:6])}" if differ else f"{total} the same"
                more = f"; renamed {', '.join(renamed[:6])}" if renamed else ""
                print(f"{name:22} {kind:10} {said}{more}")
    print(f"{failed} of the records differ." if failed else "All numbers are the same.")
    return int(failed > 0)


def differences(old: dict[str, str], new: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the entries of two records that differ, and those that are the same under another name."""
    left = {name: value for name, value in old.items() if new.get(name) != value}
    spare = Counter(value for name, value in new.items() if old.get(name) != value)
    differ, renamed = [], []
    for name, value in left.items():
        (renamed if spare[value] else differ).append(name)
        spare[value] -= bool(spare[value])
    for name, value in new.items():
        if name not in old and spare[value]:
            differ.append(f"{name} (new)")
            spare[value] -= 1
    return differ, renamed


if __name__ == "__main__":
    if sys.argv[1:2] == [ONE]:
        _, _, asked, folder, trains, target = sys.argv
        sys.path.pop(0)  # the folder of this script
        Path(target).write_text(json.dumps(one(asked, Path(folder), trains == "1")))
    else:
        sys.exit(main())
