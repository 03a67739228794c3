"""The citation of a run: Forage at its version, a sentence with its number, and the papers of its parts."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from forage.config import registry
from forage.core.plain import package_version
from forage.runs.run import Run, read_json
from forage.studies.comparison.gathering import ComparedRun, scores_of
from forage.studies.report.page import sentences_of_runs

TITLE = "Forage: reinforcement learning with one loop, seven ports and honest numbers"
AUTHOR = "The Forage developers"

YEAR = re.compile(r"\b(19|20)\d\d\b")


def cite(directory: str | os.PathLike[str] | None = None) -> str:
    """Return a BibTeX entry for Forage and, of a run, its sentence and its parts' papers."""
    if directory is None:
        return software({"forage": package_version("forage-rl")})
    run = Run(directory)
    blocks = [software(read_json(run.directory / "versions.json"))]
    if run.evaluation and not run.config["sweep"]:
        blocks += sentences_of_runs([ComparedRun(run.config["agent"]["part"], run, scores_of(run))])
    papers = [f"{name}: {paper}" for name, paper in sources(run.config).items()]
    if papers:
        blocks.append("\n".join(["The papers of its parts, as the parts name them:", *papers]))
    return "\n\n".join(blocks)


def software(made: dict[str, Any]) -> str:
    """Return the BibTeX entry of Forage at the version, code and date that a run's versions.json names."""
    code = ", ".join(f"{what} {made[key]}" for key, what in (("code", "code"), ("git", "commit")) if made.get(key))
    fields = {
        "title": f"{{{TITLE}}}",  # BibTeX keeps the capitals of what stands in braces of its own
        "author": f"{{{AUTHOR}}}",
        "version": made["forage"],
        "year": made.get("date", "")[:4],
        "note": code,
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join(["@software{forage,", *lines, "}"])


def sources(config: dict[str, Any]) -> dict[str, str]:
    """Return the paper of each part of a configuration; parts that name none are left out.

    It is what the part's class, or its file, calls its source, or else the first that it names with a title, or with a
    number at arXiv.
    """
    papers = {}
    for name in parts_of(config):
        cls = part_class(name)
        texts = [cls.__doc__, sys.modules[cls.__module__].__doc__] if cls else []
        found = [one for text in texts for one in split_sentences(text or "") if YEAR.search(one)]
        named = [one for mark in ("Source", '"', "arXiv") for one in found if mark in one]
        if named:
            papers[name] = re.sub(r"^Sources?: ", "", named[0])
    return papers


def parts_of(config: Any) -> Iterator[str]:
    """Return the names of all parts in a configuration, each once, those within others too."""
    found: dict[str, None] = {}

    def look(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("part"), str):
                found[value["part"]] = None
            value = list(value.values())
        if isinstance(value, list | tuple):
            for inner in value:
                look(inner)

    look(config)
    return iter(found)


def part_class(name: str) -> type | None:
    """Return the class of a part by its name or its file; `None` if the file is gone."""
    target = next(filter(None, (registry.target_of(port, name) for port in registry.PORTS)), None)
    return registry.load(target) if target else None


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a docstring's prose, each on one line."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    prose = [" ".join(paragraph.split()) for paragraph in paragraphs if not paragraph.startswith(" ")]
    return [sentence for paragraph in prose for sentence in re.split(r"(?<=\.)\s+(?=[A-Z`])", paragraph)]
