"""Results at the size that papers use: one campaign of cells, each a seed of a contestant in a row of headline_rows.py.

    python benchmarks/headline.py --list                       # cells, which are done, and their seconds
    python benchmarks/headline.py --only grpo,sac-cheetah --hours 3    # cells whose names begin so, as time allows
    python benchmarks/headline.py --hours 10                   # all that is missing, in the order of the rows
    python benchmarks/headline.py --table                      # results/headline/*.md and *.png from headline.json
    python benchmarks/headline.py --smoke --only grpo          # the same commands for seconds; writes no results

A cell ROW/TASK/CONTESTANT/SEED is trained by the command on its page, in a process of its own below .cache/headline, on
as many cores as this process has. `--hours` begins no cell that would end too late, by the seconds of its contestant's
seeds so far or an estimate. A cell that was killed is lost alone; a run of Forage's goes on from its last checkpoint.
What a cell was made from is kept with it, and a cell of other settings is trained anew. Peers' environments are made
as peers.toml says, in .cache/peers, or named: `--python trl=/path/to/bin/python`.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import json
import shlex
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cells
from headline_rows import DATA, ROWS, Arm, Row
from headline_text import CONTENT, ask_model, make_files, run_process
from run import REPOSITORY, commit, cpu_name, last_json_line, load_peers, peer_python

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "headline.json"
PAGES = HERE / "results" / "headline"
WORK = REPOSITORY / ".cache" / "headline"
MOST_POINTS = 100  # of a curve in the results
SEEDLESS = ("data",)  # commands that take --seed N in place of --seeds N,


def cell_names() -> list[str]:
    """Return all cells, row by row, and in a row seed by seed, so that contestants take turns."""
    found = []
    for row, (_, arms) in ((name, (row, row.arms)) for name, row in ROWS.items()):
        for seed in sorted({seed for arm in arms.values() for seed in arm.seeds}):
            found += [f"{row}/{name}/{seed}" for name, arm in arms.items() if seed in arm.seeds]
    return found


def parts_of(cell: str) -> tuple[Row, Arm, int]:
    """Return the row, the arm and the seed of a cell."""
    row, _, rest = cell.partition("/")
    name, _, seed = rest.rpartition("/")
    return ROWS[row], ROWS[row].arms[name], int(seed)


def forage_words(arm: Arm, seed: int, smoke: bool = False) -> list[str]:
    """Return the words behind `forage` of a cell, without its directory."""
    words = arm.words.split()
    for option, value in arm.smoke.items() if smoke else ():
        words[words.index(option) + 1] = str(value)
    return [*words, "--seed", str(seed)] if words[0] in SEEDLESS else [*words, "--seeds", f"{seed},"]


def peer_settings(arm: Arm, seed: int, smoke: bool = False) -> dict[str, Any]:
    """Return the settings of a peer's script."""
    return arm.settings | (arm.smoke if smoke else {}) | {"seed": seed, "phase": "whole"}


def command(cell: str) -> str:
    """Return the command of a cell as a person would type it."""
    _, arm, seed = parts_of(cell)
    if arm.words:
        return shlex.join(["forage", *forage_words(arm, seed)]).replace("'", "")
    settings = json.dumps(peer_settings(arm, seed))
    return f"python ../../benchmarks/peers/{arm.script} {arm.peer} '{settings}'"


def made_from(cell: str) -> str:
    """Return what stands for a cell's settings; a cell of others is trained anew."""
    _, arm, _ = parts_of(cell)
    files = [command(DATA) if arm.file else "", CONTENT if cell.startswith("grpo/") else ""]
    own = [(HERE / arm.environment).read_text()] if arm.environment else []
    return cells.fingerprint([command(cell), packages(arm.peer), *files, *own])


@functools.cache
def packages(peer: str) -> Any:
    """Return the packages of a peer's environment; none of Forage's own."""
    return load_peers()[peer].get("install") if peer else None


def is_done(results: dict[str, Any], cell: str) -> bool:
    """Return whether a cell has a result of today's settings."""
    return cell in results and results[cell]["made"] == made_from(cell)


def cost(results: dict[str, Any], cell: str) -> tuple[float, str]:
    """Return the seconds that a cell takes, and whether they are `measured` on other seeds or `estimated`."""
    arm = cell.rpartition("/")[0]
    whole = [one["whole"] for name, one in results.items() if name.rpartition("/")[0] == arm and is_done(results, name)]
    return (statistics.median(whole), "measured") if whole else (parts_of(cell)[1].seconds, "estimated")


