"""The command: train the missing runs of a study, and write its tables and pictures."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from forage.config.ranges import check_call
from forage.core.errors import ForageError
from forage.runs.run import check_no_others
from forage.studies.study.design import Design, check_pairs, path_name, read_design, store_design
from forage.studies.study.pictures import draw_study
from forage.studies.study.running import Work, parse_jobs, progress_text, run_cells
from forage.studies.study.summary import StudyResult, cautions, collect_results
from forage.studies.study.tables import (
    aggregates_csv,
    improvement_sentences,
    latex,
    markdown,
    scores_csv,
    study_tables,
    write_text,
)


def study(
    design: str | os.PathLike[str] | Mapping[str, Any],
    directory: str | os.PathLike[str] | None = None,
    *,
    jobs: int | str = 1,
    display: str = "quiet",
    anyway: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> StudyResult:
    """Train agents in environments with seeds, and write tables and pictures of all of them. Return the results.

    `design`: a file, the directory of a study, or a mapping such as `{"agents": ["ppo", "dqn"], "environments":
    ["CartPole-v1", "Acrobot-v1"], "seeds": 5, "steps": 100_000}`; other keys are settings of all runs. Each cell is a
    run below `directory`. The same call continues a study that was stopped, and processes that call it at once share
    its cells. `jobs`: processes on this machine, or `ray:N`. `display`: that of each run, as in `forage.train`.
    `anyway`: continue runs although code or versions differ. `note` receives a line for each cell.

    Examples:
        >>> forage.study({"agents": ["ppo"], "environments": ["CartPole-v1"], "seeds": 3})  # doctest: +SKIP
    """
    check_call(study, {"directory": directory, "display": display, "anyway": anyway})
    parse_jobs(jobs)
    found = read_design(design)
    path = study_directory(design, found) if directory is None else Path(directory)
    if (path / "config.json").exists():
        raise ForageError(f"{path} holds a run; name another directory, where a study can be kept.")
    check_no_others(path, ["study.json"], lambda stored: {"agents", "environments"} <= stored.keys())
    check_pairs(found)
    store_design(path, found)
    cells = found.cells()
    note(f"{found.name}: {len(cells)} runs in {path}, {progress_text(cells, path)} complete")
    failed = run_cells(cells, path, jobs, Work(display, anyway, note))
    result = collect_results(found, path, failed)
    if not result.scores:
        raise ForageError(f"No run of the study is complete: {next(iter(failed.values()), 'none was trained.')}")
    write_results(result)
    return result


def study_directory(source: Any, design: Design) -> Path:
    """Return the default directory of a study: the name of its file, or its agents and environments."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return path if path.is_dir() else Path("runs") / path.stem
    return Path("runs") / path_name(f"{'+'.join(design.agents)}-in-{'+'.join(design.environments)}")[:120]


def write_results(result: StudyResult) -> list[Path]:
    """Write the tables and pictures of a study into its directory. Return their paths."""
    pictures = draw_study(result)
    return [*write_tables(result, pictures), *pictures]


def write_tables(result: StudyResult, pictures: Sequence[Path] = ()) -> list[Path]:
    """Write the tables of a study; its page shows these pictures. Return their paths."""
    shown = [path.name for path in pictures if path.suffix == ".svg"]
    texts = {
        "study.md": markdown(result, shown),
        "study.tex": latex(result),
        "scores.csv": scores_csv(result),
        "aggregates.csv": aggregates_csv(result),
    }
    return [write_text(result.directory / name, text) for name, text in texts.items()]


def study_sentences(result: StudyResult) -> list[str]:
    """Return the tables as aligned lines, and the sentences below them."""
    lines = []
    for table in study_tables(result):
        rows = [table.head, *table.rows]
        widths = [max(len(row[at]) for row in rows) for at in range(len(table.head))]
        lines.append(table.caption)
        lines += ["  " + "  ".join(f"{c:{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [*improvement_sentences(result), *cautions(result)]
    return [
        *lines,
        f"{result.directory / 'study.md'} has it with pictures, study.tex, scores.csv and aggregates.csv too",
    ]


def study_data(result: StudyResult) -> dict[str, Any]:
    """Return the results for JSON."""
    return {
        "directory": str(result.directory),
        "scores": [one._asdict() for one in result.scores],
        "scales": {task: scale._asdict() for task, scale in result.scales.items()},
        "aggregates": {
            agent: {name: [one.value, one.low, one.high] for name, one in scores.items()}
            for agent, scores in result.aggregates().items()
        },
        "failed": result.failed,
        "cautions": cautions(result),
    }
