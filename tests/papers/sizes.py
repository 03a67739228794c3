"""Lines of a paper's module and of its test, as the limits for a new paper count them.

`python tests/papers/sizes.py` strikes files off the list of longer ones, `long.txt`, once they are short enough.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("long.txt")
CODE, WHOLE, TEST = 120, 250, 60
"""Lines of code of a module, its lines in all, and lines of code of a test."""
OF_ALL = (
    *("test_probes_papers.py", "test_claims.py", "test_looks.py", "test_published_results.py", "test_site.py"),
    *("test_benchmarks_papers.py", "test_resume_papers.py"),
)
"""Tests of all agents, claims or pages together, which are no single paper's."""
SPACE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def count_code(text: str) -> int:
    """Count the lines of a module that hold code: docstrings, comments and blank lines are left out."""
    described: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            described |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for token in tokens if token.type not in SPACE for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - described)


def is_long(path: Path) -> bool:
    """Return whether a module of a paper, or a test, is longer than a new one may be."""
    text = path.read_text(encoding="utf-8")
    if path.name.startswith("test_"):
        return path.name not in OF_ALL and count_code(text) > TEST
    return count_code(text) > CODE or len(text.splitlines()) > WHOLE


def long_files(root: Path = ROOT) -> list[str]:
    """Return the paths of all modules and tests of papers that are longer than a new one may be."""
    modules = [path for path in (root / "forage_papers").rglob("*.py") if is_of_a_part(path.relative_to(root))]
    tests = (root / "tests" / "papers").rglob("test_*.py")
    return sorted(path.relative_to(root).as_posix() for path in (*modules, *tests) if is_long(path))


def is_of_a_part(path: Path) -> bool:
    """Return whether a module of papers is no table: of parts, presets, settings or claims."""
    return path.parts[1] != "claims" and path.stem not in ("__init__", "presets", "settings")


def read_list() -> dict[str, int]:
    """Return the files that were long before there was a limit, each with its lines of code then."""
    rows = (line.split() for line in LIST.read_text().splitlines() if line)
    return {path: int(number) for number, path in rows}


if __name__ == "__main__":
    kept = {path: number for path, number in read_list().items() if path in long_files()}
    LIST.write_text("".join(f"{number:4} {path}\n" for path, number in kept.items()))
