"""How many rooms of Montezuma's Revenge are found in the same steps: Go-Explore, random network distillation, chance.

    python benchmarks/montezuma.py                      # every way, three seeds; hours on two cores
    python benchmarks/montezuma.py --way go-explore --steps 300k --seeds 1

Rooms are read from the emulator's memory, by which agents neither act nor learn. Go-Explore explores as published, with
random actions that are repeated, always from an archive of cells of the shrunk screen, until a life is lost; RND is PPO
with the bonus in a value head of its own, as published. Steps are agent's steps, of four frames. A result for each way
is kept in results/montezuma, and results/MONTEZUMA.md is made from them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from forage.options import whole_number

RESULTS = Path(__file__).parent / "results" / "montezuma"
PAGE = RESULTS.parent / "MONTEZUMA.md"
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
    "rnd": PPO | {"agent_options": PPO["agent_options"] | {"bonus_head": True}, "rewards": ("rnd", {})},
    "chance": CHANCE,
    "ppo": PPO,
}


def measure(way: str, steps: int, seeds: list[int]) -> dict[str, Any]:
    """Trains one way. Returns what the page shows."""
    import forage
    from forage.registry import build
    from forage.training import use_compilation_cache

    use_compilation_cache()
    told = {k: build(k, *v) if isinstance(v, tuple) else v for k, v in WAYS[way].items()}
    told = {"environment_options": GAME_OPTIONS} | told
    with tempfile.TemporaryDirectory() as directory:
        run = forage.train(
            environment=GAME,
            steps=steps,
            seeds=seeds,
            visits=True,
            directory=directory,
            display="quiet",
            evaluation_episodes=1,
            **told,
        )
        last, rows = run.rows[-1], run.rows
        assert run.visits is not None
        rooms = [np.flatnonzero(visits).tolist() for visits in run.visits]
    return {
        "way": way,
        "steps": last["steps"],
        "seeds": seeds,
        "rooms": [len(found) for found in rooms],
        "which": rooms,
        "rooms_over_time": [[row["steps"], row["places_visited"]] for row in rows[:: max(1, len(rows) // 20)]],
        "first_reward": last["first_reward"],
        "seconds": round(float(last["seconds"])),
        "machine": {"cores": os.cpu_count(), "system": platform.system()},
    }


def page(found: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# Montezuma's Revenge",
        "",
        "Rooms of the first level (there are 24) that were entered in so many steps of the agent, four frames each; of",
        "each seed, read from the emulator's memory. Made by `python benchmarks/montezuma.py`.",
        "",
        "| way | steps | rooms | which | first reward | wall clock |",
        "|---|---|---|---|---|---|",
    ]
    for way, cell in found.items():
        first = ", ".join("never" if step is None else f"{int(step):,}" for step in cell["first_reward"])
        which = "; ".join(" ".join(map(str, rooms)) for rooms in cell["which"])
        rooms = ", ".join(map(str, cell["rooms"]))
        lines.append(f"| {way} | {cell['steps']:,} | {rooms} | {which} | {first} | {cell['seconds']:,} s |")
    lines += [
        "",
        "Published, with thousands of times as many steps: random network distillation now and then completes the",
        "first level, of 24 rooms, in two billion frames (Burda et al., 2018, arXiv 1810.12894); Go-Explore without",
        "domain knowledge finds a mean of 37 rooms, some of them of the second level, in about one billion (Ecoffet et",
        "al., 2019, arXiv 1901.10995).",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--steps", type=whole_number, default=500_000)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    arguments = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for way in arguments.way or WAYS:
        found = measure(way, arguments.steps, list(range(2000, 2000 + arguments.seeds)))
        (RESULTS / f"{way}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(way, found["rooms"], f"{found['seconds']} s", flush=True)
    paths = {way: RESULTS / f"{way}.json" for way in WAYS}
    PAGE.write_text(page({way: json.loads(path.read_text()) for way, path in paths.items() if path.exists()}))


if __name__ == "__main__":
    main()
