"""Does it learn? Every row trains an agent, on seeds that no search for presets used.

    python benchmarks/learning.py --list
    python benchmarks/learning.py ppo-cartpole dqn-cartpole
    python benchmarks/learning.py                      # every row that has no result yet
    python benchmarks/learning.py --confirm            # docs/measured.md's rows, on seeds never used

    python benchmarks/learning.py --table              # the page alone, from the results

Results are kept in results/learning/results.json, a row each, those of --confirm in confirmed.json, and
results/learning/README.md is made from them. What a row that was changed and run again on the same seeds gave at first
is kept in first.json, beside them. Whatever was stopped goes on where it was.
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
UNTOUCHED = [5000, 5001, 5002, 5003, 5004]
"""Seeds for one run of each row of docs/measured.md with the settings that it has in the end."""


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
    "ppo-masked": Row("ppo", "CartPole-masked", 500_000, "below 475: it has no memory", {"gru_size": 0}),
    "ppo-gru-masked": Row("ppo", "CartPole-masked", 500_000, "at least 475"),
    "dqn-masked": Row("dqn", "CartPole-masked", 150_000, "below 475: it has no memory", {"gru_size": 0}),
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

HEADLINE = tuple(ROWS)
"""Rows that docs/measured.md shows."""


ABOVE = "above random play, the first point of its curve"
MAPPO = {"central_critic": True}

# One environment of every suite and library, with default settings: does an agent learn there at all?
ROWS |= {
    "suite-grid": Row("ppo", "grid:DoorKey-5x5", 500_000, "0.9 and more: solved"),
    "suite-grid-empty": Row("ppo", "grid:Empty-8x8", 200_000, "0.9 and more: solved"),
    "suite-maze": Row("ppo", "maze:UMaze-Dense", 500_000, ABOVE),
    "suite-memory": Row("ppo", "memory:TMaze-10", 300_000, "1; without memory 0.5", {"gru_size": 64}),
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


def measure(name: str, seeds: list[int], picture: str) -> dict[str, Any]:
    """Train one row, or go on with it where it was stopped. Return what the table shows and the curve.

    Beside a peer both curves are drawn under the name `picture`.
    """
    import forage
    from forage.config.part_data import from_config
    from forage.runs.training import use_compilation_cache

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
        draw_beside(picture, row, (steps, values), peer.pop("episodes"))
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
    lines = [
        "# Learning",
        "",
        "An agent's default settings, presets included, but for what *options* says, on seeds that no search for",
        "presets used; interquartile mean over seeds of evaluation episodes, with its 95 % interval: with fewer than",
        "five seeds Student's, of the mean, else a bootstrap's, which holds about 90 % with five. *Mean* is that over",
        "seeds, and in brackets the worst seed. Stable-Baselines3: same settings, seeds and evaluation.",
        "Made by `python benchmarks/learning.py`. Published figures: gymnax's README (its PPO checkpoints), Pgx's",
        "examples/minatar-ppo, and MinAtar's README (DQN with sticky actions and epsilon 0.1, mean of 30 runs).",
        "Some rows shared the machine's two cores with others, or had one; their wall clocks are upper bounds.",
        "All rows are of the code of their day (2026-11-20 to 22, `results.json` has its hash) and not of today's.",
        "",
        "*First result*: where a row's preset, code, evaluation or length was changed after a first result and it was",
        "run again on the same seeds, what it gave before and what was changed. The later return of these rows is not",
        "of untouched seeds, and may flatter.",
        "",
        f"*Confirmed*: what the row gave in one more run, on seeds {UNTOUCHED[0]} to {UNTOUCHED[-1]}, which were",
        "used for nothing before, by later code (`confirmed.json` has its hash). Rows without a figure have not been",
        "confirmed; `python benchmarks/learning.py --confirm` runs those of the project's README.",
        "",
        "*At first* is the training return at the first point of the curve, where the agent hardly knows anything.",
        "A star: actions in evaluation were drawn from the policy, as in training, and not its best guess.",
        "",
        "| row | agent | environment | options | steps | seeds | at first | return | mean | first result | confirmed "
        "| Stable-Baselines3 | wanted | wall clock |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    firsts, confirmed = kept("first.json"), kept("confirmed.json")
    for name in ROWS:
        if name in results:
            r = results[name]
            again = confirmed.get(name, {})
            peer = beside(r) or "–"  # noqa: RUF001
            if beside(again):
                peer += f"; confirming {beside(again)}"
            star = " *" if r.get("actions") == "sampled" else ""
            first = next((f"{v:.4g}" for v in r["curve"]["mean"] if v is not None), "")
            middle, worst = np.mean(r["returns"]), min(r["returns"])
            before = f"{shown(firsts[name])}: {firsts[name]['changed']}" if name in firsts else ""
            lines.append(
                f"| {name} | {r['agent']} | {r['environment']} | {in_words(r['options'])} | {r['steps']:,} "
                f"| {len(r['seeds'])} | {first} | {shown(r)}{star} | {middle:.4g} [{worst:.4g}] | {before} "
                f"| {shown(again) if again else ''} | {peer} | {ROWS[name].wanted} | {r['seconds']:.0f} s |"
            )
    return "\n".join(lines) + "\n"


def kept(file: str) -> dict[str, dict[str, Any]]:
    """Read results of rows, none where there is no such file."""
    path = RESULTS / file
    return json.loads(path.read_text()) if path.exists() else {}


def beside(result: dict[str, Any]) -> str:
    """Write the peer's score, if the row has one."""
    return shown(result["peer"]) if result.get("peer") else ""


