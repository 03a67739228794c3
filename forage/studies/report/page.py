"""One page about one run or several: an HTML file that holds all it shows and needs no network."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forage.config.ranges import check_call
from forage.core.errors import ForageError
from forage.core.records import is_number, read_record
from forage.core.storage import archives
from forage.evaluation.statistics import name_of_mean
from forage.evaluation.thresholds import first_reached, median_time
from forage.loop.runner import ACTIVITIES
from forage.runs.changes import flatten_config, history_sentences
from forage.runs.display import duration
from forage.runs.run import read_json
from forage.studies.comparison.compare import check_smoothing, environment_title, remarks_of
from forage.studies.comparison.curve_files import CurveFile, check_curve_suffix, write_curves
from forage.studies.comparison.gathering import (
    ComparedRun,
    actions_of,
    cut_of,
    environment_of,
    gather,
    group_runs,
    reward_of,
    steps_made,
)
from forage.studies.comparison.remarks import metric_names
from forage.studies.comparison.verdicts import verdicts
from forage.studies.film import MOST
from forage.studies.report.charts import learning, metric_chart, profiles
from forage.studies.report.settings import differing
from forage.studies.report.texts import HEAD, tables
from forage.studies.watch import watch

MOST_METRICS = 24  # charts of one environment
HERE = Path(__file__).parent
READING = (
    "A line is the {mean} over seeds in its 95 % interval; a diamond is the final evaluation. An interval that ends at "
    "the chart's edge goes on beyond it. Point at a chart for its values, drag across it to zoom in, click a name to "
    "hide its line."
)


def report(
    directories: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] = "report.html",
    threshold: float | None = None,
    film: bool = False,
    progress: Callable[[str], None] = lambda text: None,
    *,
    labels: Sequence[str] = (),
    title: str = "",
    smooth: float = 0,
    curves: str | os.PathLike[str] | None = None,
) -> Path:
    """Write a page about runs, or their directories, and return its path.

    `threshold`: also says after how many steps, and how long, runs reached this return in training. `film`: makes a
    film of each run that has none of its newest agents, where its environment can be drawn, and `progress` is told how
    far that is.
    `labels`, one for each run, `title`, `smooth`, the steps over which each point is averaged, and `curves`, a file of
    all points by seed, are as in `forage.compare`.
    """
    check_call(report, locals())
    path = Path(output)
    if path.suffix != ".html":
        raise ForageError(f"A report is an .html file, and {path.name} is none.")
    if threshold is not None and not np.isfinite(threshold):
        raise ForageError(f"A threshold is a number, not {threshold}.")
    if curves is not None:
        check_curve_suffix(curves)
    runs = gather(directories, labels)
    if foreign := next((one.run.directory for one in runs if isinstance(one.run, CurveFile)), None):
        raise ForageError(
            f"{foreign} is no run of Forage, which a report is about; forage compare draws it beside runs."
        )
    check_smoothing(smooth)
    groups = group_runs(runs)
    whole = whole_runs(runs)
    name = ", ".join(dict.fromkeys(one.run.config["spec"]["name"] for one in runs))
    agents = ", ".join(dict.fromkeys(one.run.config["agent"]["part"] for one in runs))
    heading = title or f"{agents} on {name}"
    if curves is not None:
        write_curves(curves, [(one.label, environment_of(one.run), one.run) for one in whole])
    sections = [
        f"<h1>{escape(heading)}</h1>",
        f'<p class="quiet">{escape(budget(runs))}</p>',
        *(f'<p class="said">{escape(line)}</p>' for line in verdicts(runs)),
        *(f'<p class="said">{escape(f"{one.name}: {said}")}</p>' for one in runs for said in remarks_of(one)),
        *(learning_section(group, environment, smooth, at) for at, (environment, group) in enumerate(groups.items())),
        section("Scores", html_table(*score_table(runs, threshold))),
        section("Estimated from logs", estimates(whole)),
        *(
            section(section_title("How many seeds score how high", environment), profiles(group, f"profiles{at or ''}"))
            for at, (environment, group) in enumerate(groups.items())
        ),
        *(training_section(group, environment, smooth, at) for at, (environment, group) in enumerate(groups.items())),
        section("What differs" if len(whole) > 1 else "Settings", configurations(whole)),
        section("Changed on the way", changes(whole)),
        section("Texts", text_samples(whole)),
        section("Films", films([one for one in whole if not one.run.texts], film, progress)),
        section(
            "As a paper would print it",
            "".join(f"<blockquote>{escape(s)}</blockquote>" for s in sentences_of_runs(runs)),
        ),
        section("Where the time went", times(whole)),
        section("Made with", html_table(*version_table(whole))),
    ]
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(heading)}</title>\n"
        f"<style>\n{(HERE / 'style.css').read_text()}</style></head>\n<body>\n"
        '<button id="theme" type="button" hidden>light or dark</button>\n'
        + "\n".join(part for part in sections if part)
        + f"\n<script>\n{(HERE / 'chart.js').read_text()}</script>\n</body></html>\n"
    )
    archives.write_atomically(path, lambda file: file.write(text.encode()))
    return path


def whole_runs(runs: Sequence[ComparedRun]) -> list[ComparedRun]:
    """Return each run once, without the settings of its sweep."""
    found = {one.run.directory: one for one in reversed(runs)}
    kept = [found[place] for place in dict.fromkeys(one.run.directory for one in runs)]
    return [one._replace(label=one.label.removesuffix(f" {one.setting}") if one.setting else one.label) for one in kept]


def section_title(title: str, environment: str) -> str:
    """Return the title of a section about the runs in one environment."""
    return f"{title}: {environment}" if environment else title


def learning_section(runs: Sequence[ComparedRun], environment: str, smooth: float, number: int) -> str:
    """Return the learning curves in one environment."""
    shown = learning(runs, environment or environment_title(runs), smooth, f"learning{number or ''}")
    how = READING.format(mean=mean_of(runs)) + (f" Lines are means over {smooth:,.0f} steps." if smooth else "")
    return section(section_title("Learning", environment), f'{shown}<p class="quiet">{how}</p>')


def training_section(runs: Sequence[ComparedRun], environment: str, smooth: float, number: int) -> str:
    """Return a chart of each loss and each other metric of training, folded away."""
    names = dict.fromkeys(name for one in runs for name in metric_names(one.run.rows))
    charts = [
        (name, metric_chart(runs, name, smooth, f"metric{number}-{at}"))
        for at, name in enumerate([*names][:MOST_METRICS])
    ]
    parts = [f"<h3>{escape(name.replace('_', ' '))}</h3>{shown}" for name, shown in charts if shown]
    if not parts:
        return ""
    title = escape(f"{len(parts)} metrics: {', '.join(name.replace('_', ' ') for name, shown in charts if shown)}")
    content = f"<details><summary>{title}</summary>{''.join(parts)}</details>"
    return section(section_title("Losses, entropy and other metrics", environment), content)


def budget(runs: Sequence[ComparedRun]) -> str:
    """Describe the lengths and the evaluations of the runs."""
    run = runs[0].run
    acted: dict[str, list[str]] = {}
    for one in runs:
        acting = "drawn from the policy" if actions_of(one.run) == "sampled" else "the policy's best guess"
        acted.setdefault(acting, []).append(one.name)
    how = " or ".join(f"{acting} ({', '.join(who)})" if len(acted) > 1 else acting for acting, who in acted.items())
    made = sorted({steps_made(one.run) for one in runs})
    steps, asked = " and ".join(f"{number:,}" for number in made), sorted({one.run.config["steps"] for one in runs})
    of = f", of the reward {reward_of(run)}" if run.config["spec"]["reward_names"] else ""
    stopped = f", where {' and '.join(f'{number:,}' for number in asked)} were asked for" if asked != made else ""
    return (
        f"{steps} steps of each seed{stopped}; a score is the mean return of a seed's evaluation episodes, played "
        f"apart from training with {how}{of}. "
        f"Numbers over seeds are {mean_of(runs)}s with 95 % intervals: the bootstrap's, or with fewer than five "
        "seeds Student's, of the mean. Where runs are compared, it is by the mean over all seeds."
    )


def mean_of(runs: Sequence[ComparedRun]) -> str:
    """Return the name of the mean over the seeds of these runs."""
    return name_of_mean(max(len(one.seeds) for one in runs))


def section(title: str, content: str) -> str:
    return f"<h2>{escape(title)}</h2>\n{content}" if content else ""


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; short cells that start with a digit or a sign are set as numbers."""

    def cell(text: str) -> str:
        number = ' class="number"' if len(text) < 40 and text[:1] in "-+0123456789" else ""
        return f"<td{number}>{escape(text)}</td>"

    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>\n" for row in rows)
    heads = "".join(f"<th>{escape(text)}</th>" for text in head)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>\n{body}</tbody></table></div>'


