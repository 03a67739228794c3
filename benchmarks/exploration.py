"""Which way of exploring finds what, where? A table of methods by problems, each cell trained and judged alike.

    python benchmarks/exploration.py --list
    python benchmarks/exploration.py                                # every cell that has no result, but variants
    python benchmarks/exploration.py --problem deep-sea-20          # one column
    python benchmarks/exploration.py --method rnd --problem valley --again
    python benchmarks/exploration.py --confirm                      # winners once more, on seeds that were never used

Each cell has a core to itself, and as many are run at once as there are cores (`--at-once`). Most take 2 to 25 minutes.
One that was stopped goes on where it was: until it has a result, its run is kept in runs/exploration.

A problem says which agent explores it and with which settings; a method puts parts at one port, or at the ports it
names, or is an agent of its own, with its own settings. What does not fit together is left out by the library's own
checks, and the reason is kept. Results are kept in results/exploration, a file for each problem with a cell for each
method, and results/EXPLORATION.md is made from them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import cells as kept
import numpy as np

from forage.cli.entry import as_command
from forage.config.options import whole_number

RESULTS = Path(__file__).parent / "results" / "exploration"
TABLE = RESULTS.parent / "EXPLORATION.md"
RUNS = Path(__file__).resolve().parents[1] / "runs" / "exploration"
SEEDS = [2000, 2001, 2002, 2003, 2004]
"""No search for presets used them, and no claim runs on them; methods and variants are compared on them."""
FRESH = [6000, 6001, 6002, 6003, 6004]
"""For one more run of each of `WINNERS`."""
STOPPED = 130
"""The exit code of a cell that was told to stop."""


class Problem(NamedTuple):
    """Where reward is rare."""

    environment: str
    agent: str
    steps: int  # of each seed
    options: dict[str, Any] = {}  # of its agent
    solved: float = 0.0  # an episode of more than this is a success
    wrap: tuple[str, ...] = ()
    environment_options: dict[str, Any] = {}
    actions: str = "greedy"  # in evaluation
    note: str = ""


class Method(NamedTuple):
    """One way to explore: parts by port, as a run's configuration has them; or another agent."""

    parts: dict[str, dict[str, Any]] = {}
    agent: str | None = None
    options: dict[str, Any] = {}  # of the agent
    port: str = ""


PARTLY = "actions are drawn in evaluation as in training: who sees a part and forgets needs chance"
GRID = {"num_envs": 64, "rollout_length": 128, "minibatches": 8, "learning_rate": 1e-3, "entropy_coefficient": 0.01}
SMALL = {
    "hidden_sizes": (64, 64),
    "num_envs": 4,
    "updates_per_rollout": 2,
    "batch_size": 128,
    "learning_rate": 1e-3,
    "polyak": 0.01,
}
"""What a small task needs of TD3 and its kin: with their own defaults the first cell took over 12 minutes."""
SOFT = SMALL | {"initial_temperature": 0.01}
"""As well, of SAC: at 1 a thousand steps of entropy are worth more than the one reward, and that is all it learns."""

PROBLEMS: dict[str, Problem] = {
    "deep-sea-20": Problem("DeepSea-20", "dqn", 100_000, note="chance: once in 2^20 episodes"),
    "deep-sea-50": Problem(
        "DeepSea-50",
        "ppo",
        800_000,
        {"entropy_coefficient": 0.1},  # advantages are normalised, so that the cost of going right weighs much
        note="chance: once in 2^50 episodes",
    ),
    "deep-sea-50-replay": Problem(
        "DeepSea-50",
        "dqn",
        800_000,
        {"num_envs": 8, "batch_size": 64, "final_learning_rate": 1.0},  # learns fast, and to the end
        note="as above, with replay",
    ),
    "valley": Problem(
        "MountainCar-sparse",
        "dqn",
        100_000,
        note="who was never paid may still solve it: values that are all next to nothing differ by what is left of the "
        "first weights, in some seeds the sign of the velocity, and to push that way is the solution",
    ),
    "valley-force": Problem("MountainCarContinuous-sparse", "sac", 30_000, SOFT),
    "pendulum": Problem("Pendulum-sparse", "sac", 20_000, SOFT, 50.0, note="solved: it stands for 50 of 200 steps"),
    "swing-up": Problem("CartPole-swingup", "dqn", 300_000, solved=50.0, note="solved: it stands for 50 steps"),
    "corridor": Problem("maze:Corridor", "sac", 50_000, SOFT),
    "noisy-tv": Problem(
        "grid:MultiRoom-N4-S5", "ppo", 500_000, GRID, wrap=("noisy-tv:2",), actions="sampled", note=PARTLY
    ),
    "multi-room": Problem("grid:MultiRoom-N7-S8", "ppo", 2_000_000, GRID, actions="sampled", note=PARTLY),
    "key-corridor": Problem("grid:KeyCorridor-S3R3", "ppo", 2_000_000, GRID, actions="sampled", note=PARTLY),
    "obstructed": Problem("grid:ObstructedMaze-2Dlh", "ppo", 2_000_000, GRID, actions="sampled", note=PARTLY),
    "craftax": Problem(
        "craftax:Craftax-Classic-Symbolic-v1",
        "ppo",
        500_000,
        {"num_envs": 64, "rollout_length": 64, "minibatches": 8, "entropy_coefficient": 0.01},
        solved=8.0,
        actions="sampled",
        note="the return counts achievements, of which there are 22, and a little of health; solved: more than 8",
    ),
    "river": Problem(
        "tabular:RiverSwim-12",
        "dqn",
        40_000,
        solved=0.5,
        environment_options={"max_steps": 150},
        note="solved: paid at the far end, where always going right comes to in 99 of 100 episodes; the first reward "
        "is the little that the near end pays",
    ),
}


