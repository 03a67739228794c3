"""The tables of a study: Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from forage.core.storage import archives
from forage.evaluation.statistics import Score, name_of_mean
from forage.studies.study.summary import AGGREGATES, StudyResult, cautions

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


class StudyTable(NamedTuple):
    """A table in words: its caption, its head and its rows; `best` are cells (row, column) that no other beats."""

    caption: str
    head: list[str]
    rows: list[list[str]]
    best: set[tuple[int, int]]
    label: str


def study_tables(result: StudyResult) -> list[StudyTable]:
    """Return the table over all environments and that of each one; the former is missing without complete agents."""
    return [table for table in (aggregate_table(result), task_table(result)) if table.rows]


def aggregate_table(result: StudyResult) -> StudyTable:
    """Return the aggregates of normalised scores, a row for each complete agent."""
    found, names = result.aggregates(), list(AGGREGATES)
    rows = [[agent, *(score_cell(scores[name]) for name in names)] for agent, scores in found.items()]
    best = set()
    for column, name in enumerate(names, 1):
        values = [scores[name].value for scores in found.values()]
        top = min(values, default=0.0) if name == "optimality gap" else max(values, default=0.0)
        best |= {(row, column) for row, value in enumerate(values) if value == top}
    tasks, seeds = len(result.design.environments), len(result.design.seeds)
    number = f"{tasks} environment{'s' * (tasks > 1)}, {seeds} seed{'s' * (seeds > 1)} each"
    caption = (
        f"Aggregates of normalised scores over {number}; 95 % bootstrap intervals, stratified by environment. A "
        f"smaller optimality gap is better. The best value is bold, which need not be a significant difference."
    )
    return StudyTable(caption, ["agent", *names], rows, best if len(found) > 1 else set(), "aggregates")


def task_table(result: StudyResult) -> StudyTable:
    """Return the return in each environment, a row for each environment and a column for each agent."""
    found, agents = result.task_scores(), list(result.design.agents)
    rows, best = [], set()
    for number, task in enumerate(result.design.environments):
        cells = [found.get((agent, task)) for agent in agents]
        rows.append([task, *(score_cell(one, len(result.design.seeds)) for one in cells)])
        values = [one.value for one in cells if one is not None]
        if len(values) > 1:
            best |= {(number, at) for at, one in enumerate(cells, 1) if one is not None and one.value == max(values)}
    caption = (
        f"Mean return of the final evaluation: {name_of_mean(len(result.design.seeds))} over seeds, 95 % intervals."
    )
    return StudyTable(caption, ["environment", *agents], rows if found else [], best, "returns")


def score_cell(one: Score | None, seeds: int | None = None) -> str:
    """Return a score in a cell, with its number of seeds where fewer than all are there."""
    if one is None:
        return "\N{EN DASH}"
    text = str(one).rpartition(" (")[0]
    return text if seeds in (None, one.seeds) else f"{text} ({one.seeds} of {seeds})"


def markdown(result: StudyResult, pictures: Sequence[str] = ()) -> str:
    """Return the whole study as a page."""
    parts = [f"# {escape_markdown(result.design.name)}"]
    for table in study_tables(result):
        parts.append(table.caption)
        lines = [table.head, ["---"] * len(table.head)]
        for number, row in enumerate(table.rows):
            cells = [escape_markdown(cell) for cell in row]
            lines.append([f"**{c}**" if (number, at) in table.best else c for at, c in enumerate(cells)])
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    parts += [f"![{name}]({name})" for name in pictures]
    parts += [f"- {escape_markdown(line)}" for line in [*improvement_sentences(result), *cautions(result)]]
    scales = [[task, f"{one.low:.6g}", f"{one.high:.6g}", one.source] for task, one in result.scales.items()]
    lines = [["environment", "return of 0", "return of 1", "source"], ["---"] * 4]
    lines += [[escape_markdown(cell) for cell in row] for row in scales]
    parts += ["Scales of normalised scores:", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join(parts) + "\n"


def improvement_sentences(result: StudyResult) -> list[str]:
    """Describe the probability that one agent beats the next one."""
    return [
        f"A seed of {a} beats one of {b} with probability {chance.value:.2f}"
        + (
            f", 95 % CI {chance.low:.2f} to {chance.high:.2f}."
            if chance.low is not None and chance.high is not None
            else "."
        )
        for a, b, chance in result.improvements()
    ]


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#" else sign for sign in text.replace("\n", " "))


def latex(result: StudyResult) -> str:
    """Return the tables for a paper, with `booktabs`; best values are bold."""
    parts = ["% \\usepackage{booktabs}"]
    for table in study_tables(result):
        lines = [
            r"\begin{table}",
            r"  \centering",
            f"  \\caption{{{escape_latex(table.caption)}}}",
            f"  \\label{{tab:{table.label}}}",
            f"  \\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
            r"    \toprule",
            f"    {' & '.join(map(escape_latex, table.head))} \\\\",
            r"    \midrule",
        ]
        for number, row in enumerate(table.rows):
            cells = [escape_latex(cell) for cell in row]
            cells = [f"\\textbf{{{c}}}" if (number, at) in table.best else c for at, c in enumerate(cells)]
            # After the end of a row, LaTeX takes a bracket for a length.
            lines.append(f"    {'{}' * cells[0].startswith('[')}{' & '.join(cells)} \\\\")
        parts.append("\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]))
    return "\n\n".join(parts) + "\n"


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it is; a minus before a digit is one of mathematics."""
    text = "".join(LATEX.get(sign, sign) for sign in text.replace("\n", " "))
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", text).replace("\N{EN DASH}", "--")


def scores_csv(result: StudyResult) -> str:
    """Return a line for each seed of each run."""
    head = ["agent", "environment", "seed", "steps", "return", "normalised", "run"]
    rows = [[r.agent, r.task, r.seed, r.steps, repr(r.value), repr(r.normalised), r.run] for r in result.scores]
    return csv_text([head, *rows])


def aggregates_csv(result: StudyResult) -> str:
    """Return a line for each aggregate of each agent, and for the score in each environment."""
    head = ["agent", "environment", "statistic", "value", "low", "high", "seeds"]
    rows = [
        [agent, "", name, one.value, one.low, one.high, one.seeds]
        for agent, scores in result.aggregates().items()
        for name, one in scores.items()
    ]
    middle = name_of_mean(len(result.design.seeds))
    rows += [
        [agent, task, middle, one.value, one.low, one.high, one.seeds]
        for (agent, task), one in result.task_scores().items()
    ]
    return csv_text([head, *rows])


def csv_text(rows: Sequence[Sequence[object]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def write_text(path: Path, text: str) -> Path:
    """Write a file as a whole, so that two processes may do it at once."""
    archives.write_atomically(path, lambda file: file.write(text.encode()))
    return path