def score_table(runs: Sequence[ComparedRun], threshold: float | None) -> tuple[list[str], list[list[str]]]:
    head = [
        "run",
        "return",
        "mean over all seeds",
        "lowest and highest seed",
        "seeds",
        "episodes each",
        "time",
        "steps a second",
    ]
    if threshold is not None:
        head += [f"steps until {threshold:g}", f"seconds until {threshold:g}"]
    rows = []
    for one in runs:
        last = (one.run.rows or [{"steps": 0, "seconds": 0.0}])[-1]  # no point yet
        seeds = len(one.seeds)
        row = [one.name, "not evaluated", "", "", str(seeds), ""]
        if one.scores is not None:
            episodes = str(read_json(one.run.directory / "evaluation.json")["episodes"])
            between = f"{one.scores.min():.4g} to {one.scores.max():.4g}"
            row = [one.name, str(one.total), f"{one.scores.mean():.4g}", between, str(seeds), episodes]
        seconds = last.get("seconds") or 0.0
        row += [duration(seconds), f"{seeds * last['steps'] / max(seconds, 1e-9):,.0f}"]
        if threshold is not None:
            steps, values = one.curve()
            spent = np.array([point.get("seconds") or 0.0 for point in one.run.rows], float)
            row += [str(median_time(first_reached(axis, values, threshold))) for axis in (steps, spent)]
        rows.append(row)
    return head, rows


