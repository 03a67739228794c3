"""Tries Forage on every Python here with the oldest and the newest JAX that `pyproject.toml` allows.

`python benchmarks/versions.py` makes an environment for each pair in a temporary directory, runs `make train` and a
small run of every command there, then small runs that differ in what is compiled, and writes
`docs/evidence/versions.md`; rows that were not asked for stay. With `--programs` it is those runs alone. With
`--newest` it trains, resumes and evaluates with the newest of both alone, compiles all programs, and writes nothing. It
needs Python and pip, and finds Pythons on the path and pyenv's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "evidence" / "versions.md"
RESULTS = ROOT / "benchmarks" / "results" / "versions.json"
COMPILED = ROOT / "benchmarks" / "results" / "programs.json"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.11", "3.12", "3.13")

SMALL = "--steps 4k --seeds 2 --evaluation-episodes 4"
PPO = "--num-envs 4 --rollout-length 16"
COMMANDS = {
    "train": f"train ppo CartPole-v1 {SMALL} {PPO} --directory run",
    "resume": "resume run",
    "evaluate": "evaluate run --episodes 4",
    "train dqn": f"train dqn CartPole-v1 {SMALL} --directory dqn",
    "train sac": "train sac Pendulum-v1 --steps 1500 --seeds 1 --evaluation-episodes 2 --directory sac",
    "train on the host": f"train ppo gymnasium:CartPole-v1 {SMALL} {PPO} --directory host",
    "watch": "watch run --output film.gif --steps 20",
    "compare": "compare run dqn --output both.png",
    "report": "report run --output page.html",
    "list": "list",
    "show": "show ppo",
    "claim": "claim recurrence --scale smoke --directory claim",
    "tune": f"tune ppo CartPole-v1 --over learning_rate=1e-4:1e-2:log --trials 2 --batch 2 --tuning-seeds 0,1 "
    f"--seeds 5,6 --steps 2k {PPO} --directory tune",
}
QUICK = ("train", "resume", "evaluate")

PLAYED = f"{ROOT}/benchmarks/programs.py"
SHORT = "--steps 300 --seeds 1 --evaluation-episodes 2 --quiet"
REPLAY = "--learning-starts 64 --batch-size 16"
PROGRAMS = {
    "ppo, one continuous action": f"train ppo {PLAYED}:OneAction --num-envs 8 {SHORT}",
    "ppo, one, small minibatches": f"train ppo {PLAYED}:OneAction {PPO} --minibatches 8 {SHORT}",
    "ppo, one, a memory": f"train ppo {PLAYED}:OneAction {PPO} --minibatches 2 --gru-size 8 {SHORT}",
    "a2c, one continuous action": f"train a2c {PLAYED}:OneAction --num-envs 8 {SHORT}",
    "ppo, one in two axes": f"train ppo {PLAYED}:NestedAction {PPO} {SHORT}",
    "ppo, two continuous actions": f"train ppo {PLAYED}:TwoActions {PPO} {SHORT}",
    "ppo, 17 continuous actions": f"train ppo {PLAYED}:ManyActions {PPO} {SHORT}",
    "ppo, two choices at each step": f"train ppo {PLAYED}:Choices {PPO} {SHORT}",
    "ppo, masked choices": f"train ppo {PLAYED}:Masked {PPO} {SHORT}",
    "ppo, a Dict with a picture": f"train ppo {PLAYED}:Picture {PPO} {SHORT}",
    "sac, one continuous action": f"train sac {PLAYED}:OneAction {REPLAY} {SHORT}",
    "dqn, choices, a memory": "train dqn gymnasium:CartPole-v1 --gru-size 8 --burn-in 2 --unroll 4 --num-envs 2 "
    f"--learning-starts 64 --batch-size 16 {SHORT}",
    "ppo in JAX, one continuous action": f"train ppo Pendulum-v1 {PPO} {SHORT} --directory expert",
    "ppo in JAX, choices, a memory": f"train ppo CartPole-v1 --gru-size 8 --minibatches 2 {PPO} {SHORT}",
    "sac in JAX, one continuous action": f"train sac Pendulum-v1 {REPLAY} {SHORT}",
    "open-es in JAX": f"train open-es CartPole-v1 {SHORT}",
    "record data": "data record expert --steps 500 --output data.npz",
    "iql from data": f"train iql Pendulum-v1 --data data.npz {SHORT}",
    "grpo on text": "train grpo text:addition --num-envs 16 --steps 16 --seeds 1 --evaluation-episodes 2 --quiet",
}
"""Small runs that differ in what is compiled; those that are not in JAX have their environment on the host."""

LIMIT = 60  # seconds to compile one program, after which Forage says so and this fails
MOST = 600  # seconds of such a run in all

TIMED = """
import sys, jax.monitoring
from forage.cli.entry import main
longest = 0.0
def hear(event, seconds, **_):
    global longest
    if event == "/jax/core/compile/backend_compile_duration":
        longest = max(longest, seconds)
