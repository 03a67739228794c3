"""Speed beside peers: `python benchmarks/run.py [row ...] [--repeats N] [--list]`.

Every contestant runs in its own process, with its own virtual environment's Python (peers.toml; made on demand under
`.cache/peers`). Within a repeat contestants alternate (A B C, A B C), so that a machine that slows down slows everyone.
Writes one JSON file a row to `results/speed/`, and the table made of them to `results/`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from rows import COLD, REFERENCE, ROWS, STEADY, WARM, Contestant, Row

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
RESULTS = HERE / "results"


# Peers and their virtual environments


def load_peers() -> dict[str, dict[str, Any]]:
    """The sections of peers.toml, by name."""
    return tomllib.loads((HERE / "peers.toml").read_text())


def peer_python(name: str, peer: dict[str, Any], cache: Path, maker: str = sys.executable) -> str:
    """The peer's Python. Makes its environment when there is none, or when peers.toml asks for other packages.

    `maker`: the Python whose `venv` makes it, as wheels of a peer may be of another version than the harness's.
    """
    if "install" not in peer:
        return sys.executable
    root = cache / name
    python = root / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = root / "installed.json"
    wanted = json.dumps(peer["install"])
    if stamp.exists() and stamp.read_text() == wanted and python.exists():
        return str(python)
    print(f"Making an environment for {name} in {root}", flush=True)
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run([maker, "-m", "venv", str(root)], check=True)
    for requirements in peer["install"]:
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *requirements], check=True)
    stamp.write_text(wanted)
    return str(python)


# One run of one contestant


def settings_of(row: Row, contestant: Contestant, smoke: bool) -> dict[str, Any]:
    """The row's settings with the contestant's overrides."""
    return {**row.settings, **contestant.overrides, **(row.smoke if smoke else {})}


def child_environment(compilation_cache: Path) -> dict[str, str]:
    """The process's environment: CPU only, and every compiled program kept in `compilation_cache` and nowhere else."""
    return os.environ | {
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_ENABLE_COMPILATION_CACHE": "true",
        "JAX_COMPILATION_CACHE_DIR": str(compilation_cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "BENCHMARK_STARTED": repr(time.time()),
    }


def run_once(command: list[str], compilation_cache: Path, timeout: float) -> dict[str, Any]:
    """Runs one process and returns its result line with what only the outside can measure:

    `seconds_total` (wall clock), `seconds_whole` (without what the script says lay outside), `seconds_cpu`, and
    `busy_cores_of_others` (cores that other processes kept busy meanwhile; null where the system does not tell).
    """
    compilation_cache.mkdir(parents=True, exist_ok=True)
    busy, usage, began = busy_seconds(), children_seconds(), time.perf_counter()
    process = subprocess.run(
        command,
        env=child_environment(compilation_cache),
        cwd=compilation_cache.parent,  # MuJoCo writes a log of warnings to where it runs
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    total = time.perf_counter() - began
    cpu = children_seconds() - usage
    if process.returncode != 0:
        tail = (process.stderr or process.stdout).strip().splitlines()[-15:]
        raise RuntimeError(f"exit status {process.returncode}\n" + "\n".join(tail))
    after = busy_seconds()
    others = None if busy is None or after is None else max(0.0, (after - busy - cpu) / total)
    result = last_json_line(process.stdout)
    return result | {
        "seconds_total": total,
        "seconds_whole": total - result["seconds_outside"],
        "seconds_cpu": cpu,
        "busy_cores_of_others": others,
    }


def last_json_line(output: str) -> dict[str, Any]:
    """The result line: the last line of a script's output."""
    lines = output.strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, json.JSONDecodeError) as error:
        raise RuntimeError("its last line is not JSON: " + (lines[-1] if lines else "no output")) from error


def children_seconds() -> float:
    """CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def busy_seconds() -> float | None:
    """CPU seconds that all cores together were busy (or taken away) since the machine started."""
    try:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return None
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")


# One row


def run_row(row: Row, arguments: argparse.Namespace, peers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Runs every contestant in every phase, `repeats` times, and returns the record that goes to disk."""
    contestants = [c for c in row.contestants if not arguments.only or c.peer in arguments.only]
    pythons = {c.peer: peer_python(c.peer, peers[c.peer], arguments.cache, arguments.peer_python) for c in contestants}
    record: dict[str, Any] = {
        "row": row.name,
        "title": row.title,
        "rate": row.rate,
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": machine(),
        "repeats": arguments.repeats,
        "settings": dict(row.settings),
        "contestants": {
            c.label: {
                "peer": c.peer,
                "overrides": dict(c.overrides),
                "against": c.against,
                "versions": {},
                "runs": [],
                "failures": [],
            }
            for c in contestants
        },
    }
    with tempfile.TemporaryDirectory(prefix="benchmark-") as scratch:
        for repeat in range(arguments.repeats):
            for phase in row.phases:
                for contestant in contestants:
                    if phase not in (contestant.phases or row.phases):
                        continue
                    if phase == STEADY:
                        compiled = arguments.cache / "compiled" / contestant.peer
                    else:  # the warm process finds what the cold one of the same repeat left
                        compiled = Path(scratch) / f"{repeat}-{contestants.index(contestant)}"
                    settings = settings_of(row, contestant, arguments.smoke)
                    settings |= {"phase": STEADY if phase == STEADY else "whole", "seed": repeat}
                    script = HERE / "peers" / peers[contestant.peer]["script"]
                    command = [pythons[contestant.peer], str(script), row.name, json.dumps(settings)]
                    entry = record["contestants"][contestant.label]
                    about = f"{row.name}  repeat {repeat + 1}/{arguments.repeats}  {phase:6}  {contestant.label}"
                    try:
                        run = run_once(command, compiled, arguments.timeout)
                    except (RuntimeError, subprocess.TimeoutExpired) as error:
                        print(f"{about}: FAILED: {error}", flush=True)
                        entry["failures"].append({"phase": phase, "repeat": repeat, "error": str(error)})
                        continue
                    entry["versions"] = run.pop("versions")
                    run.pop("episodes", None)  # learning.py's
                    entry["runs"].append({"phase": phase, "repeat": repeat, **run})
                    print(
                        f"{about}: {run['seconds_whole']:.1f} s whole, {run[row.rate]:,.0f} "
                        f"{shown_rate(row.rate)}, return {statistics.mean(run['final_return']):.1f}",
                        flush=True,
                    )
    record["summary"] = summarise(record)
    return record


def summarise(record: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """Medians of each contestant, and how many times as fast Forage is.

    `cold`, `warm`: seconds of a whole process. `rate`: of the steady phase, or of the whole-process runs where a
    contestant has no steady phase. `cold_ratio`, `warm_ratio`, `rate_ratio`: above 1 where the Forage contestant that
    this one is held against is faster.
    """
    summary: dict[str, dict[str, float | None]] = {}
    for label, entry in record["contestants"].items():
        runs = entry["runs"]
        steady = [run for run in runs if run["phase"] == STEADY] or runs
        row: dict[str, float | None] = {
            phase: median([run["seconds_whole"] for run in runs if run["phase"] == phase]) for phase in (COLD, WARM)
        }
        row["rate"] = median([run[record["rate"]] for run in steady])
        row["compile"] = median([run["seconds_compile"] for run in runs if run["phase"] in (COLD, STEADY)])
        row["import"] = median([run["seconds_import"] for run in runs])
        row["final_return"] = median([value for run in runs for value in run["final_return"]])
        row["total_steps"] = median([run["total_steps"] for run in runs])
        row["busy_cores_of_others"] = max(
            (run["busy_cores_of_others"] for run in runs if run["busy_cores_of_others"] is not None), default=None
        )
        summary[label] = row
    for label, row in summary.items():
        reference = summary.get(record["contestants"][label]["against"], {})
        for name in (COLD, WARM, "rate"):
            ours, theirs = reference.get(name), row[name]
            if name == WARM and theirs is None:
                theirs = row[COLD]  # without a compilation cache every process is the same
            faster = None if ours is None or theirs is None else (ours / theirs if name == "rate" else theirs / ours)
            row[f"{name}_ratio"] = faster
    return summary


def median(values: list[float | None]) -> float | None:
    """The median of the values that are there; None when there are none."""
    present = [value for value in values if value is not None]
    return statistics.median(present) if present else None


# The machine and the code


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "matmul_gflops": matmul_gflops(),
    }


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


MATMUL = """
import time, jax, jax.numpy as jnp
n = 2048
x = jax.random.normal(jax.random.key(0), (n, n), jnp.float32)
product = jax.jit(lambda x: x @ x)
jax.block_until_ready(product(x))
best = float("inf")
for _ in range(10):
    began = time.perf_counter()
    jax.block_until_ready(product(x))
    best = min(best, time.perf_counter() - began)
print(2 * n**3 / best / 1e9)
"""


def matmul_gflops() -> float:
    """Best float32 rate of a 2048 x 2048 matrix product in JAX on the CPU, in GFLOP/s: the yardstick of the machine."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    process = subprocess.run(
        [sys.executable, "-c", MATMUL], env=environment, capture_output=True, text=True, check=True
    )
    return round(float(process.stdout.strip()), 1)


def commit() -> str | None:
    """The commit measured, with `+` where files under forage/ or benchmarks/ differ from it; None outside git."""
    try:
        head = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--", "forage", "benchmarks/*.py", "benchmarks/peers*")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def git(*arguments: str) -> str:
    command = ["git", "-C", str(REPOSITORY), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


# The table


def records_in(speed: Path) -> list[dict[str, Any]]:
    """The newest record of each row, in the order of rows.py."""
    paths = [speed / f"{name}.json" for name in ROWS]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def table(records: list[dict[str, Any]]) -> str:
    """TABLE.md: one section a row."""
    sections = [
        "# Speed beside peers\n\nMade by `benchmarks/run.py` from the JSON files in `speed/`; do not edit. Medians. "
        "A ratio says how many times as fast as the contestant Forage is: above 1, Forage is faster. *Of the peak*: an "
        "update's products of matrices, counted in `rows.py`, over what the machine's best product would take.\n"
    ]
    for record in records:
        where, summary = record["machine"], record["summary"]
        unit = shown_rate(record["rate"])
        phases = [phase for phase in (COLD, WARM) if any(row[phase] is not None for row in summary.values())]
        columns = [(f"{phase} process, s", phase, "{:.1f}") for phase in phases]
        columns.append((f"steady {unit}", "rate", "{:,.0f}"))
        header = ["contestant"] + [cell for title, _, _ in columns for cell in (title, "ratio")]
        peak = 1e9 * where["matmul_gflops"] / products if (products := ROWS[record["row"]].products) else None
        header += ["of the peak"] * bool(peak) + ["steps", "final return"]
        lines = [
            f"## {record['row']}: {record['title']}\n",
            f"{record['date']}, commit {record['commit'] or 'unknown'}, {record['repeats']} repeats. {where['cpu']}, "
            f"{where['cores']} cores, {where['matmul_gflops']:.0f} GFLOP/s in a 2048 float32 matrix product.",
            "",
            "| " + " | ".join(header) + " |",
            "|---" + "|---:" * (len(header) - 1) + "|",
        ]
        for label, row in summary.items():
            cells = [label]
            for _, name, form in columns:
                cells += [shown(row[name], form), shown(row[f"{name}_ratio"], "{:.2f}")]
            if peak:
                cells.append(shown(row["rate"] and row["rate"] / peak, "{:.0%}"))
            cells += [shown(row["total_steps"], "{:,.0f}"), shown(row["final_return"], "{:.1f}")]
            lines.append("| " + " | ".join(cells) + " |")
        against = {label: entry["against"] for label, entry in record["contestants"].items()}
        if held := [f"{label} to {other}" for label, other in against.items() if other not in (REFERENCE, label)]:
            lines += ["", f"Ratios refer to {REFERENCE}, except: {'; '.join(held)}."]
        versions = {entry["peer"]: entry["versions"] for entry in record["contestants"].values() if entry["versions"]}
        packages = [f"{peer}: {', '.join(f'{n} {v}' for n, v in found.items())}" for peer, found in versions.items()]
        lines += ["", f"Versions: {'; '.join(packages)}."]
        if failed := [label for label, entry in record["contestants"].items() if entry["failures"]]:
            lines += ["", f"Failed at least once: {', '.join(failed)}; the JSON file says how."]
        others = [row["busy_cores_of_others"] for row in summary.values() if row["busy_cores_of_others"] is not None]
        if others and max(others) > 0.2:
            lines += ["", f"The machine was not quiet: others kept up to {max(others):.1f} cores busy during a run."]
        sections.append("\n".join(lines) + "\n")
    return "\n".join(sections)


def shown_rate(rate: str) -> str:
    """`steps/s` for `steps_per_second`."""
    return rate.replace("_per_core_second", "/core s").replace("_per_second", "/s")


def shown(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)  # noqa: RUF001


# The command


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures Forage's speed beside its peers, on this machine's CPU.")
    parser.add_argument("rows", nargs="*", metavar="row", help="rows to run; all when none is named")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each contestant in each phase (default 3)")
    parser.add_argument("--list", action="store_true", help="list the rows and leave")
    parser.add_argument("--only", nargs="+", metavar="peer", help="only these peers")
    parser.add_argument("--smoke", action="store_true", help="few steps, to see that everything runs; writes nothing")
    parser.add_argument("--table", action="store_true", help="only make TABLE.md anew from the JSON files")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds a single run may take (default 1800)")
    parser.add_argument(
        "--cache",
        type=lambda path: Path(path).resolve(),
        default=REPOSITORY / ".cache/peers",
        help="where peers' environments live",
    )
    parser.add_argument(
        "--peer-python", default=sys.executable, help="the Python that makes peers' environments (default: this one)"
    )
    chosen = parser.parse_args(arguments)
    if unknown := sorted(set(chosen.rows) - set(ROWS)):
        parser.error(f"no row is called {', '.join(unknown)}; there are {', '.join(ROWS)}.")
    if unknown := sorted(set(chosen.only or ()) - set(load_peers())):
        parser.error(f"no peer is called {', '.join(unknown)}; there are {', '.join(load_peers())}.")
    if chosen.repeats < 1:
        parser.error("--repeats must be at least 1.")
    return chosen


def main() -> int:
    arguments = parse()
    if arguments.list:
        for row in ROWS.values():
            print(f"{row.name:16} {row.title}: {', '.join(contestant.label for contestant in row.contestants)}")
        return 0
    failed = False
    if not arguments.table:
        peers = load_peers()
        for name in arguments.rows or ROWS:
            record = run_row(ROWS[name], arguments, peers)
            failed |= any(entry["failures"] for entry in record["contestants"].values())
            if arguments.smoke:
                print(table([record]))
                continue
            path = RESULTS / "speed" / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(record, indent=1) + "\n")
            print(f"Wrote {path}", flush=True)
    if not arguments.smoke:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "TABLE.md").write_text(table(records_in(RESULTS / "speed")))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
