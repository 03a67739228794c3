"""Pages and pictures of the headline campaign, made of its results."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cells
import numpy as np
from headline import command, cost, is_done
from headline_rows import DATA, ROWS, Published, Row

from forage.evaluation.look import DASHES, PALETTE, QUIET, caption, head, save_figure, sheet, style
from forage.evaluation.plots import BANDED, draw_run, label_ends
from forage.evaluation.statistics import FEW

FIRST = "forage"
"""The contestant of Forage's that its variants are held against."""
Found = dict[int, dict[str, Any]]
"""The results of an arm, by seed."""


def write_pages(results: dict[str, Any], folder: Path) -> None:
    """Write the page and the pictures of each row, and the page that leads to them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, row in ROWS.items():
        pictures = []
        for task in tasks_of(row):
            if any(found for _, found in arms_of(results, name, task)):
                pictures.append(draw(results, name, task, folder / f"{name}-{task}.png").name)
        (folder / f"{name}.md").write_text(page(results, name, pictures))
    (folder / "README.md").write_text(contents(results))


def tasks_of(row: Row) -> list[str]:
    """Return the tasks of a row, without that which makes its data."""
    return list(dict.fromkeys(name.rpartition("/")[0] for name in row.arms if name != "data/forage"))


def arms_of(results: dict[str, Any], name: str, task: str) -> Iterator[tuple[str, Found]]:
    """Yield each contestant of a task with its results by seed."""
    for arm, told in ROWS[name].arms.items():
        if arm.rpartition("/")[0] == task:
            cell = {seed: f"{name}/{arm}/{seed}" for seed in told.seeds}
            yield arm.rpartition("/")[2], {seed: results[one] for seed, one in cell.items() if is_done(results, one)}


def scaled(results: dict[str, Any], row: Row, values: Any) -> np.ndarray:
    """Return returns as the row shows them: as they are, or between the ends of the row's data sets."""
    values = np.asarray(values, float)
    if not row.score or not values.size:
        return values
    low, high = (results[DATA]["ends"][end] for end in ("random", "expert"))
    return 100 * (values - low) / (high - low)


def spread(one: Published) -> np.ndarray:
    """Return published values of seeds, or as many values with the published mean and deviation.

    Welch's test needs no more than these two. The deviation is over n, as openrlbenchmark computes CleanRL's.
    """
    if one.curve:
        return np.array(one.curve[-1][1])
    if one.deviation is None or one.seeds < 2:
        return np.array([one.mean])
    steps = np.linspace(-1, 1, one.seeds)
    return np.asarray(one.mean + one.deviation * steps / steps.std())


# The page


def page(results: dict[str, Any], name: str, pictures: list[str]) -> str:
    """Return the page of a row: what it shows, its pictures, results, published numbers, commands and versions."""
    row = ROWS[name]
    lines = [f"# {row.title}", "", row.about, ""]
    lines += [f"![{row.title}]({picture})" for picture in pictures] + [""] * bool(pictures)
    columns = ["task", "contestant", "seeds", row.training, f"evaluation: {row.evaluation}", "seconds a seed"]
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for task in tasks_of(row):
        for who, found in arms_of(results, name, task):
            lines.append("| " + " | ".join([task, who, *cells_of(results, row, who, found)]) + " |")
    lines += ["", *([data_sets(results)] if row.score and is_done(results, DATA) else [])]
    lines += ["Means over seeds with Student's 95 % interval, and in braces each seed's own.", SECONDS, ""]
    lines += [*differences(results, name), *missing(results, name)]
    lines += [
        "## Commands",
        "",
        "Seed 0 of each; other seeds differ in that number alone. From the folder `.cache/headline`:",
        "",
    ]
    files = dict.fromkeys(told.environment for told in row.arms.values() if told.environment)
    typed = [command(f"{name}/{arm}/{told.seeds[0]}") for arm, told in row.arms.items()]
    lines += ["```sh", *(f"cp ../../benchmarks/{file} ." for file in files), *typed, "```", ""]
    return "\n".join([*lines, *origins(results, name)]).rstrip() + "\n"


def data_sets(results: dict[str, Any]) -> str:
    """Return the line about the data sets: their sizes, mean scores and ends."""
    told = [
        f"{name} has {one['transitions']:,} transitions and scores {100 * one['normalised']:.0f}"
        for name, one in results[DATA]["sets"].items()
    ]
    low, high = (results[DATA]["ends"][end] for end in ("random", "expert"))
    return f"The data: {'; '.join(told)}; 0 is a return of {low:.0f}, 100 one of {high:.0f}."


SECONDS = (
    "Seconds are of training, with compiling and the evaluations on the way, on one core that may have had other work."
)