def bonus(part: str, **settings: Any) -> Method:
    return Method({"rewards": {"part": part, **settings}}, port="rewards")


def way(part: str, **settings: Any) -> Method:
    return Method({"behaviour": {"part": part, **settings}}, port="behaviour")


def start(part: str, **settings: Any) -> Method:
    return Method({"starts": {"part": part, **settings}}, port="starts")


METHODS: dict[str, Method] = {
    "plain": Method(),
    "rnd": bonus("rnd"),
    "rnd, own value head": bonus("rnd")._replace(options={"bonus_head": True, "discount": 0.999}),
    "icm": bonus("icm"),
    "disagreement": bonus("disagreement"),
    "counts": bonus("counts"),
    "counts, weight 1": bonus("counts", weight=1.0),
    "counts, once an episode": bonus("counts", episode_size=300),
    "e3b": bonus("e3b"),
    "episodic-novelty": bonus("episodic-novelty"),
    "shift": bonus("shift"),
    "boltzmann": way("boltzmann"),
    "epsilon-greedy, longer": way("epsilon-greedy", end=0.01, fraction=0.4),
    "ez-greedy": way("ez-greedy"),
    "pink": way("pink"),
    "ornstein-uhlenbeck": way("ornstein-uhlenbeck"),
    "ornstein-uhlenbeck, temperature 1": way("ornstein-uhlenbeck")._replace(options={"initial_temperature": 1.0}),
    "gsde": way("held-noise")._replace(options={"state_dependent_noise": True}),
    "parameter-noise": way("parameter-noise"),
    "archive": start("archive"),
    "go-explore": start("go-explore", explore=0.5),
    "go-explore, short bursts": start("go-explore", explore=0.5, burst=5),
    "go-explore, by chance": Method(
        {
            "starts": {"part": "go-explore", "target": 0.5, "burst": 5, "threshold": 0.3},
            "behaviour": {"part": "epsilon-greedy", "end": 0.01, "fraction": 0.4},
        },
        port="starts, behaviour",
    ),
    "latent-go-explore": start("latent-go-explore"),
    "snapshot of a solver": start(
        "snapshot", teacher="solver", episodes=400, every=3, clusters=10, share=0.7, probability=0.8
    ),
    "bootstrapped-dqn": Method(agent="bootstrapped-dqn", port="agent"),
    "langevin-dqn": Method(agent="langevin-dqn", port="agent"),
    "maxinfo-sac": Method(agent="maxinfo-sac", options=SOFT, port="agent"),
    "mex": Method(agent="mex", options=SMALL, port="agent"),
    "rrs": Method(agent="rrs", options=SMALL, port="agent"),
    "sqirl": Method(agent="sqirl", port="agent"),
    "lesson": way("lesson"),
    "ucbvi": Method(agent="ucbvi", options={"rollout_length": 150, "bonus_scale": 0.005}, port="agent"),
    "psrl": Method(agent="psrl", options={"rollout_length": 150}, port="agent"),
}

EXTRA = (
    "deep-sea-50-replay",
    "rnd, own value head",
    "counts, weight 1",
    "epsilon-greedy, longer",
    "ornstein-uhlenbeck, temperature 1",
    "go-explore, short bursts",
    "go-explore, by chance",
)
"""Problems and methods that are run where they are named: others in another way, where that was to be compared."""
REPLAY = ("bootstrapped-dqn", "langevin-dqn", "sqirl")
"""Agents that take hours for as many steps as PPO takes minutes for: beside it they are run where they are named."""


