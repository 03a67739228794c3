"""Does it learn? Every row trains an agent with its default settings on seeds that no search of presets used.

    python benchmarks/learning.py --list
    python benchmarks/learning.py --table              # the page again, from what is kept
    python benchmarks/learning.py --confirm ppo-cartpole   # once more, on seeds that were never used
    python benchmarks/learning.py ppo-cartpole dqn-cartpole
    python benchmarks/learning.py                      # every row that has no result yet

Results are kept in results/learning/results.json, a row each, those of --confirm in confirmed.json beside it, earlier
figures in history.json (`python docs/history.py`), and results/learning/README.md is made from them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rows import EIGHT, ONE_THREAD, PPO_HALFCHEETAH, SAC_HALFCHEETAH

RESULTS = Path(__file__).parent / "results" / "learning"
UNDER_WAY = Path(__file__).parents[1] / ".cache" / "learning"  # rows that were begun, each until it is done
SEEDS = [100, 101, 102, 103, 104]
CONFIRMING = [5000, 5001, 5002, 5003, 5004]
"""For one run of a row whose settings stand; a row that has a confirmation keeps it."""


class Row(NamedTuple):
    """One experiment."""

    agent: str
    environment: str
    steps: int
    wanted: str  # what the number should be, in words
    options: dict[str, Any] = {}
    rewards: dict[str, Any] | None = None
    peer: dict[str, Any] | None = None  # the same for Stable-Baselines3, trained on the same seeds
    seeds: int = 5  # fewer where an environment is slow
    actions: str = "greedy"  # in evaluation; sampled where the best guess walks into a wall for ever


SB3_PPO = {"num_envs": 8, "rollout_length": 256, "normalise_observation": False, "final_learning_rate": 1.0}
"""Stable-Baselines3's default settings, in eight environments, where they differ from Forage's for HalfCheetah."""

PPO_BREAKOUT = "published, PPO: 28 at 10M (gymnax's checkpoint); 6 at 5M, 50 at 20M (Pgx's curve)"
DQN_BREAKOUT = "published, DQN: 10 at 5M, exploring (Young and Tian, 2019, their curve)"

ROWS: dict[str, Row] = {
    "ppo-cartpole": Row("ppo", "CartPole-v1", 100_000, "at least 475"),
    "dqn-cartpole": Row("dqn", "CartPole-v1", 150_000, "at least 475"),
    "ppo-acrobot": Row("ppo", "Acrobot-v1", 200_000, "at least -100"),
    "dqn-acrobot": Row("dqn", "Acrobot-v1", 100_000, "at least -100"),
    "sac-pendulum": Row("sac", "Pendulum-v1", 20_000, "at least -180"),
    "td3-pendulum": Row("td3", "Pendulum-v1", 20_000, "at least -180"),
    "sac-discrete-cartpole": Row("sac-discrete", "CartPole-v1", 50_000, "at least 475"),
    "ppo-masked": Row("ppo", "CartPole-masked", 500_000, "below 475: it has no memory", {"memory_size": 0}),
    "ppo-gru-masked": Row("ppo", "CartPole-masked", 500_000, "at least 475"),
    "dqn-masked": Row("dqn", "CartPole-masked", 150_000, "below 475: it has no memory", {"memory_size": 0}),
    "dqn-gru-masked": Row("dqn", "CartPole-masked", 150_000, "at least 475"),
    "dqn-deepsea": Row("dqn", "DeepSea-20", 200_000, "0: epsilon-greedy does not find it"),
    "dqn-rnd-deepsea": Row("dqn", "DeepSea-20", 200_000, "0.99", {}, {"part": "rnd"}),
    "ppo-breakout": Row("ppo", "minatar:Breakout", 5_000_000, PPO_BREAKOUT),
    "dqn-breakout": Row("dqn", "minatar:Breakout", 5_000_000, DQN_BREAKOUT),
    "ppo-halfcheetah": Row(
        "ppo",
        "gymnasium:HalfCheetah-v5",
        146 * 2048,
        "as Stable-Baselines3",
        SB3_PPO,
        {"part": "environment"},
        {**PPO_HALFCHEETAH.settings, **EIGHT, **ONE_THREAD},
    ),
    "sac-halfcheetah": Row(
        "sac",
        "gymnasium:HalfCheetah-v5",
        20_000,
        "as Stable-Baselines3",
        {"num_envs": 1},
        peer={**SAC_HALFCHEETAH.settings, **ONE_THREAD},
    ),
}


ABOVE = "above random play, the first point of its curve"
MAPPO = {"central_critic": True}

# One environment of every suite and library, with default settings: does an agent learn there at all?
ROWS |= {
    "suite-grid": Row("ppo", "grid:DoorKey-5x5", 500_000, "0.9 and more: solved"),
    "suite-grid-empty": Row("ppo", "grid:Empty-8x8", 200_000, "0.9 and more: solved"),
    "suite-maze": Row("ppo", "maze:UMaze-Dense", 500_000, ABOVE),
    "suite-memory": Row("ppo", "memory:TMaze-10", 300_000, "1; without memory 0.5", {"memory_size": 64}),
    "suite-tabular": Row("ppo", "tabular:Chain-5", 200_000, "357 is best"),
    "suite-gymnax": Row("ppo", "gymnax:CartPole-v1", 200_000, "at least 475"),
    "suite-jumanji": Row("ppo", "jumanji:Snake-v1", 300_000, ABOVE, seeds=3, actions="sampled"),
    "suite-navix": Row("ppo", "navix:Navix-Empty-5x5-v0", 300_000, "near 1", seeds=3),
    "suite-xland": Row("ppo", "xland:MiniGrid-Empty-5x5", 300_000, "near 1", seeds=3),
    "suite-craftax": Row(
        "ppo", "craftax:Craftax-Classic-Symbolic-v1", 300_000, ABOVE, {"num_envs": 64}, seeds=2, actions="sampled"
    ),
    "suite-brax": Row("ppo", "brax:inverted_pendulum", 300_000, "1000 is best", seeds=3),
    "suite-playground": Row("ppo", "playground:CartpoleBalance", 300_000, "1000 is best", seeds=3),
    "suite-jaxmarl": Row("ppo", "jaxmarl:MPE_simple_spread_v3", 1_000_000, ABOVE),
    "suite-jaxmarl-mappo": Row("ppo", "jaxmarl:MPE_simple_spread_v3", 1_000_000, ABOVE, MAPPO),
    "suite-smax": Row("ppo", "jaxmarl:SMAX-3m", 1_000_000, "2 is best: every battle won", {}, seeds=3),
    "suite-smax-mappo": Row("ppo", "jaxmarl:SMAX-3m", 3_000_000, "2 is best: every battle won", MAPPO, seeds=3),
    "suite-pettingzoo": Row("ppo", "pettingzoo:mpe/simple_spread_v3", 100_000, ABOVE, {"num_envs": 16}, seeds=2),
    "suite-mo-gymnasium": Row(
        "ppo",
        "mo-gymnasium:deep-sea-treasure-v0",
        50_000,
        ABOVE,
        rewards={"part": "weighted", "names": ["treasure", "time"], "weights": [1.0, 1.0]},
        seeds=3,
    ),
    "suite-robotics": Row("sac", "robotics:FetchReachDense-v4", 10_000, ABOVE, seeds=2),
    "suite-gymnasium": Row("dqn", "gymnasium:CartPole-v1", 50_000, ABOVE, seeds=3),
    "suite-envpool": Row("ppo", "envpool:CartPole-v1", 200_000, "at least 475", seeds=3),
}


def measure(name: str, seeds: list[int]) -> dict[str, Any]:
    """Trains one row, or goes on with it where it was stopped. Returns what the table shows and the curve."""
    import forage
    from forage.registry import from_config
    from forage.training import use_compilation_cache

    use_compilation_cache()
    row, work = ROWS[name], under_way(name, seeds)
    directory = work / "run"
    if not forage.Run.begun(directory):
        run = forage.train(
            row.agent,
            row.environment,
            steps=row.steps,
            seeds=seeds,
            directory=directory,
            agent_options=row.options,
            evaluation_actions=row.actions,
            **({"rewards": from_config(row.rewards)} if row.rewards else {}),
        )
    elif (run := forage.Run(directory)).evaluation is None:
        run = forage.resume(directory)
    steps, values = run.curve()
    score = run.score
    peer = train_peer(row, seeds, work) if row.peer else None
    if peer:
        draw_beside(name, row, (steps, values), peer.pop("episodes"))
    return {
        "agent": row.agent,
        "environment": row.environment,
        "options": row.options | ({"rewards": row.rewards} if row.rewards else {}),
        "steps": row.steps,
        "seeds": seeds,
        "actions": row.actions,
        "score": score.value,
        "interval": [score.low, score.high],
        "returns": run.evaluation["return"] if run.evaluation else None,
        "seconds": round(run.rows[-1]["seconds"], 1),
        "peer": peer,
        "curve": {"steps": steps.tolist(), "mean": [None if np.isnan(v) else round(float(v), 3) for v in mean(values)]},
        "machine": {"cores": os.cpu_count(), "system": platform.system()},
        "versions": json.loads((directory / "versions.json").read_text()),
    }


def under_way(name: str, seeds: list[int]) -> Path:
    """Where a row's work lies until its result is written."""
    return UNDER_WAY / f"{name}-{'-'.join(map(str, seeds))}"


