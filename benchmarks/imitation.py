"""From 20 demonstrations: who learns what PPO and soft actor-critic alone do not, in two tables.

    python benchmarks/imitation.py --list            # the rows, and which are done
    python benchmarks/imitation.py                   # train all that is missing, one row after another
    python benchmarks/imitation.py --only maze       # rows whose names begin so; several with commas between them
    python benchmarks/imitation.py --table           # results/IMITATION.md from results/imitation.json

MountainCar-v0 pays -1 for each step, 200 at most, so an agent that never gets up learns nothing. In a maze like a U a
ball is pushed from one end to the other, and paid 1 for getting there and nothing else. The demonstrations are 20
episodes of a rule: the car is pushed the way it moves, the ball to the middle of the next cell. Each row is five seeds,
and its score the mean of 20 episodes that each plays afterwards. What is running when the process ends is lost; what is
done stays.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import forage
from forage.config.resolve import resolve
from forage.core.ports import Environment
from forage.core.storage import archives
from forage.data import files
from forage.environments.classic.mountain_car import MountainCar
from forage.environments.maze.point import point_maze
from forage.evaluation.statistics import student_interval
from forage.memory.mixed import MixedReplay
from forage.rewards.adversarial.airl import AIRL
from forage.rewards.adversarial.gail import GAIL
from forage.studies.claims.played import episodes, pump
from forage_papers.behaviours.dagger import DAgger
from forage_papers.memory.sqil import SQIL

RESULTS = Path(__file__).parent / "results" / "imitation.json"
SEEDS, DEMONSTRATIONS = tuple(range(100, 105)), 20
QUICK = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8, "num_envs": 8, "rollout_length": 128}
SMALL = {"hidden_sizes": (64, 64)}
SOFT = SMALL | {"learning_rate": 1e-3, "target_entropy": 0.2}
WIDE = {"hidden_sizes": (128, 128)}
WAY = jnp.array([[-1.0, 1.0], [1.0, 1.0], [1.0, 0.0], [1.0, -1.0], [-1.0, -1.0]])  # cells of the maze in turn


def along(observation: Any) -> Any:
    """Push the ball to the middle of the next cell, from the one that it is nearest to."""
    position, velocity = observation[:2], observation[2:4]
    nearest = jnp.argmin(jnp.abs(WAY - position).max(-1))
    target = WAY[jnp.minimum(nearest + 1, len(WAY) - 1)]
    return jnp.clip(3.0 * (target - position) - velocity, -1.0, 1.0)


def guided(observation: Any, key: Any) -> Any:
    """Do as `along` does, which needs no random numbers."""
    return along(observation)


class Task(NamedTuple):
    """An environment, and who demonstrates in it."""

    title: str
    environment: Environment
    rule: Callable[[Any], Any]
    solved: float  # the score above which a seed has solved it


TASKS: dict[str, Task] = {
    "mountain": Task("From 20 demonstrations up the mountain: MountainCar-v0", MountainCar(), pump, -150.0),
    "maze": Task(
        "From 20 demonstrations through a maze, paid only at its end",
        point_maze(("#####", "#S..#", "###.#", "#G..#", "#####"), on_success="end"),
        along,
        0.5,
    ),
}


def demonstrations(task: Task, path: Path) -> str:
    """Write the file of demonstrations, and return its name."""
    setup = resolve("ppo", task.environment, seeds=1)
    files.write_data(
        path, episodes(task.environment, task.rule, (0.0,) * DEMONSTRATIONS, 0), {"spec": setup.config()["spec"]}
    )
    return str(path)


def rows(folder: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the agent of each row, and what else `forage.train` is told."""
    car, ball = (demonstrations(task, folder / f"{name}.npz") for name, task in TASKS.items())
    long, data = {"steps": 50_000}, {"data": ball, "steps": 10_000}
    with_data = {"memory": MixedReplay(ball, capacity=20_000), "steps": 10_000}
    return {
        "mountain/ppo alone": ("ppo", long | {"agent_options": QUICK}),
        "mountain/sac-discrete alone": ("sac-discrete", long | {"agent_options": SOFT}),
        "mountain/gail": ("ppo", long | {"agent_options": QUICK, "rewards": GAIL(car)}),
        "mountain/airl": ("ppo", long | {"agent_options": QUICK, "rewards": AIRL(car)}),
        "mountain/sqil": ("sac-discrete", long | {"agent_options": SOFT, "memory": SQIL(demonstrations=car)}),
        "mountain/iq-learn": ("iq-learn", long | {"agent_options": {"demonstrations": car}}),
        "mountain/bc": ("bc", {"data": car, "agent_options": SMALL, "steps": 5_000}),
        "mountain/dagger": ("bc", {"behaviour": DAgger(pump), "agent_options": SMALL, "steps": 5_000}),
        "maze/sac alone": ("sac", {"agent_options": WIDE, "steps": 20_000}),
        "maze/ppo alone": ("ppo", {"agent_options": QUICK, "steps": 100_000}),
        "maze/bc": ("bc", data | {"agent_options": WIDE}),
        "maze/dagger": ("bc", {"behaviour": DAgger(guided), "agent_options": WIDE, "steps": 5_000}),
        "maze/iql": ("iql", data | {"agent_options": WIDE | {"expectile": 0.9, "beta": 10.0}}),
        "maze/td3-bc": ("td3-bc", data | {"agent_options": WIDE}),
        "maze/rebrac": ("rebrac", data | {"agent_options": WIDE | {"batch_size": 256}}),
        "maze/fql": ("fql", data | {"agent_options": WIDE}),
        "maze/rlpd": ("rlpd", with_data | {"agent_options": WIDE | {"critics": 2, "updates_per_rollout": 2}}),
        "maze/sqil": ("sac", {"agent_options": WIDE, "memory": SQIL(demonstrations=ball), "steps": 10_000}),
        "maze/iq-learn": ("iq-learn-sac", {"agent_options": WIDE | {"demonstrations": ball}, "steps": 10_000}),
        "maze/gail": ("ppo", {"agent_options": QUICK, "rewards": GAIL(ball), "steps": 100_000}),
    }