WINNERS = (
    ("maxinfo-sac", "corridor"),
    ("ornstein-uhlenbeck", "valley-force"),
    ("go-explore, by chance", "deep-sea-50-replay"),
    ("bootstrapped-dqn", "deep-sea-50-replay"),
    ("counts, once an episode", "multi-room"),
    ("snapshot of a solver", "multi-room"),
    ("counts, once an episode", "key-corridor"),
    ("snapshot of a solver", "key-corridor"),
    ("e3b", "noisy-tv"),
    ("counts, weight 1", "swing-up"),
)
"""What docs/exploration.md praises: the best of many, compared on `SEEDS`. Cheap ones come first."""


def usual(problem: str) -> list[str]:
    """The methods that are run there unasked."""
    left_out = EXTRA + (REPLAY if PROBLEMS[problem].agent == "ppo" else ())
    return [name for name in METHODS if name not in left_out]


def setup_of(method: str, problem: str, seeds: list[int]) -> dict[str, Any]:
    """What `forage.train` is told."""
    from forage.config.part_data import from_config

    how, where = METHODS[method], PROBLEMS[problem]
    return {
        "agent": how.agent or where.agent,
        "environment": where.environment,
        "steps": where.steps,
        "seeds": seeds,
        "agent_options": (where.options if how.agent is None else {}) | how.options,
        "environment_options": where.environment_options,
        "wrap": list(where.wrap),
        "evaluation_actions": where.actions,
        **{port: from_config(config) for port, config in how.parts.items()},
    }


def fits(method: str, problem: str) -> str | None:
    """`None`, or why a method cannot be used there, in the library's words."""
    from forage.config.resolve import resolve
    from forage.core.errors import ForageError
    from forage.core.mesh import prepare_devices
    from forage.environments import make

    prepare_devices(len(SEEDS))  # before JAX is in use
    told = setup_of(method, problem, [0])
    make(told["environment"])  # where its library is not there, that is no method's fault
    try:
        resolve(told.pop("agent"), told.pop("environment"), **told).loop()
    except ForageError as error:
        return str(error)
    return None


def measure(method: str, problem: str, fresh: bool = False) -> dict[str, Any]:
    """Train one cell, on `FRESH` seeds where asked. Return what the table shows, and what it takes to do it again."""
    from forage.evaluation.statistics import score
    from forage.runs.training import use_compilation_cache
    from forage.studies.claims.running import load_or_train

    use_compilation_cache()
    told = setup_of(method, problem, FRESH if fresh else SEEDS) | {"visits": True, "evaluation_episodes": 50}
    run = load_or_train(**told, directory=run_path(method, problem, fresh), display="notes")
    assert run.evaluation is not None
    returns = np.array(run.evaluation["episode_returns"])
    solved = (returns > PROBLEMS[problem].solved).mean(1)
    last = run.rows[-1]
    first = [None if v is None else int(v) for v in last["first_reward"]]
    versions = json.loads((run.directory / "versions.json").read_text())
    config = {port: run.config[port] for port in ("agent", "behaviour", "rewards", "memory", "starts")}
    return {
        "method": method,
        "problem": problem,
        "environment": told["environment"],
        "steps": told["steps"],
        "seeds": told["seeds"],
        "solved": summary(score(solved)),
        "solved_by_seed": solved.tolist(),
        "return": summary(score(returns.mean(1))),
        "return_by_seed": returns.mean(1).tolist(),
        "first_reward": first,
        "places_visited": last.get("places_visited"),
        "visitation_entropy": last.get("visitation_entropy"),
        "seconds": round(float(last["seconds"]), 1),
        "config": config,
        "machine": {"cores": os.cpu_count(), "system": platform.system()},
        "versions": {name: versions[name] for name in ("forage", "code", "jax", "python")},
    }


def summary(found: Any) -> list[float | None]:
    """The interquartile mean and the ends of its interval."""
    return [found.value, found.low, found.high]


def results_of(problem: str, fresh: bool = False) -> Path:
    """The file of a problem's cells."""
    return RESULTS / ("confirmed" if fresh else "") / f"{problem}.json"


def run_path(method: str, problem: str, fresh: bool = False) -> Path:
    """Where a cell's run is kept until the cell has a result."""
    name = f"{problem}--{method.replace(', ', '-').replace(' ', '-')}"
    return RUNS / (name + "-confirmed" * fresh)


