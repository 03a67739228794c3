"""Writes docs/evidence/parity.md: how near Forage's environments are to the originals, measured now.

python docs/make/parity.py                 every family whose reference is installed; others stay as they are
python docs/make/parity.py classic grid    only these families

The comparisons are the tests' own; this runs them and prints what they found. Takes about ten minutes for all.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "parity.md"
TESTS = ROOT / "tests" / "environments"
sys.path[:0] = [str(TESTS.parent), str(TESTS)]


class Line(NamedTuple):
    environment: str
    reference: str
    steps: int
    found: dict[str, float]  # the largest difference of each part
    test: str


def classic() -> Iterator[Line]:
    from beside import differences
    from test_classic import PAIRS, beside, transitions

    for name, pair in PAIRS.items():
        found = differences(beside(name)) | {"states in float64": differences(beside(name, True))["states"]}
        yield Line(pair.id, version("gymnasium"), len(transitions(name)[0]), found, "test_classic.py")


def minatar() -> Iterator[Line]:
    from beside import differences
    from test_minatar import CASES, GAMES, episodes_beside, steps_beside

    for game, kind in GAMES.items():
        played = [
            play(name, ramping) for name, ramping in CASES if name == game for play in (steps_beside, episodes_beside)
        ]
        found: dict[str, float] = {}
        for part, far in (pair for _, beside in played for pair in differences(beside).items()):
            found[part] = max(found.get(part, 0.0), far)
        steps = sum(len(recording.reward) for recording, _ in played)
        yield Line(f"minatar:{kind.__name__}", version("MinAtar"), steps, found, "test_minatar.py")


def grid() -> Iterator[Line]:
    from beside import differences
    from test_grid import CASES, beside

    for name in CASES:
        played, found = beside(name)
        yield Line(f"grid:{name}", version("minigrid"), len(played["reward"]), differences(found), "test_grid.py")


def published() -> Iterator[Line]:
    from beside import differences
    from test_published import CASES

    from forage.environments import make

    for name, (package, play) in CASES.items():
        if importlib.util.find_spec(package) is None:
            continue
        played, found = play(make(name.partition(" ")[0]))
        steps = sum(len(episode.rewards) for episode in played)
        yield Line(name, version(package.replace("_", "-")), steps, differences(found), "test_published.py")


def tables() -> Iterator[Line]:
    from beside import differences
    from test_tabular import LAKES, lake_beside

    for size, slippery in LAKES:
        name, found = f"tabular:FrozenLake-{size}{'' if slippery else ' slip=0'}", lake_beside(size, slippery)
        steps = found["rewards"][0].size
        yield Line(name, version("gymnasium"), steps, differences(found), "test_tabular.py")


def motion() -> Iterator[Line]:
    from beside import differences
    from test_maze import motion_beside

    found = motion_beside()
    steps = len(found["positions and velocities"][0])
    yield Line("maze:Open, the ball where it is free", version("mujoco"), steps, differences(found), "test_maze.py")


FAMILIES: dict[str, tuple[str, Callable[[], Iterator[Line]]]] = {
    "classic": ("gymnasium", classic),
    "minatar": ("minatar", minatar),
    "grid": ("minigrid", grid),
    "published": ("forage", published),
    "tabular": ("gymnasium", tables),
    "maze": ("mujoco", motion),
}

BY_HAND = [
    ("tabular:Chain-5", "the optimum that Strens (2000) prints", "test_tabular.py", "chain_pays"),
    ("tabular:GridWorld-3x4", "the utilities that Russell and Norvig print", "test_tabular.py", "russell"),
    ("tabular:RiverSwim-6", "the stationary shares of a birth-death chain, a formula", "test_tabular.py", "river"),
    (
        "maze: walls",
        "slides worked out by hand; the ball never inside a wall",
        "test_maze.py",
        "sliding or never_enters",
    ),
    ("memory:TMaze-*", "the best returns with and without memory, a formula", "test_memory_probes.py", "tmaze"),
    ("memory:KeyToDoor", "episodes worked out by hand", "test_memory_probes.py", "key or apples"),
    ("DeepSea-N stochastic", "the probabilities and noise that bsuite's code states", "test_deep_sea.py", "stochastic"),
]
"""What has no original to step: whose tests hold, and against what."""


def by_hand() -> Iterator[str]:
    for environment, reference, test, words in BY_HAND:
        every = ["-m", "thorough or not thorough", "-k", words]
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(TESTS / test), *every]
        said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout
        passed, failed = (int(m[1]) if (m := re.search(rf"(\d+) {word}", said)) else 0 for word in ("passed", "failed"))
        verdict = (
            f"{passed} test{'s hold' if passed > 1 else ' holds'}" if passed and not failed else "**does not hold**"
        )
        yield f"| `{environment}` | {reference} | | {verdict} | `{test}` |"


def version(distribution: str) -> str:
    return f"{distribution} {importlib.metadata.version(distribution)}"


def shown(line: Line) -> str:
    parts = ", ".join(f"{part} {far:.1g}" if far else f"{part} 0" for part, far in line.found.items())
    return f"| `{line.environment}` | {line.reference} | {line.steps:,} | {parts} | `{line.test}` |"


def main(wanted: list[str]) -> int:
    known = re.findall(r"^\| `([^`]+)` \|.*$", PAGE.read_text(), re.MULTILINE) if PAGE.exists() else []
    kept = dict(zip(known, re.findall(r"^\| `.*$", PAGE.read_text(), re.MULTILINE), strict=True)) if known else {}
    lines: dict[str, str] = {}
    for family, (package, measure) in FAMILIES.items():
        start = time.time()
        if (not wanted or family in wanted) and importlib.util.find_spec(package) is not None:
            lines |= {line.environment: shown(line) for line in measure()}
            print(f"{family}: {time.time() - start:.0f} s", flush=True)
    if not wanted or "hand" in wanted:
        lines |= {line.split("`")[1]: line for line in by_hand()}
    # A family that was not measured now keeps its place and what the page says of it.
    order = [*kept, *(name for name in lines if name not in kept)]
    PAGE.write_text("\n".join([*HEAD, *((kept | lines)[name] for name in order), ""]))
    return sum("**" in line for line in lines.values())


HEAD = [
    "# Parity of the environments of Forage's own",
    "",
    "Each is played beside the implementation that it is written after: from the same states, with the same actions,",
    "and with the same random numbers where the original draws any. Written by `python docs/make/parity.py`, which",
    "runs the comparisons of the tests in the last column (`tests/environments/`). *Steps* is how many were compared,",
    "for a table its states and actions; then comes the largest difference of each part. Another end would be a 1.",
    "What is above 0 is our float32 beside the original's float64: the classic control tasks are stepped in float64",
    "too, and there the states show how near the equations are (MountainCarContinuous keeps its own in float32).",
    "",
    "Where there is no original to step, the reference is a printed result, a formula or a case worked out by hand,",
    "and the line says how many tests hold. What grid worlds and MinAtar draw at a start and on the way is compared",
    "in distribution (`test_grid_generators.py`, `test_minatar.py`). Adapters to other libraries are in",
    "[conformance](conformance.md).",
    "",
    "| environment | reference | steps | largest difference | test |",
    "|---|---|---|---|---|",
]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
