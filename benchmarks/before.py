"""Is it still as fast? Forage's own rows of this checkout beside those of another commit, in turns.

    python benchmarks/before.py 9005032                  # all rows, sixty pairs of slices
    python benchmarks/before.py 9005032 ppo-cartpole --pairs 120

The other commit is laid beside this one as a work tree for as long as the measurement takes. Each side runs its own
`peers/forage_.py` in a process of its own, with this Python's packages, and both compile and fill their memory first.
Then they train in turns, about a second at a time: one waits while the other works, and each is first in every second
pair. The ratio of a row is the geometric mean over the pairs, with the 95 % interval of Student's t for its logarithm.
A pair takes two seconds, so a machine that slows down for longer slows both sides. Writes `results/BEFORE-COMMIT.md`,
where rows that are not measured this time keep their lines.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rows import ROWS, STEADY
from run import HERE, REPOSITORY, RESULTS, busy_seconds, child_environment, commit, machine, settings_of

from forage.evaluation.statistics import student_interval

ENDLESS = 2**30
"""Steps of a run that does not end while it is measured."""

ANSWER = "slice: "
SLICES = f"""
import runpy, sys, time
checkout, name, settings = sys.argv[1:]
sys.path[:0] = [checkout, checkout + "/benchmarks/peers"]  # the checkout's own code, whichever one is installed
sys.argv = ["forage_.py", name, settings]
script = runpy.run_path(checkout + "/benchmarks/peers/forage_.py")
_, settings = script["common"].arguments()
runner, _ = script["build"](settings)
runner.begin()
runner.advance(2 + (settings.get("learning_starts", 0) + 100) // runner.steps_per_iteration)
print("{ANSWER}", runner.steps_per_iteration * settings["num_seeds"], sep="", flush=True)
for line in sys.stdin:
    began, used = time.perf_counter(), time.process_time()
    runner.advance(int(line))
    print("{ANSWER}", time.perf_counter() - began, " ", time.process_time() - used, sep="", flush=True)
"""
"""The program of a side: it answers each number of iterations with the seconds that they took."""

HEAD = (
    "| row | before | now | ratio | pairs | cores kept busy by others | commit |\n|---|---:|---:|---:|---:|---:|---|\n"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("rows", nargs="*", help="rows of rows.py; all when none is named")
    parser.add_argument("--pairs", type=int, default=60, help="slices of each side")
    arguments = parser.parse_args()
    lines = kept(arguments.commit)
    with tempfile.TemporaryDirectory(prefix="before-") as scratch:
        other = Path(scratch) / "before"
        git = ["git", "-C", str(REPOSITORY), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(other), arguments.commit], check=True)
        try:
            for name in arguments.rows or ROWS:
                lines[name] = measure(name, other, Path(scratch), arguments.pairs)
                print(lines[name], flush=True)
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
    about = machine()
    text = (
        f"{title(arguments.commit)}\n\n`python benchmarks/before.py {arguments.commit}` wrote this page: environment "
        "steps a second of a commit and of that one, medians of slices of a second in turns, with one Python and one "
        f"set of packages, on {about['cpu']}, {about['cores']} cores. The ratio is the geometric mean over the pairs, "
        f"with its 95 % interval.\n\n{HEAD}"
    )
    page_of(arguments.commit).write_text(text + "\n".join(lines[name] for name in ROWS if name in lines) + "\n")


def page_of(other: str) -> Path:
    return RESULTS / f"BEFORE-{other[:7]}.md"


def title(other: str) -> str:
    return f"# Speed beside {other}"


def kept(other: str) -> dict[str, str]:
    """Return the lines of the page as it stands, by row, where it is about the same commit."""
    page = page_of(other)
    text = page.read_text() if page.exists() else ""
    if not text.startswith(f"{title(other)}\n"):
        return {}
    return {line.split(" | ")[0].removeprefix("| "): line for line in text.partition(HEAD)[2].splitlines()}


def measure(name: str, other: Path, scratch: Path, pairs: int) -> str:
    """Return the line of a row: the rates of both sides, and their ratio with its interval."""
    row = ROWS[name]
    settings = settings_of(row, row.contestants[0], smoke=False) | {"phase": STEADY, "seed": 0, "steps": ENDLESS}
    rates: dict[str, list[float]] = {"before": [], "now": []}
    with contextlib.ExitStack() as stack:
        sides = {
            side: stack.enter_context(Side(checkout, name, settings, scratch / f"compiled-{side}"))
            for side, checkout in (("before", other), ("now", HERE.parent))
        }
        size = slice_size(sides["now"])
        for side in sides.values():
            side.run(size)  # the first slice is warmer for the second side
        began, busy, own = time.perf_counter(), busy_seconds(), 0.0
        for pair in range(pairs):
            for side in ("before", "now") if pair % 2 else ("now", "before"):
                seconds, used = sides[side].run(size)
                rates[side].append(size * sides[side].steps / seconds)
                own += used
        others = (busy_seconds() - busy - own) / (time.perf_counter() - began)
    logs = np.log(np.array(rates["now"]) / np.array(rates["before"]))
    low, high = np.exp(student_interval(logs))
    before, now = (statistics.median(rates[side]) for side in ("before", "now"))
    ratio = f"{np.exp(logs.mean()):.3f} [{low:.3f}, {high:.3f}]"
    return f"| {name} | {before:,.0f} | {now:,.0f} | {ratio} | {pairs} | {max(others, 0.0):.1f} | {commit()} |"


def slice_size(side: Side) -> int:
    """Return the number of iterations that take about a second."""
    size = 1
    while (seconds := side.run(size)[0]) < 0.5:
        size *= 2 if seconds > 0.05 else 8
    return max(1, round(size / seconds))


class Side:
    """The training of one checkout, in a process that runs as many iterations as it is asked for."""

    def __init__(self, checkout: Path, name: str, settings: dict[str, Any], cache: Path):
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", SLICES, str(checkout), name, json.dumps(settings)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=child_environment(cache)
        )
        self.steps = int(self.answer())  # of an iteration, all seeds together

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def run(self, iterations: int) -> tuple[float, float]:
        """Return the seconds of this many iterations, and the seconds of processors that they used."""
        assert self.process.stdin is not None
        print(iterations, file=self.process.stdin, flush=True)
        seconds, used = self.answer().split()
        return float(seconds), float(used)

    def answer(self) -> str:
        """Return the next line of the process that begins as its answers do; raise `SystemExit` if it has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(ANSWER):
                return line.removeprefix(ANSWER)
        raise SystemExit(f"A side ended with {self.process.wait()}; its messages stand above.")


if __name__ == "__main__":
    main()
