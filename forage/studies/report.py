"""One page about one run or several: an HTML file that holds all it shows and needs no network."""

from __future__ import annotations

import base64
import contextlib
import html
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forage.core import checkpoint
from forage.core.errors import ForageError
from forage.evaluation.plots import curve, profiles
from forage.evaluation.profiles import score_distribution
from forage.evaluation.statistics import score
from forage.evaluation.thresholds import first_reached, median_time
from forage.runs.display import duration
from forage.runs.run import read_json
from forage.studies.compare import Compared, actions_of, cut_of, gather, reward_of, steps_of, verdicts

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2430; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
.quiet { color: #6b7280; font-size: .9rem; } .said { font-size: 1.05rem; margin: .35rem 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .92rem; width: 100%; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid #e6e8ec; }
th, td { vertical-align: top; min-width: 4.5rem; }
th { font-weight: 600; } td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
svg, img { max-width: 100%; height: auto; } .films { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; } figcaption { font-size: .85rem; color: #6b7280; }
blockquote { border-left: 3px solid #2563c9; margin: .6rem 0; padding: .2rem 0 .2rem 1rem; }
code { font-size: .88em; overflow-wrap: anywhere; } details { margin-top: .6rem; }
"""


def report(
    directories: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] = "report.html",
    threshold: float | None = None,
    film: bool = False,
) -> Path:
    """Write a page about runs, or their directories, and return its path.

    `threshold`: also says after how many steps, and how long, runs reached this return in training. `film`: makes a
    film of each run that has none, where its environment can be drawn.
    """
    path = Path(output)
    if path.suffix != ".html":
        raise ForageError(f"A report is an .html file, and {path.name} is none.")
    if threshold is not None and not np.isfinite(threshold):
        raise ForageError(f"A threshold is a number, not {threshold}.")
    runs = gather(directories)
    name = runs[0].run.config["spec"]["name"]
    agents = ", ".join(dict.fromkeys(one.run.config["agent"]["part"] for one in runs))
    sections = [
        f"<h1>{escape(agents)} on {escape(name)}</h1>",
        f'<p class="quiet">{escape(budget(runs))}</p>',
        *(f'<p class="said">{escape(line)}</p>' for line in verdicts(runs)),
        section("Learning", drawn_curves(runs, name)),
        section("Scores", table(*scores(runs, threshold))),
        section("How many seeds score how high", drawn_profiles(runs)),
        section("What differs" if len(runs) > 1 else "Settings", configurations(runs)),
        section("Films", films(runs, film)),
        section("As a paper would print it", "".join(f"<blockquote>{escape(s)}</blockquote>" for s in printed(runs))),
        section("Made with", table(*made_with(runs))),
    ]
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(agents)} on {escape(name)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(part for part in sections if part)
        + "\n</body></html>\n"
    )
    checkpoint.write_atomically(path, lambda file: file.write(text.encode()))
    return path


def budget(runs: Sequence[Compared]) -> str:
    """Return what the runs have in common: how long each was, and how it was scored."""
    run = runs[0].run
    acted: dict[str, list[str]] = {}
    for one in runs:
        acting = "drawn from the policy" if actions_of(one.run) == "sampled" else "the policy's best guess"
        acted.setdefault(acting, []).append(one.label)
    how = " or ".join(f"{acting} ({', '.join(who)})" if len(acted) > 1 else acting for acting, who in acted.items())
    steps, asked = steps_of(run), sorted({one.run.config["steps"] for one in runs})
    of = f", of the reward {reward_of(run)}" if run.config["spec"]["reward_names"] else ""
    stopped = f", where {' and '.join(f'{number:,}' for number in asked)} were asked for" if asked != [steps] else ""
    return (
        f"{steps:,} steps of each seed{stopped}; a score is the mean return of a seed's evaluation episodes, played "
        f"apart from training with {how}{of}. "
        "Numbers over seeds are interquartile means with 95 % intervals: the bootstrap's, or with fewer than five "
        "seeds Student's, of the mean."
    )


def section(title: str, content: str) -> str:
    return f"<h2>{escape(title)}</h2>\n{content}" if content else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; what is short and begins with a digit or a sign is set as a number."""

    def cell(text: str) -> str:
        number = ' class="number"' if len(text) < 16 and text[:1] in "-+0123456789" else ""
        return f"<td{number}>{escape(text)}</td>"

    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>\n" for row in rows)
    heads = "".join(f"<th>{escape(text)}</th>" for text in head)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>\n{body}</tbody></table></div>'


def drawn_curves(runs: Sequence[Compared], name: str) -> str:
    lines = []
    for one in runs:
        lines.append((one.label if not one.run.evaluations else f"{one.label}, in training", *one.run.curve()))
        if one.run.evaluations:
            lines.append((f"{one.label}, evaluated{one.run.evaluated_how}", *one.run.curve(evaluated=True)))
    return vector(lambda path: curve(path, lines, name))


def drawn_profiles(runs: Sequence[Compared]) -> str:
    """The share of seeds above each return."""
    scored = [(one.label, one.scores) for one in runs if one.scores is not None]
    together = np.concatenate([values for _, values in scored]) if scored else np.zeros(0)
    if not len(together) or together.min() == together.max():
        return ""  # one score, or none: nothing to tell apart
    margin = 0.05 * (together.max() - together.min())
    levels = np.linspace(together.min() - margin, together.max() + margin, 200)
    found = [(label, score_distribution(values, levels)) for label, values in scored]
    return vector(lambda path: profiles(path, found))


def vector(draw: Any) -> str:
    """A picture as SVG, to stand in the page itself."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "picture.svg"
        draw(path)
        text = path.read_text()
    return text[text.index("<svg") :]


def scores(runs: Sequence[Compared], threshold: float | None) -> tuple[list[str], list[list[str]]]:
    head = ["run", "return", "lowest and highest seed", "seeds", "episodes each", "time", "steps a second"]
    if threshold is not None:
        head += [f"steps until {threshold:g}", f"seconds until {threshold:g}"]
    rows = []
    for one in runs:
        last = one.run.rows[-1]
        seeds = len(one.run.config["seeds"])
        row = [one.label, "not evaluated", "", str(seeds), ""]
        if one.scores is not None:
            episodes = str(read_json(one.run.directory / "evaluation.json")["episodes"])
            between = f"{one.scores.min():.4g} to {one.scores.max():.4g}"
            row = [one.label, str(score(one.scores)), between, str(seeds), episodes]
        row += [duration(last["seconds"]), f"{seeds * last['steps'] / max(last['seconds'], 1e-9):,.0f}"]
        if threshold is not None:
            steps, values = one.run.curve()
            seconds = np.array([point["seconds"] for point in one.run.rows])
            row += [str(median_time(first_reached(axis, values, threshold))) for axis in (steps, seconds)]
        rows.append(row)
    return head, rows


def configurations(runs: Sequence[Compared]) -> str:
    """Return what is not the same in all runs; all settings of a run alone, and of every run folded away."""
    flat = [flattened(one.run.config) for one in runs]
    names = list(dict.fromkeys(name for settings in flat for name in settings))
    differing = [n for n in names if len({settings.get(n) for settings in flat}) > 1]
    rest = [n for n in names if n not in differing]
    head = ["setting", *(one.label for one in runs)]
    parts = []
    if differing:
        parts.append(table(head, [[n, *(settings.get(n, "") for settings in flat)] for n in differing]))
    elif len(runs) > 1:
        parts.append("<p>Nothing but the directory: the same settings were run again.</p>")
    same = table(["setting", "value"], [[n, flat[0][n]] for n in rest])
    word = "All settings" if len(runs) == 1 else "What is the same in all"
    parts.append(f"<details><summary>{word}</summary>{same}</details>")
    return "\n".join(parts)


def flattened(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """`{"agent.part": "ppo", ...}`."""
    found: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            value = {str(number): item for number, item in enumerate(value)}
        if isinstance(value, Mapping) and value:
            found |= flattened(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return found


def films(runs: Sequence[Compared], film: bool) -> str:
    parts = []
    for one in runs:
        path = one.run.directory / "agent.gif"
        if film and not path.exists():
            from forage.studies.watch import watch

            with contextlib.suppress(ForageError):  # what cannot be drawn has no film
                watch(one.run.directory, steps=300)
        if path.exists():
            data = base64.b64encode(path.read_bytes()).decode()
            image = f'<img alt="{escape(one.label)} at play" src="data:image/gif;base64,{data}">'
            parts.append(f"<figure>{image}<figcaption>{escape(one.label)}</figcaption></figure>")
    return f'<div class="films">{"".join(parts)}</div>' if parts else ""


def printed(runs: Sequence[Compared]) -> list[str]:
    """A sentence for each run that says all a reader must know to believe its number."""
    lines = []
    for one in runs:
        if one.scores is None:
            continue
        config = one.run.config
        total, seeds = score(one.scores), len(one.scores)
        made = read_json(one.run.directory / "versions.json")
        interval = "no interval" if total.low is None else f"95 % interval [{total.low:.4g}, {total.high:.4g}]"
        evaluation = read_json(one.run.directory / "evaluation.json")
        episodes, steps = evaluation["episodes"], evaluation.get("steps", one.run.rows[-1]["steps"])
        lines.append(
            f"After {steps:,} steps {one.label} reaches a return of {total.value:.4g} on "
            f"{config['spec']['name']} ({'interquartile mean over ' if seeds > 3 else 'mean over '}{seeds} "
            f"seed{'s' if seeds > 1 else ''} of {episodes} evaluation episodes each, {interval}"
            f"{f'; {cut_of(one.run)}' if cut_of(one.run) else ''}; forage "
            f"{made['forage']}, jax {made['jax']})."
        )
    return lines


def made_with(runs: Sequence[Compared]) -> tuple[list[str], list[list[str]]]:
    flat = [flattened(read_json(one.run.directory / "versions.json")) for one in runs]
    names = list(dict.fromkeys(name for made in flat for name in made))
    rows = [[name, *(made.get(name, "") for made in flat)] for name in names]
    return ["", *(one.label for one in runs)], [*rows, ["directory", *(str(one.run.directory) for one in runs)]]


def escape(text: Any) -> str:
    return html.escape(str(text))