def thin(curve: list[tuple[float, float]]) -> list[list[float]]:
    """Return at most `MOST_POINTS` points, at the last step of each: means of as many neighbours, give or take one."""
    size = -(-len(curve) // MOST_POINTS) or 1
    number = -(-len(curve) // size)
    ends = [len(curve) * part // number for part in range(number + 1)] if number else []
    groups = [curve[start:end] for start, end in itertools.pairwise(ends)]
    return [[group[-1][0], round(sum(value for _, value in group) / len(group), 4)] for group in groups]


# Training


def train(cell: str, pythons: dict[str, str], work: Path = WORK, smoke: bool = False) -> dict[str, Any]:
    """Train a cell in a process of its own, and return its result."""
    row, arm, seed = parts_of(cell)
    work.mkdir(parents=True, exist_ok=True)
    if cell.startswith("grpo/"):
        make_files(work / "grpo")
    if arm.environment:
        shutil.copy(HERE / arm.environment, work)
    if arm.file and not (work / arm.file).is_file():
        raise FileNotFoundError(f"{work / arm.file} is missing; the cell {DATA} makes it")
    place = f"runs/{cell.replace('/', '-')}-{made_from(cell)}"
    told = {"made": made_from(cell), "command": command(cell), "commit": commit(), "machine": cpu_name()}
    told |= {"date": datetime.date.today().isoformat()}
    began = time.monotonic()
    if arm.words:
        found = train_forage(row, forage_words(arm, seed, smoke), place, work)
    else:
        found = train_peer(arm, peer_settings(arm, seed, smoke) | {"output": f"{place}-model"}, row, pythons, work)
    if cell.startswith("grpo/"):  # both are asked in one way
        found |= ask_model(place if arm.words else f"{place}-model", work)
    told["whole"] = round(time.monotonic() - began, 1)
    return told | found


def train_forage(row: Row, words: list[str], place: str, work: Path) -> dict[str, Any]:
    """Run a command of Forage's, or go on with its run, and return what the run's files say."""
    from forage.runs.run import Run

    forage = [sys.executable, "-m", "forage"]
    if words[0] == "data":
        run_process([*forage, *words, "--quiet"], work)
        return read_manifest(work / words[words.index("--output") + 1])
    if Run.begun(work / place):
        run_process([*forage, "resume", place, "--quiet"], work)
    else:
        run_process([*forage, *words, "--directory", place, "--quiet"], work)
    return read_run(row, work / place)


def read_run(row: Row, directory: Path) -> dict[str, Any]:
    """Return the curves, the ends of both, the seconds and the versions of a finished run of one seed."""
    from forage.runs.curve import newest
    from forage.runs.run import Run

    run = Run(directory)
    per_step = run.config["agent"].get("num_envs", 1) if row.unit == "updates" and not row.score else 1
    points = [
        (one["steps"] / per_step, one["return"][0]) for one in run.rows if one.get("return", [None])[0] is not None
    ]
    evaluation, versions = run.evaluation, json.loads((directory / "versions.json").read_text())
    assert evaluation is not None
    found = {
        "curve": thin(points),
        "evaluations": thin([(one["steps"] / per_step, one["return"][0]) for one in run.evaluations]),
        "training": newest(run.rows, row.episodes)[0] if points else None,
        "evaluation": evaluation["return"][0],
        "episodes": evaluation["episodes"],
        "actions": evaluation["actions"],
        "seconds": round(run.rows[-1]["seconds"], 1),
    }
    kept = {name: value for name, value in versions.items() if isinstance(value, str) and name not in ("code", "date")}
    return found | {"versions": kept | installed("mujoco", "craftax", "ale-py")}


def installed(*names: str) -> dict[str, str]:
    """Return the versions of those packages that are installed beside Forage."""
    import importlib.metadata

    known = {one.metadata["Name"].lower(): one.version for one in importlib.metadata.distributions()}
    return {name: known[name] for name in names if name in known}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what a manifest of data sets says of its ends, its policies and its sets."""
    told = json.loads((folder / "manifest.json").read_text())
    versions = {name: value for name, value in told["versions"].items() if isinstance(value, str) and name != "code"}
    kept = ("transitions", "normalised", "sha256")
    sets = {name: {key: one[key] for key in kept if key in one} for name, one in told["sets"].items()}
    return {"ends": told["ends"], "sets": sets, "versions": versions | installed("mujoco")}


def train_peer(arm: Arm, settings: dict[str, Any], row: Row, pythons: dict[str, str], work: Path) -> dict[str, Any]:
    """Run a peer's script, and return its result as Forage's are."""
    python = pythons.get(arm.peer) or peer_python(arm.peer, load_peers()[arm.peer], REPOSITORY / ".cache" / "peers")
    words = [python, str(HERE.resolve() / "peers" / arm.script), arm.peer, json.dumps(settings)]
    told = last_json_line(run_process(words, work))
    found = {"curve": thin(told["curve"]), "evaluations": told.get("evaluations", []), "versions": told["versions"]}
    found |= {"seconds": round(told["seconds"], 1), "episodes": settings.get("episodes")}
    points = told["curve"][-row.points :]
    found["training"] = statistics.mean(value for _, value in points) if points else None
    return found | ({} if arm.peer == "trl" else {"evaluation": told["evaluation"]})  # TRL's model is asked afterwards


def record_random(path: Path, episodes: int = 2) -> None:
    """Write a data set of random actions in HalfCheetah, which a smoke learns from."""
    import gymnasium
    import numpy as np

    from forage.config.resolve import resolve
    from forage.data import files
    from forage.data.logged import Transitions

    environment, steps = gymnasium.make("HalfCheetah-v5"), []
    for episode in range(episodes):
        observation, over = environment.reset(seed=episode)[0], False
        while not over:
            action = environment.action_space.sample()
            following, reward, terminated, truncated, _ = environment.step(action)
            steps.append((observation, action, reward, following, terminated, truncated))
            observation, over = following, terminated or truncated
    columns = [np.array(column) for column in zip(*steps, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    spec = resolve("sac", "gymnasium:HalfCheetah-v5", seeds=1).config()["spec"]
    files.write_data(path, Transitions(*columns), {"spec": spec})


# The command


def work_through(wanted: list[str], pythons: dict[str, str], hours: float | None) -> bool:
    """Train what is missing, one cell after another, as far as the hours go. Return whether none failed."""
    began, whole = time.monotonic(), True
    for cell in wanted:
        results = cells.read(RESULTS)
        if is_done(results, cell):
            continue
        needs, how = cost(results, cell)
        if hours is not None and time.monotonic() - began + needs > hours * 3600:
            print(f"{cell}: not begun, its {needs:.0f} s ({how}) would end after {hours:g} hours", flush=True)
            continue
        try:
            found = train(cell, pythons)
        except Exception as error:  # whatever it was, other cells go on
            print(f"{cell} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            whole = False
            continue
        cells.put(RESULTS, cell, found)
        print(f"{cell}: {found['whole']:.0f} s", flush=True)
    return whole


def describe(results: dict[str, Any], wanted: list[str]) -> list[str]:
    """Return a line about each cell: done or not, and its seconds; and the sum of what is left."""
    lines, left = [], 0.0
    for cell in wanted:
        done, (needs, how) = is_done(results, cell), cost(results, cell)
        optional = parts_of(cell)[1].optional and not done
        seconds = (
            f"{results[cell]['whole']:7.0f} s"
            if done
            else f"{needs:7.0f} s {how}{', only by name' if optional else ''}"
        )
        left += 0 if done or optional else needs
        lines.append(f"{cell:52} {'done' if done else '    '} {seconds}")
    return [*lines, f"{left / 3600:.1f} hours of one core are left."]


def choose_cells(only: str) -> list[str]:
    """Return the cells that `--only` names, those that are only started by name where it has the whole name."""
    names = only.split(",")
    return [cell for cell in cells.chosen(cell_names(), only) if not parts_of(cell)[1].optional or cell in names]


def main() -> None:
    """Read the arguments, and train, list or make the pages."""
    parser = cells.parser(__doc__)
    parser.add_argument("--hours", type=float, help="begin no cell that would end later than so many hours from now")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH", help="a peer's Python")
    parser.add_argument(
        "--smoke", action="store_true", help="the first seed of each contestant, tiny, in a folder apart"
    )
    arguments = parser.parse_args()
    pythons = dict(one.split("=", 1) for one in arguments.python)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Stopped by SIGTERM; the same command goes on."))
    if arguments.here:
        print(json.dumps(train(arguments.here, pythons)), flush=True)
    elif arguments.list:
        print(*describe(cells.read(RESULTS), cells.chosen(cell_names(), arguments.only)), sep="\n")
    elif arguments.smoke:
        with tempfile.TemporaryDirectory() as folder:
            for cell in choose_cells(arguments.only):
                _, arm, seed = parts_of(cell)
                if arm.too_long or seed != arm.seeds[0]:
                    continue
                if arm.file:
                    record_random(Path(folder) / arm.file)
                found = train(cell, pythons, Path(folder), smoke=True)
                print(cell, {name: found.get(name) for name in ("whole", "evaluation", "training")}, flush=True)
    else:
        whole = arguments.table or work_through(choose_cells(arguments.only), pythons, arguments.hours)
        from headline_pages import write_pages

        write_pages(cells.read(RESULTS), PAGES)
        sys.exit(0 if whole else 1)


if __name__ == "__main__":
    main()