def measured(name: str, agent: str, words: dict[str, Any]) -> dict[str, Any]:
    """Train a row, and return what each seed scores."""
    environment = TASKS[name.partition("/")[0]].environment
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        training = {"seeds": SEEDS, "directory": f"{folder}/run", "display": "quiet", "evaluation_episodes": 20}
        run = forage.train(agent, environment, **training, **words)
        evaluation = json.loads((Path(run.directory) / "evaluation.json").read_text())
    scores = [float(np.mean(seed)) for seed in evaluation["return"]]
    return {"scores": scores, "steps": words["steps"], "seconds": round(time.monotonic() - began)}


def table(found: dict[str, Any]) -> str:
    """Return the page of all rows that are done."""
    lines = [
        "# From 20 demonstrations",
        "",
        "`python benchmarks/imitation.py`; five seeds, mean return and 95 % interval; seconds of a busy core.",
        "",
    ]
    for key, task in TASKS.items():
        lines += [
            f"## {task.title}",
            "",
            f"| | steps | return | seeds above {task.solved:g} | seconds |",
            "|---" * 5 + "|",
        ]
        for name, row in found.items():
            if not name.startswith(f"{key}/"):
                continue
            low, high = student_interval(np.array(row["scores"]))
            solved = f"{sum(score > task.solved for score in row['scores'])} of {len(SEEDS)}"
            value = f"{np.mean(row['scores']):.4g} [{low:.4g}, {high:.4g}]"
            lines.append(f"| {name.partition('/')[2]} | {row['steps']:,} | {value} | {solved} | {row['seconds']} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Train what is missing, or print what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (agent, words) in {} if asked.table else rows(Path(folder)).items():
            if not any(name.startswith(start) for start in asked.only.split(",")):
                continue
            if asked.list or name in found:
                print(name, "done" if name in found else "missing", flush=True)
                continue
            row = measured(name, agent, words)
            found = (json.loads(RESULTS.read_text()) if RESULTS.exists() else {}) | {name: row}
            text = json.dumps(found, indent=1) + "\n"
            archives.write_atomically(RESULTS, lambda file, text=text: file.write(text.encode()))
            print(name, row, flush=True)
    RESULTS.with_name("IMITATION.md").write_text(table(found))


if __name__ == "__main__":
    main()
