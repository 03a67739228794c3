"""Which agent learns most from data? Agents beside behaviour cloning on Pendulum data of three tiers, by seed.

    python benchmarks/offline.py                      # makes the data, trains what is missing, and prints the table
    python benchmarks/offline.py --only iql,td3-bc    # these agents
    python benchmarks/offline.py --table              # the table of what is done, results/OFFLINE.md

A SAC agent of 2,500 steps plays *medium*, one of 6,000 steps *expert*; *random* is uniform actions, and each tier has
10,000 transitions. Everybody makes 6,000 updates from rewards over ten, with five seeds. The normalised score is 0 for
random actions and 100 for the mean return of the expert's data. Stopped, it goes on where it was: a run that is done is
not trained again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import forage
from forage.data import files
from forage.evaluation.statistics import score
from forage.rewards.scaling import Scale
from forage.runs import training
from forage.studies.record import record

HERE = Path(__file__).parent
RUNS, RESULTS, TABLE = Path("runs") / "offline", HERE / "results" / "offline.json", HERE / "results" / "OFFLINE.md"
ENVIRONMENT, TRANSITIONS, UPDATES, SEEDS = "Pendulum-v1", 10_000, 6000, [1000, 1001, 1002, 1003, 1004]
ACTORS = {"medium": 2500, "expert": 6000}  # steps of the agent that plays
TIERS = ("random", "medium", "expert")
SMALL: dict[str, Any] = {"hidden_sizes": (64, 64), "learning_rate": 1e-3}
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "bc": ("bc", SMALL),
    "bc, best tenth": ("bc", SMALL | {"best": 0.1}),
    "iql": ("iql", SMALL),
    "td3-bc": ("td3-bc", SMALL),
    "rebrac": ("rebrac", SMALL | {"batch_size": 256, "actor_cloning": 0.1, "critic_cloning": 0.1}),
    "cql": ("cql", SMALL | {"samples": 4, "policy_learning_rate": 3e-4}),
}


def actor(steps: int) -> forage.Run:
    """Train the agent that plays a tier, or load it."""
    return training.finished(
        "sac", ENVIRONMENT, steps=steps, seeds=[0], agent_options=SMALL, directory=RUNS / f"sac-{steps}",
        display="quiet",
    )  # fmt: skip


def data(tier: str) -> Path:
    """Record the data of a tier, where they are not there yet."""
    path = RUNS / f"{tier}.npz"
    if not path.exists():
        run = actor(ACTORS.get(tier, ACTORS["medium"]))
        record(run.directory, TRANSITIONS, path, actions="random" if tier == "random" else "sampled")
    return path


def cell(name: str, tier: str) -> dict[str, Any]:
    """Train one agent on one tier, and return what was found."""
    agent, options = AGENTS[name]
    file = data(tier)
    run = training.finished(
        agent, ENVIRONMENT, data=str(file), steps=UPDATES, seeds=SEEDS, agent_options=options,
        rewards=Scale(0.1), evaluation_actions="greedy", evaluation_every=UPDATES,
        directory=RUNS / f"{name.replace(', ', '-').replace(' ', '-')}-{tier}", display="quiet",
    )  # fmt: skip
    assert run.evaluation is not None
    returns = [float(value) for value in run.evaluation["return"]]
    return {"returns": returns, "data": files.read(file)[1]["mean_return"], "seconds": run.rows[-1]["seconds"]}


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return the table of normalised scores with their intervals, from what is done."""
    means = {name.rpartition("/")[2]: row["data"] for name, row in found.items()}
    low, high = means.get("random", np.nan), means.get("expert", np.nan)
    tiers = [tier for tier in TIERS if tier in means]
    rows = ["| agent | " + " | ".join(tiers) + " |", "|---" * (len(tiers) + 1) + "|"]
    normal = lambda value: f"{100 * (value - low) / (high - low):.0f}"  # noqa: E731
    rows.append("| *the data* | " + " | ".join(normal(means[tier]) for tier in tiers) + " |")
    for name in AGENTS:
        cells = []
        for tier in tiers:
            row = found.get(f"{name}/{tier}")
            told = None if row is None else score(np.array(row["returns"]))
            cells.append("" if told is None else f"{normal(told.value)} [{normal(told.low)}, {normal(told.high)}]")
        if any(cells):
            rows.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(name for name in AGENTS if "," not in name))
    parser.add_argument("--tiers", default=",".join(TIERS))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    wanted = [name for name in AGENTS if name.partition(",")[0] in options.only.split(",")]
    for tier in () if options.table else options.tiers.split(","):
        for name in wanted:
            if f"{name}/{tier}" not in found:
                found[f"{name}/{tier}"] = cell(name, tier)
                RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
                print(f"{name} on {tier}: {np.mean(found[f'{name}/{tier}']['returns']):.0f}", flush=True)
    TABLE.write_text(
        f"# Agents on Pendulum data of three tiers\n\nMade by `python benchmarks/offline.py`.\n\n{table(found)}"
    )
    print(table(found))


if __name__ == "__main__":
    main()