jax.monitoring.register_event_duration_secs_listener(hear)
try:
    main(sys.argv[1:])
finally:
    print(f"longest {longest:.2f}", flush=True)
"""


class Failed(Exception):
    """A step ended with an error, whose last line this is."""


class Trial(NamedTuple):
    """What came of one Python with one JAX: a row of the table."""

    python: str
    asked: str
    jax: str
    others: str
    trained: str
    commands: dict[str, str]


def run(*words: object, cwd: Path, **more: str) -> str:
    """Run a command to its end and return what it said."""
    # What this environment says of JAX is about another one.
    inherited = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "XLA_FLAGS", "VIRTUAL_ENV")}
    done = subprocess.run([*map(str, words)], cwd=cwd, env=inherited | more, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise Failed(said[-1])
    return done.stdout


def find(python: str) -> str | None:
    """Return the command of a Python such as 3.12, or `None` where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    patches = sorted(pyenv.glob(f"{python}.*/bin/python"), key=lambda p: [*map(int, re.findall(r"\d+", p.parts[-3]))])
    for candidate in (shutil.which(f"python{python}"), *map(str, reversed(patches))):
        # pyenv puts commands on the path that do not start.
        if candidate and not subprocess.run([candidate, "-c", ""], capture_output=True).returncode:
            return candidate
    return None


def oldest() -> list[str]:
    """Return pip's words for the oldest JAX that the project allows."""
    (bound,) = (re.search(r">=([\d.]+)", d) for d in PROJECT["dependencies"] if re.match(r"jax\W", d))
    assert bound is not None
    return [f"{name}=={bound[1]}" for name in ("jax", "jaxlib")]


