"""How long the command line takes to answer: help of every command, `forage list`, completion, `show` and the import;
and how long a whole run takes beside rejax's script.

    python benchmarks/startup.py            medians of seconds of processor time; writes results/STARTUP.md
    python benchmarks/startup.py --train    whole runs, three of each in turns; six minutes of two idle cores
    python benchmarks/startup.py --phases   one of each, with the seconds of tracing and compiling; eight minutes
    python benchmarks/startup.py --smoke    a look at whether it works

Every command is a process of its own, and all take turns. Processor time counts, as other programs on the machine
change it less than the time on the clock, which stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import run
from rows import ROWS

from forage.cli.entry import COMMANDS

TABLE = Path(__file__).parent / "results" / "STARTUP.md"
FORAGE = [sys.executable, "-m", "forage"]
QUICK = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import forage": [sys.executable, "-c", "import forage"],
    "forage --help": [*FORAGE, "--help"],
    **{f"forage {name} --help": [*FORAGE, name, "--help"] for name in COMMANDS},
    "forage list": [*FORAGE, "list"],
    "completion of forage show": [*FORAGE, "completion", "--line", "forage show "],
    "forage train ppo --help": [*FORAGE, "train", "ppo", "--help"],
    "forage train ppo CartPole-v1 --help": [*FORAGE, "train", "ppo", "CartPole-v1", "--help"],
    "forage show ppo": [*FORAGE, "show", "ppo"],
    "forage show sac": [*FORAGE, "show", "sac"],
}


def seconds(command: list[str], env: dict[str, str] | None = None) -> tuple[float, float]:
    """Run a command to its end. Return the seconds of processor time that it took, and those on the clock."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)
    clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock


def measure(rounds: dict[str, int]) -> dict[str, np.ndarray]:
    """Return the median seconds, of processor time and on the clock, of each command in so many rounds."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in rounds}
    for turn in range(max(rounds.values())):
        for name, wanted in rounds.items():
            if turn < wanted:
                found[name].append(seconds(QUICK[name]))
    return {name: np.median(times, axis=0) for name, times in found.items()}


def page(found: dict[str, np.ndarray]) -> str:
    """Write the table."""
    lines = [
        "# How long the command line takes to answer",
        "",
        f"Medians of seconds; {platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; `python benchmarks/startup.py` makes them again.",
        "",
        "| what | processor time | on the clock |",
        "|---|---|---|",
        *(f"| `{name}` | {used:.2f} | {clock:.2f} |" for name, (used, clock) in found.items()),
    ]
    return "\n".join(lines) + "\n"


ROW = "ppo-cartpole"
EQUAL = "--num-envs 4 --rollout-length 128 --epochs 4 --minibatches 4 --learning-rate 2.5e-4 --clip-value true"
"""Options that give a command the settings of the row; its other ones are PPO's own."""
WHOLE = "\n## A whole run\n"


def trainers(cache: Path) -> dict[str, list[str]]:
    """Return the commands that train, by name."""
    train = [*FORAGE, "train", "ppo", "CartPole-v1", "--seeds", "1", "--quiet"]
    row, peers = ROWS[ROW], run.load_peers()
    rejax = next(contestant for contestant in row.contestants if contestant.peer == "rejax")
    settings = json.dumps(run.settings_of(row, rejax, False) | {"phase": "whole", "seed": 0})
    script = [run.peer_python("rejax", peers["rejax"], cache), str(run.HERE / "peers" / "rejax_.py"), ROW, settings]
    return {
        "forage, its preset": [*train, "--steps", "500k"],
        "forage, rejax's settings": [*train, *EQUAL.split(), "--steps", str(row.settings["steps"])],
        "forage, its preset, to 475": [*train, "--steps", "500k", "--stop-at", "475", "--evaluation-every", "25k"],
        "rejax": script,
    }


