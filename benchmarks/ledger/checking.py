"""The ledger's figures: writing them, measuring rows again, and judging the changes.

There is a verdict for each quantity. Learning is judged by statistics over seeds, so that luck does not count: its
intervals must be worse as a whole, and by more than a tolerance. Speed and compile time are judged in units of a
yardstick measured in the same process, and memory directly: with generous tolerances, only on the hardware and the JAX
of the stored figures, and if they look worse, by the better of two measurements.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from forage.core.errors import nearest
from forage.core.plain import dumps
from forage.core.types import ForageError
from forage.evaluation.comparison import bootstrap_difference
from forage.evaluation.statistics import interquartile_mean
from forage.evaluation.thresholds import logrank, median_time
from forage.runs.run import read_json, write_json
from ledger.rows import FIRST_SEED, ROWS, Row
from ledger.showing import Figures, score_text, table, times_of

DEFAULT = Path("benchmarks") / "ledger.json"
SCORE = 0.1  # of the stored score
THRESHOLD = 0.25  # of the mean steps to the threshold
SIGNIFICANT = 0.05
SPEED, COMPILE, MEMORY = 0.25, 0.5, 0.5
NOISY = ("speed", "compile time", "peak memory")
SAME, BETTER, WORSE, SKIPPED = "same", "better", "worse", "not compared"


class Finding(NamedTuple):
    """One quantity, then and now."""

    quantity: str
    verdict: str
    said: str


# The file


def ledger_path(given: str | None, new: bool = False) -> Path:
    """Return the ledger that is meant; `new`: a named one may still be missing."""
    path = DEFAULT if given is None else Path(given)
    if path.exists() or (new and given is not None):
        return path
    if given is not None:
        raise ForageError(f"There is no ledger {path}; python benchmarks/ledger measure ROW --file {path} begins one.")
    raise ForageError(f"There is no {path} here; run this in Forage's repository, or name a ledger with --file.")


def row_of(name: str) -> Row:
    if name not in ROWS:
        raise ForageError(f"The ledger has no row {name!r}{nearest(name, ROWS)}")
    return ROWS[name]


def stored_figures(name: str, path: Path) -> Figures:
    """Return a row's stored figures. Raise `ForageError` if there are none, or of other settings."""
    row, ledger = row_of(name), read_json(path)
    if name not in ledger:
        raise ForageError(f"{path} has no figures of {name} yet; python benchmarks/ledger measure {name} writes them.")
    stored = ledger[name]
    changed = [key for key, value in row.settings().items() if stored["settings"].get(key) != value]
    if changed:
        raise ForageError(
            f"The {changed[0]} of {name} changed from {stored['settings'].get(changed[0])} to "
            f"{row.settings()[changed[0]]} since it was measured; python benchmarks/ledger measure {name} "
            "measures it again."
        )
    return stored


def store(name: str, figures: Figures, path: Path) -> None:
    """Write a row's figures, and the table, if there is a folder `results` next to the ledger."""
    ledger = read_json(path) if path.exists() else {}
    ledger = {key: figures if key == name else ledger[key] for key in ROWS if key in ledger or key == name}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, ledger)
    if (path.parent / "results").is_dir():
        (path.parent / "results" / "LEDGER.md").write_text(table(ledger))


# Measuring and checking


def measure(name: str) -> Figures:
    """Return a row's figures, measured now in a process of its own."""
    settings = row_of(name).settings()
    row = dumps(settings | {"first_seed": FIRST_SEED})
    command = [sys.executable, "-m", "ledger.measuring", row]
    paths = filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")))
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false", "PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = (process.stdout if process.returncode == 0 else process.stderr).strip().splitlines()
    if process.returncode or not lines:
        last = lines[-1] if lines else f"its process ended with status {process.returncode}"
        raise ForageError(f"{name} could not be measured: {last}")
    return {"settings": settings} | json.loads(lines[-1])


def check(name: str, then: Figures, measure: Callable[[str], Figures] = measure) -> list[Finding]:
    """Measure a row again and holds it against the stored figures."""
    found = findings(then, measure(name))
    if any(f.verdict == WORSE and f.quantity in NOISY for f in found):
        order = (BETTER, SAME, SKIPPED, WORSE)
        again = findings(then, measure(name))
        kinder = [min(pair, key=lambda f: order.index(f.verdict)) for pair in zip(found, again, strict=True)]
        found = [kind if first.quantity in NOISY else first for first, kind in zip(found, kinder, strict=True)]
    return found


