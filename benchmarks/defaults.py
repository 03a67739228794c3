"""Which default settings learn? A development set of environments, beside Stable-Baselines3's defaults and its zoo's.

    python benchmarks/defaults.py --list                          # cells: algorithm, task, contestant, seeds
    python benchmarks/defaults.py ppo lunar-lander                # all contestants of one task that have no result yet
    python benchmarks/defaults.py --only sb3,zoo                  # all cells of some contestants
    python benchmarks/defaults.py                                 # all that is missing
    python benchmarks/defaults.py --table                         # results/DEFAULTS.md from results/defaults.json

Every cell trains three seeds or more for the same number of steps and plays twenty episodes of each seed, greedily and
sampled. In the games of chance of `envs.py`, whose returns twenty episodes would not tell apart, it computes the mean
return of what each seed learned instead, from the whole tree of the game.
`default` is what a user's own environment gets: Forage's presets are left out, and have a column of their own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import cells
import envs
import numpy as np

from forage.config.defaults import preset
from forage.evaluation.statistics import student_interval

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "defaults.json"
EPISODES = 20


class Task(NamedTuple):
    """One environment of the development set."""

    family: str
    forage: str  # id
    sb3: str  # id
    steps: dict[str, int]  # by algorithm
    zoo: dict[str, dict[str, Any]] = {}  # by algorithm: the zoo's settings, where it has this environment
    seeds: tuple[int, ...] = (0, 1, 2)

    @property
    def game(self) -> Any:
        """The class of `envs.py`, where it computes the value of a policy."""
        file, _, name = self.forage.partition(":")
        found = getattr(envs, name, None) if file == str(HERE / "envs.py") else None
        return found if hasattr(found, "value") else None


MUJOCO_OFF_POLICY = {"sac": {"learning_starts": 10_000}}
LANDER_DQN = {"learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0}
LANDER_DQN |= {"target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12}
LANDER_DQN |= {"exploration_final_eps": 0.1, "policy_kwargs": "dict(net_arch=[256, 256])"}
WIDE = "dict(log_std_init=-2, ortho_init=False, activation_fn=nn.ReLU, net_arch=dict(pi=[256, 256], vf=[256, 256]))"

FIVE = (0, 1, 2, 3, 4)

TASKS: dict[str, Task] = {
    "lunar-lander": Task(
        "Box2D",
        "gymnasium:LunarLander-v3",
        "LunarLander-v3",
        {"ppo": 100_000, "dqn": 50_000},
        {
            "ppo": {"n_envs": 16, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999}
            | {"n_epochs": 4, "ent_coef": 0.01},
            "dqn": LANDER_DQN,
        },
    ),
    "double-pendulum": Task(
        "MuJoCo",
        "gymnasium:InvertedDoublePendulum-v5",
        "InvertedDoublePendulum-v5",
        {"ppo": 50_000, "sac": 8_000, "td3": 8_000},
        {
            "ppo": {"normalize": True, "batch_size": 512, "n_steps": 128, "gamma": 0.98, "learning_rate": 0.000155454}
            | {"ent_coef": 1.05057e-06, "clip_range": 0.4, "n_epochs": 10, "gae_lambda": 0.8, "vf_coef": 0.695929}
        },
    ),
    "hopper": Task(
        "MuJoCo",
        "gymnasium:Hopper-v5",
        "Hopper-v5",
        {"ppo": 60_000},
        {
            "ppo": {"normalize": True, "batch_size": 32, "n_steps": 512, "gamma": 0.999, "learning_rate": 9.80828e-05}
            | {"ent_coef": 0.00229519, "n_epochs": 5, "gae_lambda": 0.99, "max_grad_norm": 0.7, "vf_coef": 0.835671}
            | {"policy_kwargs": WIDE}
        },
    ),
    "frozen-lake": Task("toy text", "gymnasium:FrozenLake-v1", "FrozenLake-v1", {"ppo": 40_000, "dqn": 50_000}),
    "taxi": Task("toy text", "gymnasium:Taxi-v4", "Taxi-v4", {"ppo": 60_000, "dqn": 50_000}),
    "acrobot": Task(
        "classic control",
        "gymnasium:Acrobot-v1",
        "Acrobot-v1",
        {"ppo": 40_000, "dqn": 50_000},
        {
            "ppo": {"normalize": True, "n_envs": 16, "n_steps": 256, "gae_lambda": 0.94, "n_epochs": 4},
            "dqn": LANDER_DQN,
        },
    ),
    "pendulum": Task(
        "classic control",
        "gymnasium:Pendulum-v1",
        "Pendulum-v1",
        {"ppo": 40_000, "sac": 5_000, "td3": 5_000},
        {
            "ppo": {"n_envs": 4, "n_steps": 1024, "gamma": 0.9, "learning_rate": 1e-3, "use_sde": True}
            | {"sde_sample_freq": 4},
            "sac": {"learning_rate": 1e-3},
            "td3": {"gamma": 0.98, "learning_rate": 1e-3, "noise": 0.1, "learning_starts": 1_000}
            | {"policy_kwargs": "dict(net_arch=[400, 300])"},
        },
    ),
    "door-key": Task(
        "grid, small images",
        f"{HERE / 'envs.py'}:DoorKey",
        "MiniGrid-DoorKey-5x5-v0",
        {"ppo": 60_000},
        {
            "ppo": {"normalize": True, "n_envs": 8, "n_steps": 128, "batch_size": 64, "n_epochs": 10}
            | {"learning_rate": 2.5e-4}
        },
    ),
    "breakout": Task(
        "MinAtar, images",
        f"{HERE / 'envs.py'}:Breakout",
        "MinAtar/Breakout-v1",
        {"ppo": 60_000, "dqn": 50_000},
    ),
    "walker": Task(
        "Box2D",
        "gymnasium:BipedalWalker-v3",
        "BipedalWalker-v3",
        {"ppo": 60_000},
        {
            "ppo": {"normalize": True, "n_envs": 32, "n_steps": 2048, "batch_size": 64, "gamma": 0.999}
            | {"clip_range": 0.18}
        },
    ),
    "swimmer": Task(
        "MuJoCo, long horizon",
        "gymnasium:Swimmer-v5",
        "Swimmer-v5",
        {"ppo": 40_000},
        {
            "ppo": {"normalize": True, "gamma": 0.9999, "n_envs": 4, "n_steps": 1024, "batch_size": 256}
            | {"learning_rate": 6e-4, "gae_lambda": 0.98}
        },
    ),
    "inverted-pendulum": Task(
        "MuJoCo",
        "gymnasium:InvertedPendulum-v5",
        "InvertedPendulum-v5",
        {"ppo": 30_000},
        {
            "ppo": {"normalize": True, "batch_size": 64, "n_steps": 32, "gamma": 0.999, "learning_rate": 0.000222425}
            | {"ent_coef": 1.37976e-07, "clip_range": 0.4, "n_epochs": 5, "gae_lambda": 0.9, "max_grad_norm": 0.3}
            | {"vf_coef": 0.19816}
        },
    ),
    "walker2d": Task("MuJoCo", "gymnasium:Walker2d-v5", "Walker2d-v5", {"ppo": 60_000}),
    "reacher": Task("MuJoCo", "gymnasium:Reacher-v5", "Reacher-v5", {"ppo": 60_000}),
    "hopper-longer": Task("MuJoCo", "gymnasium:Hopper-v5", "Hopper-v5", {"ppo": 200_000}),
    "walker-longer": Task(
        "Box2D, a body that may fall",
        "gymnasium:BipedalWalker-v3",
        "BipedalWalker-v3",
        {"ppo": 100_000},
        seeds=FIVE,
    ),
    "rider": Task("a body that may fall", f"{HERE / 'envs.py'}:Rider", "envs:Rider", {"ppo": 30_000}, seeds=FIVE),
    "blackjack": Task(
        "a game of chance", f"{HERE / 'envs.py'}:Blackjack", "envs:Blackjack", {"ppo": 50_000}, seeds=FIVE
    ),
    "higher": Task("a game of chance", f"{HERE / 'envs.py'}:Higher", "envs:Higher", {"ppo": 50_000}, seeds=FIVE),
    "cliff": Task("toy text", "gymnasium:CliffWalking-v1", "CliffWalking-v1", {"ppo": 40_000}),
}


def every_cell(only: list[str] | None = None) -> list[tuple[str, str, str]]:
    """All cells: algorithm, task and contestant."""
    found = []
    for algorithm in ("ppo", "dqn", "sac", "td3"):
        for name, task in TASKS.items():
            if algorithm in task.steps:
                who = ["sb3", *(["zoo"] if algorithm in task.zoo else []), "before", "default"]
                who += ["preset"] if preset(algorithm, task.forage) else []
                found += [(algorithm, name, w) for w in who if not only or w in only]
    return found


def train_sb3(algorithm: str, task: Task, settings: dict[str, Any], seed: int, python: str) -> dict[str, Any]:
    """Train one seed in a process of its own."""
    given = {"algorithm": algorithm, "environment": task.sb3, "steps": task.steps[algorithm], "seed": seed}
    script = HERE / "peers" / "sb3_defaults.py"
    command = [python, str(script), "defaults", json.dumps(given | {"settings": settings})]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


BEFORE: dict[str, dict[str, Any]] = {
    "ppo": {"learning_rate": 2.5e-4, "num_envs": 8, "rollout_length": 128, "epochs": 4, "minibatches": 4}
    | {"entropy_coefficient": 0.01, "final_learning_rate": 0.0, "normalise_observation": False, "initial_log_std": None}
}
"""Settings that every environment without a preset got before this study; of the other agents they are unchanged."""


def train_forage(algorithm: str, task: Task, who: str) -> dict[str, Any]:
    """Train all seeds with the default settings, those of before or the preset's, and play greedily and sampled."""
    import forage
    from forage.config import presets
    from forage.rewards.environment import EnvironmentReward
    from forage.runs.training import use_compilation_cache

    use_compilation_cache()
    if who != "preset":
        presets.PRESETS = ()  # some of these ids have one
    before = who == "before"
    parts = {"agent_options": BEFORE.get(algorithm, {}), "rewards": EnvironmentReward()} if before else {}
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "run"
        forage.train(
            algorithm,
            task.forage,
            steps=task.steps[algorithm],
            seeds=list(task.seeds),
            directory=directory,
            display="quiet",
            evaluation_actions="greedy",
            **parts,
        )
        found: dict[str, Any] = {}
        for actions in ("greedy", "sampled"):
            if task.game:
                found[actions] = [[worth(task.game, directory, seed, actions)] for seed in task.seeds]
                continue
            forage.evaluate(directory, EPISODES, actions=actions)
            evaluation = json.loads((directory / "evaluation.json").read_text())
            found[actions] = evaluation["episode_returns"]
        last, seeds = forage.Run(directory).rows[-1], len(task.seeds)
    return found | {"seconds": [last["seconds"] / seeds] * seeds, "steps": [last["steps"]] * seeds}