def configurations(runs: Sequence[ComparedRun]) -> str:
    """Write the settings that differ and may matter; below them, folded away, those of single runs, and the rest."""
    flat = [flatten_config(one.run.config) for one in runs]
    head = ["setting", *(one.name for one in runs)]

    def rows(names: Sequence[str]) -> str:
        return html_table(head, [[name, *(settings.get(name, "") for settings in flat)] for name in names])

    def fold_section(title: str, content: str) -> str:
        return f"<details><summary>{title}</summary>{content}</details>"

    if len(runs) == 1:
        return fold_section("All settings", rows(list(flat[0])))
    matter, partly, rest = differing([one.run.config for one in runs])
    parts = [rows(matter)] if matter else []
    if not matter and not partly:
        parts.append("<p>Nothing that matters: the same settings were run again.</p>")
    if partly:
        parts.append(fold_section("Settings that only some of them have", rows(partly)))
    return "\n".join([*parts, fold_section("What is the same, or makes no difference to learning", rows(rest))])


def estimates(runs: Sequence[ComparedRun]) -> str:
    """Return a table of the values that `forage estimate` left in runs, and its warnings; empty without one."""
    rows, warnings = [], []
    for one in runs:
        path = one.run.directory / "estimate.json"
        if not path.exists():
            continue
        found = read_record(path, wrong_estimate)
        value = f"{found['value']:.4g} [{found['low']:.4g}, {found['high']:.4g}]"
        behind = f"{found['effective_transitions']:,.0f} of {found['transitions']:,}"
        rare, logged = f"{100 * found['rare']:.2g} %", f"{found['logged']['value']:.4g}"
        rows.append([one.label, str(found["data"]), f"{found['discount']:g}", value, logged, behind, rare])
        warnings += [f'<p class="said">{escape(f"{one.label}: {text}")}</p>' for text in found["warnings"]]
    head = ["run", "log", "discount", "value", "return of the log", "effective transitions", "rarely logged actions"]
    return html_table(head, rows) + "".join(warnings) if rows else ""


def wrong_estimate(found: dict[str, Any]) -> str:
    """Say in a clause why an estimate.json is none; empty if it is one."""
    numbers = ("value", "low", "high", "discount", "transitions", "effective_transitions", "rare")
    missing = [name for name in numbers if not is_number(found.get(name))]
    if missing:
        return f"it has no number {missing[0]}"
    logged, warnings = found.get("logged"), found.get("warnings")
    if not isinstance(logged, dict) or not is_number(logged.get("value")) or not isinstance(warnings, list):
        return "it has no return of the log, or no warnings"
    return ""


def changes(runs: Sequence[ComparedRun]) -> str:
    """Return a table of each run's parent and changes; empty if there are none."""
    rows = [[one.name, said] for one in runs for said in history_sentences(one.run)]
    return html_table(["run", "what"], rows) if rows else ""


def text_samples(runs: Sequence[ComparedRun]) -> str:
    """Show the texts of each policy at the first, the middle and the last evaluation, if episodes are text."""
    parts = [
        f"<p>{escape(one.name)} {escape(title)}</p>{html_table(HEAD, rows)}"
        for one in runs
        for title, rows in tables(one.run)
    ]
    return f'<div class="texts">{"".join(parts)}</div>' if parts else ""


