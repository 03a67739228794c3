"""From 20 demonstrations up the mountain: who learns what PPO and soft actor-critic alone do not, in one table.

    python benchmarks/imitation.py --list            # the rows, and which are done
    python benchmarks/imitation.py                   # train all that is missing, one row after another
    python benchmarks/imitation.py --only gail,sqil  # rows of these names
    python benchmarks/imitation.py --table           # results/IMITATION.md from results/imitation.json

MountainCar-v0 pays -1 for each step, 200 at most, so an agent that never gets up learns nothing. The demonstrations
are 20 episodes of a rule that pushes the way the car moves. Each row is five seeds, and its score the mean of 20
episodes that each plays afterwards. What is running when the process ends is lost; what is done stays.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import forage
from forage.behaviours.dagger import DAgger
from forage.config.setup import make_setup
from forage.core import checkpoint
from forage.data import files
from forage.data.logged import Transitions
from forage.environments.classic.mountain_car import MountainCar
from forage.evaluation.statistics import student_interval
from forage.memory.sqil import SQIL
from forage.rewards.adversarial.airl import AIRL
from forage.rewards.adversarial.gail import GAIL

RESULTS = Path(__file__).parent / "results" / "imitation.json"
SEEDS, DEMONSTRATIONS, STEPS = tuple(range(100, 105)), 20, 50_000
QUICK = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8, "num_envs": 8, "rollout_length": 128}
SOFT = {"learning_rate": 1e-3, "hidden_sizes": (64, 64), "target_entropy": 0.2}


def pump(observation: Any, key: Any) -> Any:
    """Push the way the car moves: 0 is left, 2 is right."""
    return jnp.where(observation[1] < 0, 0, 2).astype(jnp.int32)


def demonstrations(path: Path) -> str:
    """Write the file of demonstrations, and return its name."""
    environment = MountainCar()

    def episode(key: Any) -> Any:
        def step(now: Any, key: Any) -> Any:
            state, observation = now
            action = pump(observation, key)
            state, outcome = environment.step(state, action, key)
            ends = outcome.observation, outcome.terminated, outcome.truncated
            return (state, outcome.observation), (observation, action, outcome.reward, *ends)

        return jax.lax.scan(step, environment.reset(key), jax.random.split(key, environment.horizon))[1]

    played = jax.device_get(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), DEMONSTRATIONS)))
    lengths = [int(np.argmax(ended)) + 1 for ended in played[4] | played[5]]
    fields = [np.concatenate([x[i][:n] for i, n in enumerate(lengths)]) for x in played]
    setup = make_setup("ppo", "MountainCar-v0", seeds=1)
    files.write(path, Transitions(*fields), {"spec": setup.config()["spec"]})
    return str(path)


def rows(data: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the agent of each row, and what else `forage.train` is told."""
    value = {"demonstrations": data}
    return {
        "ppo alone": ("ppo", {"agent_options": QUICK}),
        "sac-discrete alone": ("sac-discrete", {"agent_options": SOFT}),
        "gail": ("ppo", {"agent_options": QUICK, "rewards": GAIL(data)}),
        "airl": ("ppo", {"agent_options": QUICK, "rewards": AIRL(data)}),
        "sqil": ("sac-discrete", {"agent_options": SOFT, "memory": SQIL(demonstrations=data)}),
        "iq-learn": ("iq-learn", {"agent_options": value}),
        "bc": ("bc", {"data": data, "agent_options": {"hidden_sizes": (64, 64)}, "steps": 5_000}),
        "dagger": ("bc", {"behaviour": DAgger(pump), "agent_options": {"hidden_sizes": (64, 64)}, "steps": 5_000}),
    }


def measured(name: str, agent: str, words: dict[str, Any]) -> dict[str, Any]:
    """Train a row, and return what each seed scores."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        words = {"steps": STEPS} | words
        training = {"seeds": SEEDS, "directory": f"{folder}/run", "display": "quiet", "evaluation_episodes": 20}
        run = forage.train(agent, "MountainCar-v0", **training, **words)
        evaluation = json.loads((Path(run.directory) / "evaluation.json").read_text())
    scores = [float(np.mean(seed)) for seed in evaluation["return"]]
    return {"scores": scores, "steps": words["steps"], "seconds": round(time.monotonic() - began)}


def table(found: dict[str, Any]) -> str:
    """Return the page of all rows that are done."""
    lines = ["# From 20 demonstrations up the mountain", ""]
    lines += ["`python benchmarks/imitation.py`; MountainCar-v0, five seeds, mean return and 95 % interval.", ""]
    lines += ["| | steps | return | seeds above -150 |", "|---|---|---|---|"]
    for name, row in found.items():
        mean = np.mean(row["scores"])
        low, high = student_interval(np.array(row["scores"]))
        up = sum(score > -150 for score in row["scores"])
        lines.append(f"| {name} | {row['steps']:,} | {mean:.1f} [{low:.1f}, {high:.1f}] | {up} of {len(SEEDS)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Train what is missing, or print what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if asked.table:
        RESULTS.with_name("IMITATION.md").write_text(table(found))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, (agent, words) in rows(demonstrations(Path(folder) / "mountain.npz")).items():
            if asked.only and name.partition(" ")[0] not in asked.only.split(","):
                continue
            if asked.list or name in found:
                print(name, "done" if name in found else "missing", flush=True)
                continue
            row = measured(name, agent, words)
            found = (json.loads(RESULTS.read_text()) if RESULTS.exists() else {}) | {name: row}
            text = json.dumps(found, indent=1) + "\n"
            checkpoint.write_atomically(RESULTS, lambda file, text=text: file.write(text.encode()))
            print(name, row, flush=True)


if __name__ == "__main__":
    main()