def cells_of(results: dict[str, Any], row: Row, who: str, found: Found) -> list[str]:
    """Return the cells of a contestant's line in the table: seeds, both measures and seconds."""
    shown = [str(len(found))]
    for measure in ("training", "evaluation"):
        values = [one[measure] for one in found.values() if one.get(measure) is not None]
        shown.append(describe(scaled(results, row, values)) if values else "")
    return [*shown, f"{statistics.median(one['seconds'] for one in found.values()):,.0f}" if found else ""]


def describe(values: np.ndarray) -> str:
    """Return the mean with its interval, and each seed's value; of one seed that alone."""
    if len(values) == 1:
        return f"{values[0]:.4g}"
    return f"{cells.with_interval(values)} {{{', '.join(f'{value:.4g}' for value in values)}}}"


def differences(results: dict[str, Any], name: str) -> list[str]:
    """Return the table of Forage beside each other contestant and each published number of its task."""
    row, lines = ROWS[name], []
    for task in tasks_of(row):
        arms = dict(arms_of(results, name, task))
        ours = {who: found for who, found in arms.items() if who.startswith("forage")}
        for who, found in ours.items():
            for other in arms.keys() - ours.keys() if who == FIRST else ours.keys() & {FIRST}:
                sides = (found, arms[other])
                both = [scaled(results, row, [one["evaluation"] for one in side.values()]) for side in sides]
                its = describe(both[1]) if len(both[1]) else ""
                lines.append([task, who, f"{other}, here", its, *verdict(*both)])
            for one in row.published:
                if one.task == task and who in (one.beside or ours):
                    mine = [seed[one.measure] for seed in found.values()] if one.measure else []
                    said = verdict(scaled(results, row, mine), spread(one))
                    lines.append([task, who, told(one), published_words(one), *said])
    if not lines:
        return []
    columns = ["task", "ours", "beside", "its value", "difference", "verdict on ours"]
    head = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    note = (
        "Ours less theirs, with Welch's 95 % interval over seeds and p of Welch's test; p is of one comparison alone."
    )
    sources = [f"- {one.label}: {one.source}." for one in row.published]
    return [*head, *("| " + " | ".join(line) + " |" for line in lines), "", note, "", *dict.fromkeys(sources), ""]


def told(one: Published) -> str:
    """Return the label of a published result with its steps."""
    return f"{one.label}{f', {one.steps:,} steps' if one.steps else ''}"


def published_words(one: Published) -> str:
    """Return a published value as its source has it."""
    if one.curve:
        return "; ".join(f"{np.mean(values):.4g} at {steps:,}{f' ({len(values)} seeds)' if len(values) > 1 else ''}"
                         for steps, values in one.curve)  # fmt: skip
    return f"{one.mean:.4g}" + (f" ± {one.deviation:.4g} ({one.seeds} seeds)" if one.deviation is not None else "")


def verdict(ours: np.ndarray, theirs: np.ndarray) -> tuple[str, str]:
    """Return the difference with its interval and the verdict; empty where a side has fewer than two seeds."""
    return cells.compared(ours, theirs) if min(len(ours), len(theirs)) > 1 else ("", "")


def missing(results: dict[str, Any], name: str) -> list[str]:
    """Return the section on seeds that are not there yet: how many, their cost and the command; empty if none is."""
    row, lines, left = ROWS[name], [], 0.0
    for arm, told in row.arms.items():
        waiting = [seed for seed in told.seeds if not is_done(results, f"{name}/{arm}/{seed}")]
        if waiting:
            needs, how = cost(results, f"{name}/{arm}/{waiting[0]}")
            left += needs * len(waiting)
            done = len(told.seeds) - len(waiting)
            lines.append(f"- {arm}: {done} of {len(told.seeds)} seeds; {needs:,.0f} s a seed ({how})")
    if not lines:
        return []
    go = f"`python benchmarks/headline.py --only {name}` trains them, about {left / 3600:.1f} hours of one core."
    return ["## Not complete", "", go, "", *lines, ""]


def origins(results: dict[str, Any], name: str) -> list[str]:
    """Return the section on versions, commits and machines of the cells that are done."""
    lines = []
    for arm, told in ROWS[name].arms.items():
        done = [results[cell] for seed in told.seeds if is_done(results, cell := f"{name}/{arm}/{seed}")]
        for one in {str(sorted(one["versions"].items())): one for one in done}.values():
            versions = ", ".join(f"{package} {version}" for package, version in one["versions"].items())
            lines.append(f"- {arm}: {versions}; commit {one['commit']}; {one['machine']}; {one['date']}")
    return ["## Versions", "", *lines, ""] if lines else []