def install(python: str, pins: list[str], place: Path) -> Path:
    """Make an environment with Forage and return its folder of commands."""
    run(python, "-m", "venv", place, cwd=ROOT)
    commands = place / "bin"
    pip = [commands / "python", "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    run(*pip, "--editable", f"{ROOT}[tune]", *pins, cwd=ROOT)
    (place / "installed").touch()  # what `make train` looks for
    return commands


def tell(commands: Path, *names: str) -> str:
    """Return the versions of packages in an environment."""
    code = f"from importlib.metadata import version; print(*map(version, {[*names]!r}), sep=', ')"
    return run(commands / "python", "-c", code, cwd=ROOT).strip()


def compile_within(commands: Path, words: str, place: Path) -> float:
    """Run a command of Forage, and return how many seconds its slowest program took to compile.

    Raise `Failed` where one takes longer than a minute, after which Forage says so.
    """
    inherited = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "XLA_FLAGS", "VIRTUAL_ENV")}
    with subprocess.Popen(
        [commands / "python", "-c", TIMED, *words.split()],
        cwd=place,
        env=inherited | {"XDG_CACHE_HOME": str(place / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        late = threading.Timer(MOST, process.kill)
        late.start()
        said: list[str] = []
        try:
            for line in process.stderr:
                said.append(line.strip())
                if line.startswith("Compiling "):
                    process.kill()
                    raise Failed(f"{line.split()[1]} is not compiled after {LIMIT} s")
            found = re.findall(r"longest ([\d.]+)", process.stdout.read())
        finally:
            late.cancel()
    if process.returncode or not found:
        raise Failed(next(reversed([line for line in said if line]), f"exit code {process.returncode}"))
    if float(found[-1]) > LIMIT:
        raise Failed(f"a program took {found[-1]} s to compile")
    return float(found[-1])


def compile_all(commands: Path, place: Path) -> dict[str, str]:
    """Compile all programs, and return what came of each: the seconds of its slowest, or why it failed."""
    place.mkdir()
    found = {}
    for name, words in PROGRAMS.items():
        try:
            found[name] = f"{compile_within(commands, words, place):.1f} s"
        except Failed as failed:
            found[name] = f"fails: {failed}"
        print(f"  {name}: {found[name]}", flush=True)
    return found


def smoke(commands: Path, names: tuple[str, ...], place: Path) -> dict[str, str]:
    """Run commands of Forage in an empty folder, and return what came of each."""
    place.mkdir()
    found = {}
    for name in names:
        try:
            run(commands / "forage", *COMMANDS[name].split(), cwd=place, XDG_CACHE_HOME=str(place / "cache"))
        except Failed as failed:
            found[name] = f"fails: {failed}"
        else:
            found[name] = "ok"
        print(f"  {name}: {found[name]}", flush=True)
    return found


def attempt(python: str, asked: str, place: Path) -> Trial:
    """Try one Python with one JAX."""
    command = find(python)
    if command is None:
        return Trial(python, asked, "-", "-", "no such Python here", {})
    try:
        commands = install(command, oldest() if asked == "oldest" else [], place / "environment")
    except Failed as failed:
        return Trial(python, asked, "-", "-", f"does not install: {failed}", {})
    versions = tell(commands, "jax", "jaxlib"), tell(commands, "numpy", "gymnasium", "equinox", "optax")
    print(f"Python {python}, jax and jaxlib {versions[0]}", flush=True)
    began = time.monotonic()
    try:
        cache = str(place / "cache")
        said = run("make", "train", f"VENV={commands.parent}", f"PYTHON={command}", cwd=ROOT, XDG_CACHE_HOME=cache)
        (score,) = re.findall(r"return (.+)", said)[-1:] or ["?"]
        trained = f"{score.strip()}; {time.monotonic() - began:.0f} s"
    except Failed as failed:
        trained = f"fails: {failed}"
    print(f"  make train: {trained}", flush=True)
    return Trial(python, asked, *versions, trained, smoke(commands, tuple(COMMANDS), place / "runs"))


def table(trials: list[Trial]) -> str:
    """Return the page of what was tried."""
    rows = [
        "# Versions that were tried",
        "",
        "`python benchmarks/versions.py` wrote this page: `make train` (five seeds of PPO on CartPole-v1; the seconds "
        "are "
        "those of a shared machine), and a small run of every command, in new environments with the oldest and the "
        "newest "
        "JAX that `pyproject.toml` allows and pip finds for each Python. `make newest` repeats training, resuming and "
        "evaluating on the newest Python with every change, and compiles the programs below.",
        "",
        "| Python | jax, jaxlib | numpy, gymnasium, equinox, optax | `make train` | commands |",
        "|---|---|---|---|---|",
    ]
    for t in trials:
        bad = [f"{name} {what}" for name, what in t.commands.items() if what != "ok"]
        good = f"{len(t.commands) - len(bad)} of {len(t.commands)}" if t.commands else "-"
        rows.append(f"| {t.python} | {t.jax} ({t.asked}) | {t.others} | {t.trained} | {'; '.join([good, *bad])} |")
    rows += programs_table()
    rows += [
        "",
        "The commands:",
        "",
        *(f"- {name}: `forage {words.replace(f'{ROOT}/', '')}`" for name, words in COMMANDS.items()),
        "",
        "The programs:",
        "",
        *(f"- {name}: `forage {words.replace(f'{ROOT}/', '')}`" for name, words in PROGRAMS.items()),
        "",
    ]
    return "\n".join(rows)


def programs_table() -> list[str]:
    """Return the lines of what was compiled: a row for each program, a column for each version."""
    found = json.loads(COMPILED.read_text()) if COMPILED.exists() else {}
    if not found:
        return []
    lines = [
        "",
        "## Programs",
        "",
        "The seconds that the slowest program of a small run took to compile, on a shared machine. More than "
        f"{LIMIT} fail, here and in `make newest`, which compiles all of them with every change. What is not in JAX "
        "has its environment on the host.",
        "",
        f"| Program | {' | '.join(found)} |",
        f"|---{'|---' * len(found)}|",
    ]
    for name in PROGRAMS:
        lines.append(f"| {name} | {' | '.join(column.get(name, '-') for column in found.values())} |")
    return lines


def record(trial: Trial | None = None) -> None:
    """Write a row of the table over the one of the same Python and JAX, and the page."""
    rows = [Trial(*row) for row in json.loads(RESULTS.read_text())] if RESULTS.exists() else []
    if trial is not None:
        rows = [*(row for row in rows if (row.python, row.asked) != (trial.python, trial.asked)), trial]
    rows = sorted(rows, key=lambda row: (row.python, row.asked != "oldest"))
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    TABLE.write_text(table(rows))


def record_compiled(python: str, version: str, found: dict[str, str]) -> None:
    """Write what one Python and JAX compiled into its column of the page."""
    columns = json.loads(COMPILED.read_text()) if COMPILED.exists() else {}
    columns[f"Python {python}, jax {version}"] = found
    COMPILED.write_text(json.dumps(dict(sorted(columns.items())), indent=1) + "\n")
    record()


def compile_with(python: str, asked: str, place: Path) -> bool:
    """Compile all programs with one Python and one JAX, and return whether they did."""
    command = find(python)
    if command is None:
        print(f"There is no Python {python} here.")
        return False
    commands = install(command, oldest() if asked == "oldest" else [], place / "environment")
    version = tell(commands, "jax")
    print(f"Python {python}, jax {version}", flush=True)
    found = compile_all(commands, place / "programs")
    record_compiled(python, version, found)
    return not any("fails" in what for what in found.values())


def newest() -> int:
    """Train, resume, evaluate and compile all programs with the newest Python here and the newest JAX.

    Return the exit code.
    """
    found = {python: command for python in PYTHONS if (command := find(python))}
    python = max(found, key=PYTHONS.index, default=None)
    if python is None or python == PYTHONS[0]:
        print(f"There is no Python newer than {PYTHONS[0]} here: nothing is tried on one.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        commands = install(found[python], [], place / "environment")
        print(f"Python {python}, jax {tell(commands, 'jax')}", flush=True)
        results = smoke(commands, QUICK, place / "runs")
        compiled = compile_all(commands, place / "programs")
    return int(any(what != "ok" for what in results.values()) or any("fails" in what for what in compiled.values()))


def main() -> int:
    """Try one pair or all of them, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--newest", action="store_true", help="only the newest Python and JAX; no table")
    parser.add_argument("--programs", action="store_true", help="only compile the programs")
    parser.add_argument("--pythons", default=",".join(PYTHONS), help="which Pythons to try")
    parser.add_argument("--jax", default="oldest,newest", help="which of both to try")
    arguments = parser.parse_args()
    if arguments.newest:
        return newest()
    sound = True
    for python in arguments.pythons.split(","):
        for asked in arguments.jax.split(","):
            with tempfile.TemporaryDirectory() as folder:
                sound &= compile_with(python, asked, Path(folder))
            if arguments.programs:
                continue
            with tempfile.TemporaryDirectory() as folder:
                trial = attempt(python, asked, Path(folder))
            record(trial)
            sound &= bool(trial.commands) and "fails" not in str(trial)
    return int(not sound)


if __name__ == "__main__":
    sys.exit(main())