def keep_first(name: str, result: dict[str, Any]) -> None:
    """Keep what a row gave before it was run again, unless an earlier result is kept."""
    path, firsts = RESULTS / "first.json", kept("first.json")
    first = {key: result[key] for key in ("returns", "steps", "seeds")} | {"changed": "run again"}
    rows = [f" {json.dumps(row)}: {json.dumps(found)}" for row, found in ({name: first} | firsts).items()]
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def in_words(options: dict[str, Any]) -> str:
    """Write options as the command line takes them."""
    return ", ".join(
        f"{name} {in_words(value) if isinstance(value, dict) else value}".replace("part ", "")
        for name, value in options.items()
    )


def shown(result: dict[str, Any]) -> str:
    """Write a score with its interval, as today's `score` makes it of the seeds' returns."""
    from forage.evaluation.statistics import score

    found = score(np.array(result["returns"]))
    return f"{found.value:.4g}" + ("" if found.low is None else f" [{found.low:.4g}, {found.high:.4g}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--confirm", action="store_true", help="once more on untouched seeds, beside the first result")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    arguments = parser.parse_args()
    if arguments.list:
        for name, row in ROWS.items():
            print(f"{name:24} {row.agent} on {row.environment}, {row.steps:,} steps; wanted: {row.wanted}")
        return
    unknown = [name for name in arguments.rows if name not in ROWS]
    if unknown:
        sys.exit(f"There is no row {unknown[0]}; --list shows them.")
    first, confirming = kept("results.json"), arguments.confirm
    if arguments.table:
        (RESULTS / "README.md").write_text(table(first))
        return
    file = "confirmed.json" if confirming else "results.json"
    results = kept(file)
    if confirming and (again := [name for name in arguments.rows if name in results]):
        sys.exit(f"{again[0]} has been confirmed once; of several runs one could choose, so that the first one stays.")
    left = [name for name in ROWS if name not in results]
    if confirming:  # what is cheap comes first
        left = sorted((name for name in HEADLINE if name in left), key=lambda name: first[name]["seconds"])
    for name in arguments.rows or left:
        if len(arguments.rows) != 1:  # each row in a process of its own: JAX's devices are set once a process
            words = ["--confirm"] if confirming else ["--seeds", arguments.seeds]
            status = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, __file__, name, *words])
            if status:
                print(f"{name} failed; the others go on.", flush=True)
            continue
        seeds = UNTOUCHED if confirming else [int(seed) for seed in arguments.seeds.split(",")]
        seeds = seeds[: ROWS[name].seeds]
        before, results[name] = results.get(name), measure(name, seeds, f"{name}-confirmed" if confirming else name)
        RESULTS.mkdir(parents=True, exist_ok=True)
        if before and before["returns"] != results[name]["returns"]:
            keep_first(name, before)
        (RESULTS / file).write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "README.md").write_text(table(kept("results.json")))
        shutil.rmtree(under_way(name, seeds))


if __name__ == "__main__":
    main()