def findings(then: Figures, now: Figures) -> list[Finding]:
    """Return the finding on each quantity between two measurements of a row."""
    found = [judge_score(then, now), judge_threshold(then, now)]
    if why := differs(then, now):
        return found + [Finding(quantity, SKIPPED, why) for quantity in NOISY]
    rate = f"{then['steps_per_second']:,.0f} steps/s then, {now['steps_per_second']:,.0f} now; against the yardstick"
    return [
        *found,
        judge_ratio("speed", rate, now["speed"] / then["speed"], 1 - SPEED),
        judge_ratio(
            "compile time",
            f"{then['compile_seconds']:.1f} s then, {now['compile_seconds']:.1f} s now; against the yardstick",
            then["compile_work"] / now["compile_work"],
            1 / (1 + COMPILE),
        ),
        judge_ratio(
            "peak memory",
            f"{then['memory_mib']:.0f} MiB then, {now['memory_mib']:.0f} MiB now;",
            then["memory_mib"] / now["memory_mib"],
            1 / (1 + MEMORY),
        ),
    ]


def judge_score(then: Figures, now: Figures) -> Finding:
    """Judge the score: worse if the whole interval of the difference is below the tolerance."""
    said = f"{score_text(then)} then, {score_text(now)} now"
    if then["score"] is None or now["score"] is None:
        verdict = SAME if then["score"] is now["score"] else WORSE if now["score"] is None else BETTER
        return Finding("score", verdict, said)
    _, low, high = bootstrap_difference(np.array(now["returns"]), np.array(then["returns"]), interquartile_mean)
    margin = SCORE * abs(then["score"])
    verdict = WORSE if high < -margin else BETTER if low > margin else SAME
    return Finding("score", verdict, f"{said}; difference between {low:.4g} and {high:.4g}, {margin:.3g} tolerated")


def judge_threshold(then: Figures, now: Figures) -> Finding:
    """Judge the steps to the threshold: worse if a log-rank test finds it and the mean is beyond the tolerance."""
    times = [times_of(then), times_of(now)]
    what = f"steps to a return of {then['settings']['threshold']:g}"
    said = " then, ".join(str(median_time(t)) for t in times) + " now"
    if not any(t.reached.any() for t in times):
        return Finding(what, SAME, said)
    # No seed is left before the end, so the plain mean is the restricted mean up to there.
    before, after = (t.time.mean() for t in times)
    p = logrank(*times)
    verdict = SAME
    if p < SIGNIFICANT:
        verdict = WORSE if after > before * (1 + THRESHOLD) else BETTER if after * (1 + THRESHOLD) < before else SAME
    return Finding(what, verdict, f"{said}; log-rank p = {p:.2g}")


def judge_ratio(quantity: str, said: str, ratio: float, least: float) -> Finding:
    """Judge a ratio. `ratio`: the new figure as a multiple of the old one."""
    verdict = WORSE if ratio < least else BETTER if ratio > 1 / least else SAME
    return Finding(quantity, verdict, f"{said} {ratio:.2f} times as good, {least:.2f} tolerated")


def differs(then: Figures, now: Figures) -> str:
    """Return the reason why speed and memory cannot be compared, or an empty text."""
    found = [
        f"{name} {then['versions'].get(name)} (here {now['versions'].get(name)})"
        for name in ("jax", "jaxlib")
        if then["versions"].get(name) != now["versions"].get(name)
    ]
    found += [
        f"{name} {value} (here {now['hardware'].get(name)})"
        for name, value in then["hardware"].items()
        if now["hardware"].get(name) != value
    ]
    return f"it was measured with {' and '.join(found)}" if found else ""


def verdict(found: Iterable[Finding]) -> str:
    verdicts = {finding.verdict for finding in found}
    return next((word for word in (WORSE, BETTER) if word in verdicts), SAME)


def sentences(name: str, found: list[Finding]) -> list[str]:
    """Describe the findings of a check, line by line."""
    return [f"{name}: {verdict(found)}", *(f"  {f.quantity}: {f.verdict}; {f.said}" for f in found)]
