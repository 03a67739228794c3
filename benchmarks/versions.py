"""Tries Forage on every Python here with the oldest and the newest JAX that `pyproject.toml` allows.

`python benchmarks/versions.py` makes an environment for each pair in a temporary directory, runs `make train` and a
small run of every command there, and writes `docs/versions.md`; rows that were not asked for stay. With `--newest` it
trains, resumes, evaluates and trains on the host with the newest of both alone, and writes nothing. It needs Python
and pip, and finds Pythons on the path and pyenv's.
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
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "versions.md"
RESULTS = ROOT / "benchmarks" / "results" / "versions.json"
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
    "ledger": f"ledger --file {ROOT}/benchmarks/ledger.json",
}
QUICK = ("train", "resume", "evaluate", "train on the host")


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
        "evaluating on the newest Python with every change.",
        "",
        "| Python | jax, jaxlib | numpy, gymnasium, equinox, optax | `make train` | commands |",
        "|---|---|---|---|---|",
    ]
    for t in trials:
        bad = [f"{name} {what}" for name, what in t.commands.items() if what != "ok"]
        good = f"{len(t.commands) - len(bad)} of {len(t.commands)}" if t.commands else "-"
        rows.append(f"| {t.python} | {t.jax} ({t.asked}) | {t.others} | {t.trained} | {'; '.join([good, *bad])} |")
    rows += [
        "",
        "The commands:",
        "",
        *(f"- {name}: `forage {words.replace(f'{ROOT}/', '')}`" for name, words in COMMANDS.items()),
        "",
    ]
    return "\n".join(rows)


def record(trial: Trial) -> None:
    """Write a row of the table over the one of the same Python and JAX."""
    rows = [Trial(*row) for row in json.loads(RESULTS.read_text())] if RESULTS.exists() else []
    rows = [row for row in rows if (row.python, row.asked) != (trial.python, trial.asked)]
    rows = sorted([*rows, trial], key=lambda row: (row.python, row.asked != "oldest"))
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    TABLE.write_text(table(rows))


def newest() -> int:
    """Train, resume and evaluate on the newest Python here with the newest JAX, and return the exit code."""
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
    return int(any(what != "ok" for what in results.values()))


def main() -> int:
    """Try one pair or all of them, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--newest", action="store_true", help="only the newest Python and JAX; no table")
    parser.add_argument("--pythons", default=",".join(PYTHONS), help="which Pythons to try")
    parser.add_argument("--jax", default="oldest,newest", help="which of both to try")
    arguments = parser.parse_args()
    if arguments.newest:
        return newest()
    sound = True
    for python in arguments.pythons.split(","):
        for asked in arguments.jax.split(","):
            with tempfile.TemporaryDirectory() as folder:
                trial = attempt(python, asked, Path(folder))
            record(trial)
            sound &= bool(trial.commands) and "fails" not in str(trial)
    return int(not sound)


if __name__ == "__main__":
    sys.exit(main())
