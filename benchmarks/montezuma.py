"""How many rooms of Montezuma's Revenge are found in the same steps: Go-Explore, random network distillation, chance.

    python benchmarks/montezuma.py                      # every way, three seeds; many hours on two cores
    python benchmarks/montezuma.py --way go-explore --steps 300k --seed 2000

Rooms are read from the emulator's memory, by which agents neither act nor learn. Go-Explore explores as published, with
random actions that are repeated, always from an archive of cells of the shrunk screen, and, as its authors' program can
be told, until a life is lost; RND is PPO with the bonus in a value head of its own, as published. Steps are agent's
steps, of four frames. A result for each way and seed is kept in results/montezuma.json, which results/MONTEZUMA.md
is made of. On one core Go-Explore takes about 20 minutes for 500k steps, RND two hours; what was stopped goes on where
it was, as its run is kept in runs/montezuma until there is a result.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from pathlib import Path
from typing import Any

import cells as kept
import numpy as np

from forage.cli.entry import as_command
from forage.config.options import whole_number

RESULTS = Path(__file__).parent / "results" / "montezuma.json"
PAGE = RESULTS.with_name("MONTEZUMA.md")
RUNS = Path(__file__).resolve().parents[1] / "runs" / "montezuma"
SEEDS = (2000, 2001, 2002)  # nothing is tuned on them
GAME = "gymnasium:ALE/MontezumaRevenge-v5"
CHANCE: dict[str, Any] = {  # nothing is learned, and nothing but chance acts
    "agent": "dqn",
    "agent_options": {"num_envs": 8, "rollout_length": 64, "learning_starts": 2**31 - 1},
    "behaviour": ("ez-greedy", {"start": 1.0, "end": 1.0, "durations": "geometric", "mean": 20.0}),
    "memory": ("uniform", {"capacity": 1024}),
}
PPO: dict[str, Any] = {"agent": "ppo", "agent_options": {"num_envs": 8, "rollout_length": 128, "discount": 0.999}}
# Go-Explore needs a deterministic emulator, only while it explores; all have the same.
GAME_OPTIONS: dict[str, Any] = {"repeat_action_probability": 0.0, "max_episode_steps": 4500}
WAYS: dict[str, dict[str, Any]] = {
    "go-explore": CHANCE
    | {
        "starts": ("go-explore", {"cells": "image", "capacity": 16_384, "probability": 1.0}),
        "environment_options": GAME_OPTIONS | {"episodic_life": True},
    },
    "rnd": PPO | {"agent_options": PPO["agent_options"] | {"bonus_head": True}, "rewards": ("rnd", {"channels": 1})},
    "chance": CHANCE,
    "ppo": PPO,
}


def measure(way: str, steps: int, seed: int) -> dict[str, Any]:
    """Trains one seed. Returns what the page shows."""
    from forage.config.registry import build
    from forage.runs.training import use_compilation_cache
    from forage.studies.claims.running import load_or_train

    use_compilation_cache()
    told = {k: build(k, *v) if isinstance(v, tuple) else v for k, v in WAYS[way].items()}
    told = {"environment_options": GAME_OPTIONS} | told
    told |= {"steps": steps, "seeds": [seed], "visits": True, "evaluation_episodes": 1}
    run = load_or_train(told.pop("agent"), GAME, directory=RUNS / named(way, steps, seed), display="notes", **told)
    last, rows = run.rows[-1], run.rows
    assert run.visits is not None
    rooms = np.flatnonzero(run.visits[0]).tolist()
    return {
        "way": way,
        "steps": last["steps"],
        "seed": seed,
        "rooms": rooms,
        "rooms_over_time": [[row["steps"], row["places_visited"][0]] for row in rows[:: max(1, len(rows) // 20)]],
        "first_reward": last["first_reward"][0],
        "seconds": round(float(last["seconds"])),
        "machine": {"cores": os.cpu_count(), "system": platform.system()},
    }


def named(way: str, steps: int, seed: int) -> str:
    return f"{way}-{steps}-{seed}"


def page(cells: list[dict[str, Any]]) -> str:
    lines = [
        "# Montezuma's Revenge",
        "",
        "Rooms of the first level (there are 24) that were entered in so many steps of the agent, four frames each,",
        "read from the emulator's memory; a line for each seed. Made by `python benchmarks/montezuma.py`.",
        "",
        "| way | seed | steps | rooms | which | first reward | wall clock |",
        "|---|---|---|---|---|---|---|",
    ]
    cells = sorted(cells, key=lambda c: (list(WAYS).index(c["way"]), c["steps"], c["seed"]))
    for cell in cells:
        first = "never" if cell["first_reward"] is None else f"{int(cell['first_reward']):,}"
        which = " ".join(map(str, cell["rooms"]))
        start = f"| {cell['way']} | {cell['seed']} | {cell['steps']:,} | {len(cell['rooms'])} | {which} "
        lines.append(f"{start}| {first} | {cell['seconds']:,} s |")
    for cell in cells:
        if "note" in cell:
            lines += ["", f"{cell['way']}, seed {cell['seed']}: {cell['note']}."]
    lines += [
        "",
        "Published, with 600 to 1000 times as many steps: random network distillation now and then completes the",
        "first level, of 24 rooms, in two billion frames (Burda et al., 2018, arXiv 1810.12894); Go-Explore without",
        "domain knowledge finds a mean of 37 rooms, some of them of the second level, in about one billion (Ecoffet et",
        "al., 2019, arXiv 1901.10995).",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--steps", type=whole_number, default=500_000)
    parser.add_argument("--seed", type=int, action="append", help="2000, 2001 and 2002 where none is given")
    arguments = parser.parse_args()
    for way in arguments.way or WAYS:
        for seed in arguments.seed or SEEDS:
            found = measure(way, arguments.steps, seed)
            name = named(way, arguments.steps, seed)
            kept.put(RESULTS, name, found)
            shutil.rmtree(RUNS / name, ignore_errors=True)
            print(way, seed, found["rooms"], f"{found['seconds']} s", flush=True)
    PAGE.write_text(page(list(kept.read(RESULTS).values())))


if __name__ == "__main__":
    as_command(main)
