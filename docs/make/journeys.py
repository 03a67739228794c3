"""Write docs/evidence/journeys.md: what people tried, what happened, and what they meet now, as tests/journeys says.

python docs/make/journeys.py

A test there is a row: its docstring says what was tried, `Before:` and `Now:`.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "journeys"
PAGE = ROOT / "docs" / "evidence" / "journeys.md"
GROUPS = ("numbers", "walls", "annoyances", "sentences")
HEAD = """\
# What people tried

People new to Forage worked from its README and pages alone, and wrote down what misled them, what stopped them and what
annoyed them. Each row is one of those journeys. *Before* is what they met then; a dot (•) marks the {again} that were
seen again at the commit `{commit}`, by when some of the others had been mended. *Now* is what a test of that row
meets, which does the same, in [tests/journeys](../../tests/journeys/{first}).
Written by `python docs/make/journeys.py` from those tests.
"""
COMMIT = "e8ab98a"


class Journey(NamedTuple):
    """What a test says of itself, and the texts that stand in its code."""

    name: str
    tried: str
    before: str
    now: str
    again: bool  # what happened before was seen at the commit
    texts: str


def journeys(path: Path) -> tuple[str, list[Journey]]:
    """Return the title of a file of tests, and its journeys."""
    tree = ast.parse(path.read_text())
    title = ast.get_docstring(tree) or ""
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return title, [journey(test) for test in tests]


def journey(test: ast.FunctionDef) -> Journey:
    """Return what a test says. Raise `ValueError` where its docstring does not say it."""
    said = ast.get_docstring(test) or ""
    found = re.fullmatch(r"(.+?)\n\nBefore( \(seen again\))?: (.+?)\nNow: (.+)", inspect.cleandoc(said), re.DOTALL)
    if found is None:
        raise ValueError(f"{test.name} does not say what was tried, Before: and Now:")
    tried, again, before, now = found.groups()
    nodes = [node for line in test.body[1:] for node in ast.walk(line)]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return Journey(test.name, line(tried), line(before), line(now), again is not None, "\n".join(texts))


def line(text: str) -> str:
    return " ".join(text.split())


def page() -> str:
    """Return the page's text."""
    groups = [journeys(TESTS / f"test_{group}.py") for group in GROUPS]
    again = sum(one.again for _, rows in groups for one in rows)
    parts = [HEAD.format(again=again, commit=COMMIT, first=f"test_{GROUPS[0]}.py")]
    for title, rows in groups:
        parts.append(f"## {title}\n\n| what people tried | before | now |\n|---|---|---|")
        parts[-1] += "".join(f"\n| {one.tried} | {one.before}{' •' * one.again} | {one.now} |" for one in rows) + "\n"
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
