"""The page that compares Forage with other libraries: its links, and that it names every gap."""

import re
from pathlib import Path

from forage.config import registry

PAGE = Path(__file__).parents[3] / "docs" / "compared.md"
TEXT = PAGE.read_text()
HEAD = "| | Forage | SB3 + Zoo | CleanRL | TorchRL | rejax |"
SOURCES = dict(re.findall(r"^\[([^]]+)\]: (\S+)$", TEXT, re.MULTILINE))


def rows() -> list[list[str]]:
    lines = [line for line in TEXT.splitlines() if line.startswith("| ") and line != HEAD]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def says(cell: str) -> str:
    """Return a cell's words without its link."""
    return re.sub(r"\[([^]]+)\](\([^)]+\)|\[[^]]+\])", r"\1", cell)


def test_every_cell_says_yes_partly_or_no_and_the_first_two_lead_somewhere():
    for name, forage, *others in rows():
        assert len(others) == 4, name
        for cell in (forage, *others):
            assert re.match(r"(yes|partly)\b|no$", says(cell)), f"{name}: {cell}"
            assert ("[" in cell) == (says(cell) != "no"), f"{name}: {cell}"
        for cell in others:
            for source in re.findall(r"\]\[([^]]+)\]", cell):
                assert re.match(r"https://github\.com/[\w.-]+/[\w.-]+/blob/[0-9a-f]{7,}/", SOURCES[source]), source


def test_forage_cells_lead_to_pages_that_are_there():
    targets = [target for row in rows() for target in re.findall(r"\]\(([^)]+)\)", row[1])]
    assert len(targets) > 50 and all((PAGE.parent / target.partition("#")[0]).is_file() for target in targets)
    named = {target.partition("#")[2] for target in targets if ".py#" in target}
    assert len(named) > 20 and all(any(part in table for table in registry.tables().values()) for part in named)


def test_every_gap_is_named_above_the_tables():
    """A gap is a feature that Forage lacks, or has only in part, and two others have."""
    gaps = [
        name
        for name, forage, *others in rows()
        if not says(forage).startswith("yes") and sum(says(other).startswith("yes") for other in others) >= 2
    ]
    listed = TEXT.split("## What is missing here")[1].split("\n## ")[0]
    assert gaps and [line[2:].split(":")[0] for line in listed.splitlines() if line.startswith("- ")] == gaps