def measure_training(repeats: int, cache: Path) -> dict[str, dict[str, np.ndarray]]:
    """Return the medians of seconds of processor and clock of each trainer, with and without compiled programs."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with tempfile.TemporaryDirectory(prefix="startup-") as scratch:
        commands = trainers(cache)
        for repeat in range(repeats):
            for phase in ("cold", "warm"):
                for number, (name, command) in enumerate(commands.items()):
                    compiled = Path(scratch) / f"compiled-{repeat}-{number}"
                    compiled.mkdir(exist_ok=True)
                    directory = ["--directory", f"{scratch}/{phase}-{repeat}-{number}"] if name != "rejax" else []
                    took = seconds([*command, *directory], env=run.child_environment(compiled))
                    found.setdefault(name, {}).setdefault(phase, []).append(took)
                    print(f"{phase} {name}: {took[0]:.1f} s of processor, {took[1]:.1f} s", flush=True)
    return {name: {phase: np.median(times, axis=0) for phase, times in each.items()} for name, each in found.items()}


def training_page(found: dict[str, dict[str, np.ndarray]], repeats: int) -> str:
    """Write the table of whole runs."""
    theirs = found["rejax"]
    lines = [
        WHOLE,
        "PPO on CartPole-v1 for 500,000 steps, one seed, from the start of the process to its end, with an empty cache",
        f"of programs (cold) and with what that run left there (warm); medians of {repeats}, in turns. rejax's script",
        "trains and evaluates; Forage's command also draws, saves and describes its run. *To 475*: it ends at the",
        "first evaluation, every 25,000 steps, that reaches this return. A ratio is rejax's seconds on the clock over",
        "Forage's.",
        "`python benchmarks/startup.py --train` makes the table again.",
        "",
        "| what | cold: processor | clock | ratio | warm: processor | clock | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, phases in found.items():
        cells = []
        for phase, (used, clock) in phases.items():
            cells += [f"{used:.1f}", f"{clock:.1f}", f"{theirs[phase][1] / clock:.2f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


PHASES = "\n## The phases of a run\n"


def phased_commands(cache: Path) -> dict[str, list[str]]:
    """Return the commands whose phases are measured, by name: those that train PPO, DQN, and SAC beside SBX."""
    row = ROWS["sac-halfcheetah"]
    sbx = next(contestant for contestant in row.contestants if contestant.peer == "sbx")
    settings = json.dumps(run.settings_of(row, sbx, False) | {"steps": 10_000, "phase": "whole", "seed": 0})
    python, script = run.peer_python("sbx", run.load_peers()["sbx"], cache), str(run.HERE / "peers" / "sbx_.py")
    one = ["--seeds", "1", "--quiet"]
    return trainers(cache) | {
        "forage, DQN, CartPole-v1, 20k": [*FORAGE, "train", "dqn", "CartPole-v1", "--steps", "20k", *one],
        "forage, SAC, HalfCheetah-v5, 10k": [*FORAGE, "train", "sac", HALF_CHEETAH, *AS_SBX, *one],
        "sbx, SAC, HalfCheetah-v5, 10k": [python, script, "sac-halfcheetah", settings],
    }


HALF_CHEETAH = "gymnasium:HalfCheetah-v5"
AS_SBX = ["--steps", "10k", "--learning-starts", "1000", "--evaluation-episodes", "3", "--evaluation-actions", "greedy"]


def measure_phases(cache: Path, only: str) -> dict[str, dict[str, Any]]:
    """Return what `phases.py` measures of each command whose name has `only` in it, cold and warm."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="phases-") as scratch:
        for number, (name, command) in enumerate(phased_commands(cache).items()):
            for phase in ("cold", "warm") if only in name else ():
                compiled, output = Path(scratch) / f"compiled-{number}", Path(scratch) / "phases.json"
                compiled.mkdir(exist_ok=True)
                python, *rest = command
                directory = ["--directory", f"{scratch}/{phase}-{number}"] if name.startswith("forage") else []
                wrapped = [python, str(run.HERE / "phases.py"), str(output), *rest, *directory]
                subprocess.run(wrapped, check=True, stdout=subprocess.DEVNULL, env=run.child_environment(compiled))
                found[f"{name}, {phase}"] = json.loads(output.read_text())
                print(*phase_rows({f"{name}, {phase}": found[f"{name}, {phase}"]}), sep="\n", flush=True)
    return found


def phase_rows(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return a row of the table for each command."""
    lines = []
    for name, told in found.items():
        phases = told["phases"]
        numbers = [told["clock"], told["processor"], told["import jax"], *phases.values(), told["alone"]]
        seconds = {program: sum(times.values()) for program, times in told["programs"].items()}
        longest = sorted(seconds, key=lambda program: -seconds[program])[:3]
        shown = ", ".join(f"{program} {seconds[program]:.1f}" for program in longest if seconds[program] >= 0.1)
        lines.append(f"| {name} | {' | '.join(f'{number:.1f}' for number in numbers)} | {shown} |")
    return lines


def phases_page(found: dict[str, dict[str, Any]]) -> str:
    """Write the table of phases."""
    lines = [
        PHASES,
        "Seconds of one run of each command, as JAX reports them; *cold* with an empty cache of programs, *warm* with",
        "what that run left. Programs compile in several threads, so that phases may take more than the clock; *alone*",
        "is the clock's time after `import jax` in which no program was traced, lowered or compiled: other imports,",
        "the run itself, evaluation, pictures and files. The last column has the seconds of the longest programs.",
        "`python benchmarks/startup.py --phases` makes the table again.",
        "",
        "| what | clock | processor | import jax | trace | lower | compile | alone | programs |",
        "|---|---|---|---|---|---|---|---|---|",
        *phase_rows(found),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="two commands, once; writes nothing")
    parser.add_argument("--train", action="store_true", help="whole runs beside rejax's script")
    parser.add_argument("--phases", action="store_true", help="seconds of each phase of whole runs")
    parser.add_argument("--only", default="", help="phases of commands with this in their name; writes nothing")
    parser.add_argument("--repeats", type=int, default=3, help="of each whole run")
    parser.add_argument("--cache", type=Path, default=Path(".cache/peers"), help="folder of peers' environments")
    given = parser.parse_args()
    before, whole, phases = sections(TABLE.read_text() if TABLE.exists() else "")
    cache = given.cache.absolute()
    if given.smoke:
        before = page(measure({"import forage": 1, "forage --help": 1}))
    elif given.phases:
        phases = phases_page(measure_phases(cache, given.only))
    elif given.train:
        whole = training_page(measure_training(given.repeats, cache), given.repeats)
    else:
        before = page(measure(dict.fromkeys(QUICK, 3)))
    print(before + whole + phases)
    if not (given.smoke or given.only):
        TABLE.write_text(before + whole + phases)


def sections(text: str) -> tuple[str, str, str]:
    """Return the page's sections: the answers of commands, whole runs, and phases."""
    before, heading, phases = text.partition(PHASES)
    phases = heading + phases
    before, heading, whole = before.partition(WHOLE)
    return before, heading + whole, phases


if __name__ == "__main__":
    main()