def mean(values: np.ndarray) -> np.ndarray:
    """Over members (`member point`), where any of them has a value."""
    with np.errstate(invalid="ignore"):
        return np.nansum(values, 0) / (~np.isnan(values)).sum(0)


def train_peer(row: Row, seeds: list[int], work: Path) -> dict[str, Any]:
    """Stable-Baselines3, a process for each seed. Returns its score as ours is made, and all training episodes."""
    from run import REPOSITORY, load_peers, peer_python, run_once

    from forage.evaluation.statistics import score

    python = peer_python("sb3", load_peers()["sb3"], REPOSITORY / ".cache/peers")
    script, runs = Path(__file__).parent / "peers" / "sb3.py", []
    for seed in seeds:
        settings = dict(row.peer or {}) | {"steps": row.steps, "seed": seed, "evaluation_episodes": 10}
        done = work / f"sb3-{seed}.json"
        if not done.exists():
            with tempfile.TemporaryDirectory() as scratch:
                found = run_once([python, str(script), "learning", json.dumps(settings)], Path(scratch) / "x", 7200)
            done.write_text(json.dumps(found))
        runs.append(json.loads(done.read_text()))
    returns = [run["final_return"][0] for run in runs]
    total = score(np.array(returns))
    return {
        "score": total.value,
        "interval": [total.low, total.high],
        "returns": returns,
        "seconds": round(sum(run["seconds_total"] for run in runs), 1),
        "versions": runs[0]["versions"],
        "episodes": [run["episodes"] for run in runs],
    }


