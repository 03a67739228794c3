"""Do the presets that people expect learn as well as the zoo's? PPO and SAC in Gymnasium's tasks beside SB3, by seed.

    python benchmarks/presets.py --list                    # cells: agent/task/contestant/seed, and which are done
    python benchmarks/presets.py --jobs 2                  # train all that is missing, two at a time, a core each
    python benchmarks/presets.py --only sac,ppo/hopper     # cells whose names begin so, in this order
    python benchmarks/presets.py --only sac/hopper/forage --together    # all seeds in one process, on any device
    python benchmarks/presets.py --table                   # results/PRESETS.md from results/presets.json

A cell is one seed: *forage* is `forage train AGENT gymnasium:ID --seeds N,` with nothing else said; *zoo* is
Stable-Baselines3 with the settings of RL Baselines3 Zoo. Both play twenty episodes afterwards, greedily and sampled.
What is running when the process ends is lost; what is done stays. A process of the zoo that gets the signal TERM leaves
what it has learned in `results/kept`, and the next run of that cell goes on from there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import cells
import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "presets.json"
SEEDS = range(5)
EPISODES = 20

RELU = "dict(log_std_init=-2, ortho_init=False, activation_fn=nn.ReLU, net_arch=dict(pi=[256, 256], vf=[256, 256]))"
ROBOT = {"normalize": True, "n_envs": 1, "n_steps": 512}
HALF_CHEETAH = {"batch_size": 64, "gamma": 0.98, "learning_rate": 2.0633e-05, "ent_coef": 0.000401762}
HALF_CHEETAH |= {"clip_range": 0.1, "n_epochs": 20, "gae_lambda": 0.92, "max_grad_norm": 0.8, "vf_coef": 0.58096}
HOPPER = {"batch_size": 32, "gamma": 0.999, "learning_rate": 9.80828e-05, "ent_coef": 0.00229519, "n_epochs": 5}
HOPPER |= {"gae_lambda": 0.99, "max_grad_norm": 0.7, "vf_coef": 0.835671}
WALKER = {"batch_size": 32, "learning_rate": 5.05041e-05, "ent_coef": 0.000585045, "clip_range": 0.1}
WALKER |= {"n_epochs": 20, "max_grad_norm": 1, "vf_coef": 0.871923}
LANDER = {"n_envs": 16, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4}


class Task(NamedTuple):
    """One agent in one environment."""

    environment: str  # Gymnasium's id
    steps: int
    zoo: dict[str, Any]  # what RL Baselines3 Zoo sets; of older versions of these environments


TASKS: dict[str, Task] = {
    "ppo/half-cheetah": Task("HalfCheetah-v5", 300_000, ROBOT | HALF_CHEETAH | {"policy_kwargs": RELU}),
    "ppo/walker2d": Task("Walker2d-v5", 300_000, ROBOT | WALKER),
    "ppo/hopper": Task("Hopper-v5", 300_000, ROBOT | HOPPER | {"policy_kwargs": RELU}),
    "ppo/lunar-lander": Task("LunarLander-v3", 300_000, LANDER | {"ent_coef": 0.01}),
    "sac/hopper": Task("Hopper-v5", 50_000, {"learning_starts": 10_000}),
    "sac/walker2d": Task("Walker2d-v5", 50_000, {"learning_starts": 10_000}),
}

# The longest first, so that those left at the end are short ones.
CELLS = [f"{name}/{who}/{seed}" for who in ("zoo", "forage") for name in TASKS for seed in SEEDS]


def train_zoo(name: str, seed: int) -> dict[str, Any]:
    """Train Stable-Baselines3 with the zoo's settings, and play; torch has one thread."""
    task = TASKS[name]
    given = {"algorithm": name.split("/")[0], "environment": task.environment, "steps": task.steps, "seed": seed}
    given["kept"] = str(RESULTS.with_name("kept") / name / str(seed))
    command = [sys.executable, str(HERE / "peers" / "sb3_defaults.py"), "presets"]
    done = subprocess.run([*command, json.dumps(given | {"settings": task.zoo})], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def train_forage(name: str, seeds: list[int]) -> list[dict[str, Any]]:
    """Train as the command line does where nothing is set, and play; return each seed's result."""
    import forage

    task, agent = TASKS[name], name.split("/")[0]
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "run"
        forage.train(
            agent,
            f"gymnasium:{task.environment}",
            steps=task.steps,
            seeds=seeds,
            directory=directory,
            display="quiet",
            evaluation_episodes=1,
        )
        found: dict[str, Any] = {}
        for actions in ("greedy", "sampled"):
            forage.evaluate(directory, EPISODES, actions=actions)
            evaluation = json.loads((directory / "evaluation.json").read_text())
            found[actions] = evaluation["episode_returns"]
        row = forage.Run(directory).rows[-1]
    told = {"seconds": row["seconds"] / len(seeds), "steps": evaluation["steps"]}
    told |= {"together": len(seeds)} if len(seeds) > 1 else {}
    return [told | {actions: returns[i] for actions, returns in found.items()} for i in range(len(seeds))]


def train_here(cell: str) -> None:
    """Train a cell, or several seeds of one (`ppo/hopper/forage/0,1`), in this process, and print each result."""
    name, who, numbers = cell.rsplit("/", 2)
    seeds = [int(number) for number in numbers.split(",")]
    found = [train_zoo(name, seed) for seed in seeds] if who == "zoo" else train_forage(name, seeds)
    print(json.dumps({f"{name}/{who}/{seed}": one for seed, one in zip(seeds, found, strict=True)}), flush=True)


def table(results: dict[str, Any]) -> str:
    """Return the page: the better way of playing of either contestant, each seed, and Welch's verdict."""
    lines = [
        "# Presets",
        "",
        "Forage as `forage train AGENT gymnasium:ID` has it, beside Stable-Baselines3 with the settings of RL",
        "Baselines3 Zoo (its files are for older versions of these environments), five seeds each at equal steps. The",
        "mean return of twenty episodes a seed, greedy or sampled, whichever is higher for that contestant; Student's",
        "95 % interval over seeds; the seeds' means in braces; seconds of training a seed on one core, which may have",
        "had other work; in brackets, a fifth of all seeds' at once. `python benchmarks/presets.py` trains what is",
        "missing.",
        "",
        "The difference is Forage's mean less the zoo's, with Welch's 95 % interval over seeds and p of Welch's test.",
        "As in `forage compare`, Forage is better or worse where that interval leaves out 0, and else the row is",
        "inconclusive, which does not say that the two are equal. None of the comparisons is corrected for their",
        "number, and the choice between greedy and sampled was made on the scores that are compared.",
        "",
        "| agent | environment | steps | zoo | Forage | difference | verdict | seconds: zoo, Forage |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, task in TASKS.items():
        row, scores, seconds = [], [], []
        for who in ("zoo", "forage"):
            found = [results[f"{name}/{who}/{seed}"] for seed in SEEDS if f"{name}/{who}/{seed}" in results]
            if len(found) < len(SEEDS):
                row.append(f"{len(found)} of {len(SEEDS)} seeds")
                continue
            ways = {key: np.array([np.mean(seed[key]) for seed in found]) for key in ("greedy", "sampled")}
            way = max(ways, key=lambda key: ways[key].mean())
            seeds = ", ".join(f"{value:.4g}" for value in ways[way])
            row.append(f"{cells.with_interval(ways[way])} {way} {{{seeds}}}")
            scores.append(ways[way])
            took = f"{np.median([seed['seconds'] for seed in found]):.0f}"
            seconds.append(f"[{took}]" if any("together" in seed for seed in found) else took)
        judged = cells.compared(scores[1], scores[0]) if len(scores) == 2 else ("", "")
        agent = name.split("/")[0].upper()
        shown = " | ".join([agent, task.environment, f"{task.steps:,}", *row, *judged, ", ".join(seconds)])
        lines.append(f"| {shown} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the arguments, and train, list or make the page."""
    parser = cells.parser(__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="how many cells at a time")
    parser.add_argument("--together", action="store_true", help="all seeds of Forage's cells in one process")
    arguments = parser.parse_args()
    if arguments.here:
        train_here(arguments.here)
        return
    results = cells.read(RESULTS)
    wanted = cells.chosen(CELLS, arguments.only)
    if arguments.list:
        print(*(f"{cell} {'done' if cell in results else ''}" for cell in wanted), sep="\n")
        return
    missing = [cell for cell in wanted if cell not in results]
    if arguments.together:
        cells.train_together(__file__, RESULTS, missing)
    elif not arguments.table:
        cells.train_all(__file__, RESULTS, missing, arguments.jobs)
    RESULTS.with_name("PRESETS.md").write_text(table(cells.read(RESULTS)))


if __name__ == "__main__":
    main()