def worth(game: Any, directory: Path, seed: int, actions: str) -> float:
    """The mean return of what one seed of a run learned, by the tree of the game."""
    import jax

    import forage

    policy = forage.load(directory, seed=seed, actions=actions)
    act = jax.vmap(lambda observation: policy.agent.probabilities(policy.state, observation, actions == "sampled"))
    return game.value(lambda observations: np.asarray(act(observations), float))


def table(results: dict[str, Any]) -> str:
    """The page: what each contestant reached, mean over seeds of greedy and of sampled episodes, and each seed."""
    lines = [
        "# Default settings",
        "",
        "Three seeds of each contestant or more, for the same number of steps; the mean return of twenty episodes a",
        "seed (in a game of chance that of all episodes, from its tree), played greedily and (after the slash)",
        "sampled, averaged over seeds, with Student's 95 % interval of each mean and the seeds' better means in",
        "braces. *sb3*: Stable-Baselines3's default settings; *zoo*: those of its zoo for this environment; *before*:",
        "Forage's settings for all environments before this study; *default*: what",
        "`forage.config.defaults` chooses by the spec; *preset*: what it chooses by name. Cells that are empty have",
        "not been run yet: `python benchmarks/defaults.py` runs them.",
        "",
        "| algorithm | task | family | steps | sb3 | zoo | before | default | preset |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for algorithm, name in dict.fromkeys((algorithm, name) for algorithm, name, _ in every_cell()):
        task, row = TASKS[name], []
        for who in ("sb3", "zoo", "before", "default", "preset"):
            found = results.get(f"{algorithm}/{name}/{who}")
            if found is None:
                row.append("" if who != "zoo" or algorithm in task.zoo else "none")
                continue
            ways = [np.array([np.mean(seed) for seed in found[key]]) for key in ("greedy", "sampled")]
            better = max(ways, key=np.mean)
            row.append(f"{' / '.join(map(with_interval, ways))} {{{', '.join(f'{v:.4g}' for v in better)}}}")
        lines.append(f"| {algorithm} | {name} | {task.family} | {task.steps[algorithm]:,} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def with_interval(means: np.ndarray) -> str:
    """The mean over seeds with its interval."""
    low, high = student_interval(means)
    return f"{means.mean():.4g} [{low:.4g}, {high:.4g}]"


def keep(cell: tuple[str, str, str], found: dict[str, Any]) -> None:
    """Add a result to the file, which other processes may be writing, too."""
    cells.put(RESULTS, "/".join(cell), found)
    RESULTS.with_name("DEFAULTS.md").write_text(table(cells.read(RESULTS)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm", nargs="?")
    parser.add_argument("task", nargs="?")
    parser.add_argument("--only", type=lambda text: text.split(","), help="contestants: sb3, zoo, before, default")
    parser.add_argument("--sb3", default="python3", help="a Python that has stable-baselines3 and the environments")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true", help="only make the page anew")
    arguments = parser.parse_args()
    if arguments.table:
        RESULTS.with_name("DEFAULTS.md").write_text(table(cells.read(RESULTS)))
        return
    for cell in every_cell(arguments.only):
        algorithm, name, who = cell
        if arguments.algorithm not in (None, algorithm) or arguments.task not in (None, name):
            continue
        results = cells.read(RESULTS)
        if arguments.list or "/".join(cell) in results:
            print(*cell, "done" if "/".join(cell) in results else "", flush=True)
            continue
        task = TASKS[name]
        began = time.monotonic()
        if who in ("sb3", "zoo"):
            settings = task.zoo[algorithm] if who == "zoo" else {}
            runs = [train_sb3(algorithm, task, settings, seed, arguments.sb3) for seed in task.seeds]
            keep(cell, {key: [run[key] for run in runs] for key in ("greedy", "sampled", "seconds", "steps")})
        else:
            keep(cell, train_forage(algorithm, task, who))
        print(*cell, f"{time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