def films(runs: Sequence[ComparedRun], film: bool, progress: Callable[[str], None]) -> str:
    """Show each run's film; with `film`, make those that are missing or of an agent that has learned more since, or
    give the reason if one cannot be made.
    """
    parts = []
    for one in runs:
        found = [path for suffix in MOST if (path := one.run.directory / f"agent{suffix}").exists()]
        why = ""
        if film and not any(is_of_newest_agent(path, one.run.directory) for path in found):
            try:
                tell = partial(report_progress, progress, one.name)
                found = [watch(one.run.directory, steps=300, megabytes=3, progress=tell)[0]]
            except ForageError as error:
                found, why = [], f"No film of {one.name}: {error}"
        if found:
            parts.append(
                f"<figure>{embed_film(found[0], one.name)}<figcaption>{escape(one.name)}</figcaption></figure>"
            )
        elif why:
            parts.append(f'<p class="quiet">{escape(why)}</p>')
    return f'<div class="films">{"".join(parts)}</div>' if parts else ""


def is_of_newest_agent(film: Path, directory: Path) -> bool:
    """Return whether a film was made after the newest agents of a run were saved."""
    return film.stat().st_mtime_ns >= (directory / "agent.npz").stat().st_mtime_ns


def report_progress(tell: Callable[[str], None], label: str, episode: int, step: int, total: float) -> None:
    """Report the progress of a run's film."""
    tell(f"filming {label}: step {step:,} of 300 at most")


def embed_film(film: Path, label: str) -> str:
    """Return a film within the page itself."""
    data = base64.b64encode(film.read_bytes()).decode()
    if film.suffix == ".mp4":
        look = "controls loop muted playsinline"
        return f'<video {look} aria-label="{escape(label)} at play" src="data:video/mp4;base64,{data}"></video>'
    return f'<img alt="{escape(label)} at play" src="data:image/{film.suffix[1:]};base64,{data}">'


def sentences_of_runs(runs: Sequence[ComparedRun]) -> list[str]:
    """Return a sentence for each run with all facts that a reader needs to trust its number."""
    lines = []
    for one in runs:
        if one.scores is None:
            continue
        config = one.run.config
        total, seeds = one.total, len(one.scores)
        made = read_json(one.run.directory / "versions.json")
        interval = "no interval" if total.low is None else f"95 % interval [{total.low:.4g}, {total.high:.4g}]"
        evaluation = read_json(one.run.directory / "evaluation.json")
        episodes, steps = evaluation["episodes"], steps_made(one.run)
        lines.append(
            f"After {steps:,} steps {one.name} reaches a return of {total.value:.4g} on "
            f"{config['spec']['name']} ({name_of_mean(seeds)} over {seeds} "
            f"seed{'s' if seeds > 1 else ''} of {episodes} evaluation episodes each, {interval}"
            f"{f'; {cut_of(one.run)}' if cut_of(one.run) else ''}; forage "
            f"{made['forage']}, jax {made['jax']})."
        )
    return lines


def times(runs: Sequence[ComparedRun]) -> str:
    """Return the seconds of each run's last session by activity."""
    files = [one.run.directory / "time.json" for one in runs]
    found = [read_json(file) if file.exists() else {} for file in files]
    found = [{name: took for name, took in spent.items() if is_number(took)} for spent in found]
    if not any(found):
        return ""
    totals = [sum(spent.values()) for spent in found]

    def cell(spent: dict[str, float], name: str, total: float) -> str:
        return f"{spent[name]:.1f} s, {spent[name] / total:.0%}" if name in spent and total else ""

    rows = [
        [f"{name}: {meaning}", *(cell(spent, name, total) for spent, total in zip(found, totals, strict=True))]
        for name, meaning in ACTIVITIES.items()
        if any(name in spent for spent in found)
    ]
    return html_table(["", *(one.name for one in runs)], rows)


def version_table(runs: Sequence[ComparedRun]) -> tuple[list[str], list[list[str]]]:
    flat = [flatten_config(read_json(one.run.directory / "versions.json")) for one in runs]
    names = list(dict.fromkeys(name for made in flat for name in made))
    rows = [[name, *(made.get(name, "") for made in flat)] for name in names]
    return ["", *(one.name for one in runs)], [*rows, ["directory", *(str(one.run.directory) for one in runs)]]


def escape(text: Any) -> str:
    return html.escape(str(text))
