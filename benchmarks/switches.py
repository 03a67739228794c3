"""What each switch of the critics costs: seconds an update of SAC with it, over those of plain SAC, in one run.

    python benchmarks/switches.py              every switch, on Pendulum; about ten minutes of two idle cores
    python benchmarks/switches.py --smoke      a look at whether it works

All programs are compiled first. Then each is run for some updates in turn, round after round, and the ratio is the
median over rounds, so that what else the machine does falls on all alike. An environment step is 1 to 4 % of an update.
Writes results/SWITCHES.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
UPDATES, ROUNDS = 50, 5
PLAIN = "plain SAC"
SWITCHES: dict[str, tuple[str, dict[str, Any]]] = {
    PLAIN: ("sac", {}),
    "ten critics, the least of two (REDQ)": ("sac", {"critics": 10, "target_subset": 2, "policy_q": "mean"}),
    "dropout and layer normalisation (DroQ)": ("sac", {"dropout": 0.01, "critic_norm": "layer"}),
    "layer normalisation of critics": ("sac", {"critic_norm": "layer"}),
    "batch normalisation, no targets (CrossQ, 256 wide)": ("crossq", {"value_sizes": (256, 256)}),
    "SimBa's torso": ("simba", {}),
    "BRO's torso": ("bro", {}),
    "histograms of 101 bins (HL-Gauss)": ("sac", {"bins": 101}),
    "25 quantiles, two dropped (TQC)": ("sac", {"quantiles": 25, "dropped_quantiles": 2}),
    "diversity of five critics (EDAC)": ("sac", {"critics": 5, "diversity": 1.0}),
    "dormant units (ReDo)": ("sac", {"recycle_interval": 1000}),
    "Adan": ("sac", {"optimiser": "adan"}),
    "a policy every second update": ("sac", {"policy_delay": 2}),
    "TD3": ("td3", {}),
}


def measure(updates: int, rounds: int, names: list[str]) -> dict[str, dict[str, float]]:
    """Of each switch: milliseconds an update, the ratio to plain SAC, and seconds to compile."""
    from forage.config.resolve import resolve
    from forage.runs.training import use_compilation_cache

    use_compilation_cache()
    runners: dict[str, tuple[Any, int]] = {}
    found: dict[str, dict[str, float]] = {}
    for name in names:
        agent, options = SWITCHES[name]
        options = {"learning_starts": 256} | options
        setup = resolve(agent, "Pendulum-v1", steps=10_000_000, seeds=[0], agent_options=options)
        runner = setup.runner()
        began = time.perf_counter()
        runner.begin()
        iterations = max(1, updates // setup.config()["agent"]["updates_per_rollout"])  # some make several in each
        runner.advance(256 // runner.steps_per_iteration + iterations)
        found[name] = {"compile": time.perf_counter() - began}
        runners[name] = runner, iterations
        print(f"{name}: compiled", flush=True)
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, (runner, iterations) in runners.items():
            began = time.perf_counter()
            report = runner.advance(iterations)
            made = float(report.metrics["updates"].sum())
            times[name].append((time.perf_counter() - began) / made)
    for name, row in found.items():
        row["milliseconds"] = 1000 * statistics.median(times[name])
        row["ratio"] = statistics.median(a / b for a, b in zip(times[name], times[PLAIN], strict=True))
    return found


def page(found: dict[str, dict[str, float]]) -> str:
    """Return the table."""
    lines = [
        "# What each switch costs",
        "",
        "Time of an update with it over that of plain SAC, on Pendulum-v1, sizes and batches being the agents' own",
        f"(BRO's and SimBa's as published); one seed, {os.cpu_count()} cores; medians over {ROUNDS} rounds of",
        f"{UPDATES} updates, in which all take turns. `python benchmarks/switches.py` measures anew.",
        "",
        "| switch | of plain SAC's time | ms an update | seconds to compile |",
        "|---|---|---|---|",
    ]
    for name, row in found.items():
        lines.append(f"| {name} | {row['ratio']:.2f} | {row['milliseconds']:.1f} | {row['compile']:.0f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="two switches, few updates; writes nothing")
    arguments = parser.parse_args()
    if arguments.smoke:
        print(page(measure(4, 1, list(SWITCHES)[:2])))
        return
    found = measure(UPDATES, ROUNDS, list(SWITCHES))
    RESULTS.joinpath("switches.json").write_text(json.dumps(found, indent=1) + "\n")
    RESULTS.joinpath("SWITCHES.md").write_text(page(found))


if __name__ == "__main__":
    main()
