"""The ledger as text: a line for each row, and the table in Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from forage.evaluation.statistics import Score
from forage.evaluation.thresholds import Times, median_time
from ledger.rows import ROWS

Figures = dict[str, Any]
"""The figures of one row from `measuring.measure`, with the settings of the measurement."""


def score_text(figures: Figures) -> str:
    if figures["score"] is None:
        return "no score"
    return str(Score(figures["score"], *figures["interval"], seeds=len(figures["returns"])))


def times_of(figures: Figures) -> Times:
    return Times(np.array(figures["threshold_steps"]), np.array(figures["threshold_reached"]))


def lines(ledger: dict[str, Figures], names: Iterable[str] = ROWS) -> list[str]:
    """Rows, one a line."""
    found = []
    for name in names:
        row, figures = ROWS[name], ledger.get(name)
        what = f"{row.agent} on {row.environment}, {row.steps:,} steps{' *' if row.sample else ''}"
        said = "not measured yet" if figures is None else f"{score_text(figures)}, {figures['steps_per_second']:,.0f}/s"
        found.append(f"  {name:24} {what:52} {said}")
    return found


HEAD = """\
# Ledger

Made by `python benchmarks/ledger measure`; do not edit. `python benchmarks/ledger check ROW` measures a row again and
says whether it drifted; a star: `python benchmarks/ledger check --sample` does. Score: interquartile mean over seeds
of evaluation episodes, with its 95 % interval. Steps to a return: the median over seeds of when the mean return of
training's episodes is first that high, with its interval. Steps/s: of all seeds together, once compiled. Yardstick: a
2048 float32 matrix product in the same process, beside which other processes may have been at work; fraction: of its
rate, what products of matrices in acting and learning make. Compiling starts from nothing, and memory is the most the
process held at once.

| row | agent, environment, steps | score | steps to a return | steps/s | fraction | yardstick, GFLOP/s | compiling, s \
| memory, MiB | measured |
|---|---|---|---|---:|---:|---:|---:|---:|---|
"""


def table(ledger: dict[str, Figures]) -> str:
    """LEDGER.md."""
    rows, machines = "", dict[str, list[str]]()
    for name, f in ledger.items():
        s, versions = f["settings"], f["versions"]
        options = "".join(f", {key} {value}" for key, value in s["options"].items())
        until = median_time(times_of(f))
        star = " *" if name in ROWS and ROWS[name].sample else ""
        rows += (
            f"| {name}{star} | {s['agent']}{options}, {s['environment']}, {s['steps']:,} | {score_text(f)} "
            f"| {s['threshold']:g}: {until} | {f['steps_per_second']:,.0f} | {f['fraction_of_peak']:.3f} "
            f"| {f['yardstick_gflops']:.0f} | {f['compile_seconds']:.1f} | {f['memory_mib']:.0f} "
            f"| {f['date']}, {f['commit'] or versions['code']} |\n"
        )
        shown = ", ".join(f"{key} {versions[key]}" for key in ("python", "jax", "jaxlib", "equinox", "optax", "numpy"))
        hardware = f["hardware"]
        machine = f"{hardware['cpu']}, {hardware['cores']} cores, {hardware['device']}, {hardware['system']}; {shown}"
        machines.setdefault(machine, []).append(name)
    measured = "".join(f"- {machine}: {', '.join(names)}\n" for machine, names in machines.items())
    return f"{HEAD}{rows}\nMeasured on\n\n{measured}"