def asked(method: str, problem: str, fresh: bool = False) -> str:
    """Return what stands for all that a cell's result follows from."""
    how, where = METHODS[method]._asdict(), PROBLEMS[problem]._asdict()
    told = {"seeds": FRESH if fresh else SEEDS, "method": how, "problem": where}
    del how["port"], where["note"]
    return kept.fingerprint(told)


def found(method: str, problem: str, fresh: bool = False) -> dict[str, Any] | None:
    """The cell, where it was run as it stands here."""
    cell = kept.read(results_of(problem, fresh)).get(method)
    return cell if cell is not None and cell["asked"] == asked(method, problem, fresh) else None


def outdated(method: str, problem: str, cell: dict[str, Any]) -> bool:
    """Whether a default has changed since. What parts do may have changed as well: their versions are in the cell."""
    from forage.config.defaults import default_behaviour, default_memory, make_agent
    from forage.config.former import with_former
    from forage.config.part_data import to_config

    if "reason" in cell:
        return False
    told = setup_of(method, problem, SEEDS)
    agent = make_agent(told["agent"], told["environment"], told["agent_options"])
    parts = {"agent": agent, "behaviour": default_behaviour(agent), "memory": default_memory(agent)}
    parts |= {port: told[port] for port in METHODS[method].parts}
    config = json.loads(json.dumps({port: to_config(part) for port, part in parts.items()}))
    then = {port: cell["config"][port] for port in config}
    return not same_as_before(with_former(then), with_former(config))


def same_as_before(then: Any, now: Any) -> bool:
    """Whether all that was said then is said now; there may be more now, by settings that are new."""
    if isinstance(then, dict) and isinstance(now, dict):
        return all(name in now and same_as_before(value, now[name]) for name, value in then.items())
    return then == now


def table() -> str:
    """The page: problems, then for every problem what each method brought."""
    lines = [
        "# Exploration",
        "",
        "Methods by problems where reward is rare. *Solved*: share of 50 evaluation episodes that succeed after",
        "training, interquartile mean over seeds with its 95 % bootstrap interval. *First reward*: environment steps",
        "of a seed until it is first paid, the median of the seeds that were, and how many were. *Places*: how many",
        "cells of the environment's map were visited, where it has one. *Wall clock* is that of all seeds together,",
        "on one core; cells were made on different days, on machines that differ several fold, some beside other work,",
        "and by the code of the day: its version is in the cell, and in some seeds today's may bring something else.",
        "Settings are each part's defaults but for what the lines of problems and methods in",
        "`benchmarks/exploration.py` say (a problem's go to its agent, not to agents of their own). No search for",
        "presets used these seeds, but methods and variants of them were compared on them, and some run again: the",
        "best of a problem is selected, which flatters it. *Confirmed* is what one more run solved, on seeds 6000 to",
        "6004, which nothing had used before; of the winners that docs/exploration.md praises, those without it have",
        "not been confirmed (`--confirm` does it). Variants were run on some problems, and agents that replay were not",
        "where PPO explores: they take hours for as many steps. A method with * was run before one of its defaults",
        "changed.",
        "Made by `python benchmarks/exploration.py`; one cell again:",
        "`python benchmarks/exploration.py --method M --problem P --again`.",
        "",
    ]
    for name, problem in PROBLEMS.items():
        cells = {method: cell for method in METHODS if (cell := found(method, name)) is not None}
        if not cells:
            continue
        note = f" {problem.note[0].upper()}{problem.note[1:]}." if problem.note else ""
        around = f" in {', '.join(problem.wrap)}" if problem.wrap else ""
        lines += [
            f"## {name}: {problem.environment}{around}",
            "",
            f"{problem.agent}, {problem.steps:,} steps of each of {len(SEEDS)} seeds.{note}",
            "",
            "| method | port | solved | confirmed | return | first reward | places | wall clock |",
            "|---|---|---|---|---|---|---|---|",
        ]
        ordered = sorted(cells, key=lambda m: -cells[m]["solved"][0] if "solved" in cells[m] else 9)
        lines += [
            row(method, cells[method], outdated(method, name, cells[method]), found(method, name, fresh=True))
            for method in ordered
            if "solved" in cells[method]
        ]
        left_out = [method for method in ordered if "reason" in cells[method]]
        if left_out:
            lines += ["", "Do not fit: " + ", ".join(left_out) + "."]
        lines.append("")
    return "\n".join(lines)


