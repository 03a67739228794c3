"""Does `forage plan` predict what runs then do? Speeds at one core and two, predicted and measured in turn.

    python benchmarks/plan.py            # results/PLAN.md and plan.png, from results/plan.json
    python benchmarks/plan.py --table    # the page alone

Each repeat is three processes of their own, one after the other: `forage plan` on all cores of this machine, a run
without workers kept to one core, and a run with two workers on two cores. Numbers are medians, and a ratio is the
median of the repeats' own, as a machine may be a fifth quicker a minute later. It should have nothing else to do. The
curve goes on to 10,000 cores, from the same pieces, beside the one that SRL's authors measured on their cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cells
import matplotlib.pyplot as plt

RESULTS = Path(__file__).parent / "results" / "plan.json"
REPEATS, SECONDS = 3, 6.0
CORES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 10_000]
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ppo, HalfCheetah, 16 environments": ("ppo", "gymnasium:HalfCheetah-v5", {"num_envs": 16}),
    "ppo, CartPole, 8": ("ppo", "gymnasium:CartPole-v1", {"num_envs": 8}),
}
SRL: dict[str, dict[int, float]] = {
    # Thousands of frames a second by GPUs, of Mei, Fu, Gao, Wang, Zhang, Wu (2023), arXiv 2306.16688, read from their
    # picture main-exp/main-result.png in github.com/reallyscalablerl/experiments: a pixel is 9 (MuJoCo) or 1.3 (Atari).
    "SRL, MuJoCo": {1: 103, 4: 328, 8: 651, 16: 1229, 32: 2226},
    "SRL, Atari": {1: 17, 4: 58, 8: 90, 16: 178, 32: 324},
}


def predicted(case: str) -> dict[str, Any]:
    """Return the speed that is predicted for each number of cores."""
    from forage.runs.training import use_compilation_cache
    from forage.studies.plan import plan

    use_compilation_cache()
    agent, environment, options = CASES[case]
    return {str(one.cores): [one.speed, one.shares] for one in plan(agent, environment, CORES, options)}


def measured(case: str, workers: int) -> float:
    """Return the steps a second of a run once it is compiled."""
    from forage.config.resolve import resolve
    from forage.loop.cluster.workers import Workers
    from forage.runs.training import use_compilation_cache

    use_compilation_cache()
    agent, environment, options = CASES[case]
    setup = resolve(agent, environment, steps=1_000_000_000, seeds=1, agent_options=options)
    runner = setup.runner(workers=Workers(workers))
    try:
        runner.begin()
        runner.advance(2)
        began, before = time.perf_counter(), runner.steps
        while (passed := time.perf_counter() - began) < SECONDS:
            runner.advance(1)
        return (runner.steps - before) / passed
    finally:
        runner.close()


def apart(what: str, case: str, cores: int) -> Any:
    """Return what a process of its own, kept to so many cores, prints."""
    if hasattr(os, "sched_setaffinity"):
        some = set(sorted(os.sched_getaffinity(0))[:cores])
        keep = lambda: os.sched_setaffinity(0, some)  # noqa: E731
    else:
        keep = None
    done = subprocess.run([sys.executable, __file__, "--here", what, "--case", case], capture_output=True, text=True,
                          check=True, preexec_fn=keep)  # fmt: skip
    return json.loads(done.stdout.strip().splitlines()[-1])


def middle(row: dict[str, Any], cores: int) -> tuple[float, dict[str, float]]:
    """Return the prediction in the middle of the repeats'."""
    told = sorted((one[str(cores)] for one in row["predicted"]), key=lambda pair: pair[0])
    return told[len(told) // 2]


def page(found: dict[str, Any]) -> str:
    """Return the page of what was predicted and measured."""
    lines = [
        "# What `forage plan` predicts",
        "",
        "`python benchmarks/plan.py`. Steps of environments a second, medians; ratios are those of each repeat.",
        "",
        "| run | repeats | cores | predicted | measured | predicted / measured |",
        "|---|---|---|---|---|---|",
    ]
    for case, row in found.items():
        for cores in ("1", "2"):
            told, seen = [one[cores][0] for one in row["predicted"]], row["measured"][cores]
            ratios = sorted(t / s for t, s in zip(told, seen, strict=True))
            lines.append(
                f"| {case} | {len(seen)} | {cores} | {statistics.median(told):,.0f} | {statistics.median(seen):,.0f} | "
                f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |"
            )
    lines += ["", "![predicted steps a second to 10,000 cores](plan.png)", ""]
    lines += ["| run | cores | predicted | what a turn's time goes to |", "|---|---|---|---|"]
    for case, row in found.items():
        for cores in ("16", "128", "1024", "10000"):
            speed, shares = middle(row, int(cores))
            said = ", ".join(f"{name} {share:.0%}" for name, share in sorted(shares.items(), key=lambda s: -s[1]))
            lines.append(f"| {case} | {int(cores):,} | {speed:,.0f} | {said} |")
    lines += [
        "",
        "On the right is what SRL makes of more machines (Mei et al., 2023, arXiv 2306.16688), read from [its",
        "authors' picture](https://github.com/reallyscalablerl/experiments), beside the predictions: how many times",
        "the smallest one's frames a second, by how many times its GPUs or cores. What SRL multiplies is whole",
        "placements, a learner on a GPU with the workers that feed it, and learners share their gradients, so its",
        "curve goes on rising. The picture does not say how many cores belong to a GPU. `forage plan` multiplies",
        "workers alone, and one learner is full after a few of them.",
        "",
        "| | " + " | ".join(f"{gpus}" for gpus in SRL["SRL, MuJoCo"]) + " GPUs |",
        "|---|" + "---|" * len(SRL["SRL, MuJoCo"]),
        *(
            f"| {name}, frames/s | " + " | ".join(f"{1000 * speed:,.0f}" for speed in row.values()) + " |"
            for name, row in SRL.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw the predicted curves, and what was measured on them."""
    figure, (axis, times) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for number, (case, row) in enumerate(found.items()):
        speeds = [middle(row, cores)[0] for cores in CORES]
        axis.plot(CORES, speeds, color=f"C{number}", label=case)
        seen = [statistics.median(row["measured"][cores]) for cores in ("1", "2")]
        axis.plot([1, 2], seen, "o", color=f"C{number}")
        times.plot(CORES, [speed / speeds[0] for speed in speeds], color=f"C{number}", label=f"{case}, by cores")
    for number, (name, row) in enumerate(SRL.items(), len(found)):
        gpus, speeds = list(row), list(row.values())
        times.plot(gpus, [speed / speeds[0] for speed in speeds], "x--", color=f"C{number}", label=f"{name}, by GPUs")
    axis.set(xscale="log", yscale="log", xlabel="cores", ylabel="steps of environments a second")
    axis.set_title("predicted (lines) and measured (points)")
    times.set(xscale="log", yscale="log", xlabel="times the smallest one's cores or GPUs", ylabel="times its speed")
    times.set_title("what more machines bring")
    for one in (axis, times):
        one.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Predict and measure in turn, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="only make the page anew")
    parser.add_argument("--here", help="predicted, or a number of workers to measure with, in this process")
    parser.add_argument("--case")
    arguments = parser.parse_args()
    if arguments.here:
        case = arguments.case
        print(json.dumps(predicted(case) if arguments.here == "predicted" else measured(case, int(arguments.here))))
        return
    for case in () if arguments.table else CASES:
        told: list[dict[str, Any]] = []
        seen: dict[str, list[float]] = {"1": [], "2": []}
        for _ in range(REPEATS):
            told.append(apart("predicted", case, 64))
            seen["1"].append(apart("0", case, 1))
            seen["2"].append(apart("2", case, 2))
        row = {"predicted": told, "measured": seen}
        cells.put(RESULTS, case, row)
        print(case, f"{len(told)} repeats", flush=True)
    found = cells.read(RESULTS)
    draw(found, RESULTS.with_name("plan.png"))
    RESULTS.with_name("PLAN.md").write_text(page(found))


if __name__ == "__main__":
    main()