def draw_beside(name: str, row: Row, ours: tuple[np.ndarray, np.ndarray], episodes: list[Any]) -> None:
    """Both learning curves, in twenty steps, in one picture."""
    from forage.evaluation.plots import curve

    edges = np.linspace(0, row.steps, 21)

    def binned(steps: Any, values: Any) -> np.ndarray:
        index = np.clip(np.searchsorted(edges, steps) - 1, 0, 19)
        return np.array(
            [np.nanmean(np.asarray(values)[index == i]) if (index == i).any() else np.nan for i in range(20)]
        )

    steps, values = ours
    curves = [
        ("Forage", edges[1:], np.stack([binned(steps[~np.isnan(v)], v[~np.isnan(v)]) for v in values])),
        ("Stable-Baselines3", edges[1:], np.stack([binned(*zip(*one, strict=True)) for one in episodes])),
    ]
    RESULTS.mkdir(parents=True, exist_ok=True)
    curve(RESULTS / f"{name}.png", curves, title=f"{row.agent} on {row.environment}")


def table(results: dict[str, dict[str, Any]]) -> str:
    confirmed, history = stored("confirmed.json"), stored("history.json")
    lines = [
        "# Learning",
        "",
        "Default settings but for the options shown, on seeds from 100 that no search of presets used: interquartile",
        "mean over seeds of evaluation episodes with its 95 % interval, and the mean where it reads differently; with",
        "fewer than five seeds the mean with Student's interval. Stable-Baselines3: same settings, seeds, evaluation.",
        "",
        "These seeds were looked at. Where a row missed what was wanted, a preset, the code or the evaluation was",
        "mended and the row run again on the same seeds; *at first* is the figure it had then. *Confirmed* is one run",
        "of seeds 5000 to 5004. All results are of the code of their day (`versions` in results.json), and the",
        "library has changed since; three rows (ppo-cartpole, dqn-cartpole, dqn-acrobot) that were run again on",
        "2026-11-25 were the same to the last bit.",
        "",
        "Made by `python benchmarks/learning.py`. Published figures: gymnax's README (its PPO checkpoints), Pgx's",
        "examples/minatar-ppo, and MinAtar's README (DQN with sticky actions and epsilon 0.1, mean of 30 runs).",
        "Some rows shared the machine's two cores with others, or had one; their wall clocks are upper bounds.",
        "",
        "*Unlearned* is the training return at the first point of the curve, where the agent hardly knows anything.",
        "A star: actions in evaluation were drawn from the policy, as in training, and not its best guess.",
        "",
        "| row | agent | environment | options | steps | seeds | unlearned | return | at first | confirmed "
        "| Stable-Baselines3 | wanted | wall clock |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in ROWS:
        if name in results:
            r = results[name]
            peer = shown(r["peer"]) if r.get("peer") else "–"  # noqa: RUF001
            star = " *" if r.get("actions") == "sampled" else ""
            first = next((f"{v:.4g}" for v in r["curve"]["mean"] if v is not None), "")
            again = shown(confirmed[name]) if name in confirmed else ""
            lines.append(
                f"| {name} | {r['agent']} | {r['environment']} | {written(r.get('options', {}))} | {r['steps']:,} "
                f"| {len(r['seeds'])} | {first} | {shown(r)}{star} | {at_first(r, history.get(name, []))} | {again} "
                f"| {peer} | {ROWS[name].wanted} | {r['seconds']:.0f} s |"
            )
    return "\n".join(lines) + "\n"


def stored(name: str) -> dict[str, Any]:
    path = RESULTS / name
    return json.loads(path.read_text()) if path.exists() else {}


def written(options: dict[str, Any]) -> str:
    """Write options in one cell."""
    return ", ".join(f"{key} {value}" for key, value in options.items()).translate(dict.fromkeys(map(ord, "{}'")))


def at_first(result: dict[str, Any], past: list[dict[str, Any]]) -> str:
    """Say the first figure that a row had, with what was different, if it is another one."""
    if not past or past[0]["score"] == result["score"]:
        return ""
    first = past[0]
    low, high = first["interval"]
    differing = [f"{first['steps']:,} steps"] if first["steps"] != result["steps"] else []
    differing += [f"{len(first['seeds'])} seeds"] if len(first["seeds"]) != len(result["seeds"]) else []
    differing += ["greedy"] if result.get("actions") == "sampled" else []
    beside = f" ({', '.join(differing)})" if differing else ""
    return f"{first['score']:.4g} [{low:.4g}, {high:.4g}]{beside}, {first['commit']}"


def shown(result: dict[str, Any]) -> str:
    """Write a score with its interval, made anew from the returns of all seeds."""
    from forage.evaluation.statistics import score

    total = score(np.array(result["returns"]))
    if total.low is None:
        return f"{total.value:.4g}"
    value, beside = f"{total.value:.4g}", "" if total.mean is None else f"{total.mean:.4g}"
    return f"{value} [{total.low:.4g}, {total.high:.4g}]" + (f", mean {beside}" if beside not in ("", value) else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--confirm", action="store_true", help="on seeds 5000 to 5004, kept beside the first result")
    parser.add_argument("--table", action="store_true", help="write the page again")
    arguments = parser.parse_args()
    if arguments.list:
        for name, row in ROWS.items():
            print(f"{name:24} {row.agent} on {row.environment}, {row.steps:,} steps; wanted: {row.wanted}")
        return
    unknown = [name for name in arguments.rows if name not in ROWS]
    if unknown:
        sys.exit(f"There is no row {unknown[0]}; --list shows them.")
    if arguments.table:
        (RESULTS / "README.md").write_text(table(stored("results.json")))
        return
    kept = "confirmed.json" if arguments.confirm else "results.json"
    results = stored(kept)
    if arguments.confirm and (again := [name for name in arguments.rows if name in results]):
        sys.exit(f"{again[0]} was confirmed once, and more tries would choose among them; its figure stays.")
    for name in arguments.rows or [name for name in ROWS if name not in results]:
        if len(arguments.rows) != 1:  # each row in a process of its own: JAX's devices are set once a process
            words = ["--confirm"] if arguments.confirm else ["--seeds", arguments.seeds]
            status = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, __file__, name, *words])
            if status:
                print(f"{name} failed; the others go on.", flush=True)
            continue
        seeds = CONFIRMING if arguments.confirm else [int(seed) for seed in arguments.seeds.split(",")]
        seeds = seeds[: ROWS[name].seeds]
        results[name] = measure(name, seeds)
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / kept).write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "README.md").write_text(table(stored("results.json")))
        shutil.rmtree(under_way(name, seeds))


if __name__ == "__main__":
    main()