def row(method: str, cell: dict[str, Any], old: bool = False, again: dict[str, Any] | None = None) -> str:
    paid = sorted(step for step in cell["first_reward"] if step is not None)
    first = f"{int(np.median(paid)):,} ({len(paid)} of {len(cell['first_reward'])})" if paid else "never"
    places = "" if cell["places_visited"] is None else f"{np.mean(cell['places_visited']):.0f}"
    confirmed = interval(again["solved"], ".0%") if again else ""
    shown = f"{interval(cell['solved'], '.0%')} | {confirmed} | {interval(cell['return'], '.3g')}"
    mark = " *" if old else ""
    return f"| {method}{mark} | {METHODS[method].port} | {shown} | {first} | {places} | {cell['seconds']:.0f} s |"


def interval(found: list[float | None], spec: str) -> str:
    value, low, high = found
    return f"{value:{spec}}" + ("" if low is None else f" [{low:{spec}}, {high:{spec}}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("--problem", action="append", choices=PROBLEMS)
    parser.add_argument("--confirm", action="store_true", help="winners, once more on seeds that were never used")
    parser.add_argument("--again", action="store_true", help="also cells that have a result")
    parser.add_argument("--at-once", type=whole_number, help="cells at a time; else one for each core")
    parser.add_argument("--core", type=int, help="where one cell runs; for the processes that this one starts")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true", help="write the page only")
    arguments = parser.parse_args()
    problems = arguments.problem or [name for name in PROBLEMS if name not in EXTRA]
    cells = [(m, p) for p in problems for m in arguments.method or usual(p)]
    if arguments.confirm:
        named = (arguments.method or METHODS, arguments.problem or PROBLEMS)
        cells = [cell for cell in WINNERS if cell[0] in named[0] and cell[1] in named[1]]
    if arguments.list:
        for method, problem in cells:
            print(f"{problem:18} {method:24} {state(method, problem)}".rstrip())
        return
    if not arguments.table:
        if arguments.confirm:  # once, as of several runs one could choose
            asked_for = [cell for cell in cells if found(*cell, fresh=True) is None]
        else:
            asked_for = [cell for cell in cells if arguments.again or state(*cell) != "done"]
        if len(cells) == 1:
            if cores():  # before JAX starts its threads
                os.sched_setaffinity(0, {cores()[0] if arguments.core is None else arguments.core})
            for cell in asked_for:
                one_cell(*cell, arguments.confirm)
        else:
            each_by_itself(asked_for, arguments.at_once, "--confirm" if arguments.confirm else "--again")
    if arguments.core is None:  # or else who asked for this cell writes it, when no other cell is being written
        TABLE.write_text(table())


def state(method: str, problem: str) -> str:
    """`done`, `old` where a default has changed since, or nothing."""
    cell = found(method, problem)
    return "" if cell is None else "old" if outdated(method, problem, cell) else "done"


def cores() -> list[int]:
    """The cores that this process may use; none where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def each_by_itself(cells: list[tuple[str, str]], at_once: int | None, how: str = "--again") -> None:
    """Every cell in a process of its own, as JAX's devices are set once a process, and on a core of its own.

    A SIGTERM is passed on to them, as the terminal passes Ctrl-C: they keep what they have and end.
    """
    places = cores() or [-1]  # not looked at where the system has no word for a core
    free: SimpleQueue[int] = SimpleQueue()
    number = at_once or len(places)
    for i in range(number):
        free.put(places[i % len(places)])
    begun: list[subprocess.Popen[bytes]] = []

    def run(cell: tuple[str, str]) -> None:
        core = free.get()
        process = subprocess.Popen(command_for(*cell, core, how))
        begun.append(process)
        if process.wait() not in (0, STOPPED):
            print("{} on {} failed; the others go on.".format(*cell), flush=True)
        free.put(core)

    def stop(*_: Any) -> None:
        for process in begun:
            process.terminate()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with ThreadPoolExecutor(number) as pool:
            list(pool.map(run, cells))
    finally:
        signal.signal(signal.SIGTERM, before)


def command_for(method: str, problem: str, core: int, how: str = "--again") -> list[str]:
    """One cell in a process of its own."""
    return [sys.executable, __file__, "--method", method, "--problem", problem, how, "--core", str(core)]


def one_cell(method: str, problem: str, fresh: bool = False) -> None:
    """Here and now."""
    reason = fits(method, problem)
    cell = {"method": method, "problem": problem, "reason": reason} if reason else measure(method, problem, fresh)
    cell |= {"asked": asked(method, problem, fresh)}
    kept.put(results_of(problem, fresh), method, cell)
    shutil.rmtree(run_path(method, problem, fresh), ignore_errors=True)
    print((reason and f"{method} on {problem}: {reason}") or row(method, cell), flush=True)


if __name__ == "__main__":
    as_command(main)