def contents(results: dict[str, Any]) -> str:
    """Return the page that leads to the rows: how much of each is there."""
    lines = [
        "# Headline results",
        "",
        "Curves at the size that papers use, beside peers of the same campaign and published numbers with their",
        "sources: one page a row, each with settings, seeds, intervals, versions, seconds and commands. A row that is",
        "not complete says what is missing. `python benchmarks/headline.py` trains what is missing, cell by cell.",
        "",
        "| row | cells done |",
        "|---|---|",
    ]
    for name, row in ROWS.items():
        wanted = [f"{name}/{arm}/{seed}" for arm, told in row.arms.items() for seed in told.seeds]
        lines.append(
            f"| [{row.title}]({name}.md) | {sum(is_done(results, cell) for cell in wanted)} of {len(wanted)} |"
        )
    return "\n".join(lines) + "\n"


# The picture


def draw(results: dict[str, Any], name: str, task: str, path: Path) -> Path:
    """Draw the curves of a task: evaluations where there are any, else training; and published curves and points."""
    row = ROWS[name]
    figure = sheet(7.2, 4.2, dpi=200)
    axes = figure.add_subplot()
    labels, seeds, kind = [], [], "evaluations"
    arms = [(who, found) for who, found in arms_of(results, name, task) if found]
    if not all(one["evaluations"] for _, found in arms for one in found.values()):
        kind = "curve"
    for number, (who, found) in enumerate(arms):
        steps, values = join_curves([one[kind] for one in found.values()])
        values, look = scaled(results, row, values), {"color": PALETTE[number % len(PALETTE)]}
        if is_variant(who, arms):
            axes.plot(steps, values.mean(0), **look, linewidth=1.2, linestyle=DASHES[1], zorder=3)
            labels.append((who, values.mean(0)[-1], look["color"], "normal"))
        else:
            labels.append((who, draw_run(axes, steps, values, look, 0.95, False), look["color"], "bold"))
            seeds.append(len(found))
    last = max((line.get_xdata()[-1] for line in axes.lines), default=1)
    published = [one for one in row.published if one.task == task]
    for one in published:
        labels.append((one.label, draw_published(axes, one, last), QUIET, "normal"))
    style(axes, row.value, row.unit)
    axes.set_xlim(0, last * 1.01)
    few = "(Student's below five seeds, none below three) " if min(seeds) < FEW else ""
    of = "evaluations" if kind == "evaluations" else f"training {'answers' if name == 'grpo' else 'episodes'}"
    lines = [f"{of}; {caption(seeds, f'{few}shaded' if max(seeds) >= BANDED else '')}"]
    if any(is_variant(who, arms) for who, _ in arms):
        lines.append("thin and dashed: means of variants of Forage's, without an interval")
    if published:
        lines.append("grey: published, with the deviation over seeds where it is known")
    head(axes, f"{row.title}: {task}" if len(tasks_of(row)) > 1 else row.title, lines)
    label_ends(figure, axes, labels)
    return save_figure(figure, path)


def is_variant(who: str, arms: list[tuple[str, Found]]) -> bool:
    """Return whether a contestant is Forage with one setting changed, beside Forage itself."""
    return who != FIRST and who.startswith(FIRST) and FIRST in dict(arms)


def join_curves(curves: list[list[list[float]]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps at which any seed has a point, and each seed's newest value there."""
    steps = sorted({step for curve in curves for step, _ in curve})
    values = np.full((len(curves), len(steps)), np.nan)
    for number, curve in enumerate(curves):
        known = np.array(curve)
        place = np.searchsorted(known[:, 0], steps, side="right") - 1
        values[number] = np.where(place >= 0, known[np.maximum(place, 0), 1], np.nan)
    return np.array(steps), values


def draw_published(axes: Any, one: Published, last: float) -> float:
    """Draw a published curve or point, with its interval or deviation where its source has one; return its height."""
    look: dict[str, Any] = {"color": QUIET, "linestyle": (0, (4, 3)), "marker": "o", "markersize": 4, "zorder": 3}
    look |= {"linewidth": 1, "capsize": 3, "clip_on": False}
    if not one.curve:
        axes.errorbar([min(one.steps or last, last)], [one.mean], [one.deviation or 0], **look)
        axes.axhline(one.mean, color=QUIET, linewidth=0.7, linestyle=(0, (1, 3)), zorder=1)
        return float(one.mean or 0)
    steps = [step for step, _ in one.curve]
    means = [float(np.mean(values)) for _, values in one.curve]
    bars = [np.std(values, ddof=1) if len(values) > 1 else 0.0 for _, values in one.curve]
    axes.errorbar(steps, means, bars, **look)
    return means[-1]
