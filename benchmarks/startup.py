"""How long the command line takes to answer: help of every command, `forage list`, completion, `show` and the import.

    python benchmarks/startup.py            medians of seconds of processor time; writes results/STARTUP.md
    python benchmarks/startup.py --smoke    a look at whether it works

Every command is a process of its own, and all take turns. Processor time counts, as other programs on the machine
change it less than the time on the clock, which stands beside it.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from forage.cli.entry import COMMANDS

TABLE = Path(__file__).parent / "results" / "STARTUP.md"
FORAGE = [sys.executable, "-m", "forage"]
QUICK = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import forage": [sys.executable, "-c", "import forage"],
    "forage --help": [*FORAGE, "--help"],
    **{f"forage {name} --help": [*FORAGE, name, "--help"] for name in COMMANDS},
    "forage list": [*FORAGE, "list"],
    "completion of forage show": [*FORAGE, "completion", "--line", "forage show "],
}
SLOW = {  # these import JAX
    "forage train ppo --help": [*FORAGE, "train", "ppo", "--help"],
    "forage show ppo": [*FORAGE, "show", "ppo"],
}


def seconds(command: list[str]) -> tuple[float, float]:
    """Run a command to its end. Return the seconds of processor time that it took, and those on the clock."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock


def measure(rounds: dict[str, int]) -> dict[str, np.ndarray]:
    """Return the median seconds, of processor time and on the clock, of each command in so many rounds."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in rounds}
    for turn in range(max(rounds.values())):
        for name, wanted in rounds.items():
            if turn < wanted:
                found[name].append(seconds((QUICK | SLOW)[name]))
    return {name: np.median(times, axis=0) for name, times in found.items()}


def page(found: dict[str, np.ndarray]) -> str:
    """Write the table."""
    lines = [
        "# How long the command line takes to answer",
        "",
        f"Medians of seconds; {platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; `python benchmarks/startup.py` makes them again.",
        "",
        "| what | processor time | on the clock |",
        "|---|---|---|",
        *(f"| `{name}` | {used:.2f} | {clock:.2f} |" for name, (used, clock) in found.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="two commands, once; writes nothing")
    smoke = parser.parse_args().smoke
    text = page(
        measure({"import forage": 1, "forage --help": 1} if smoke else dict.fromkeys(QUICK, 3) | dict.fromkeys(SLOW, 1))
    )
    print(text)
    if not smoke:
        TABLE.write_text(text)


if __name__ == "__main__":
    main()
