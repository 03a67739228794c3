"""Where a claim comes from: the commit of its file, and whether two versions of it are the same experiment."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

WORDS = {"title", "authors", "year", "arxiv", "note", "paper"}
"""Fields of a claim that say something of the experiment, or of the paper's, and are no part of it."""


def file_of(name: str) -> Path:
    """Return the file of the claim of this name."""
    return Path(__file__).with_name(f"{name.replace('-', '_')}.py")


def commit_of(path: Path) -> str:
    """Return the last commit that changed a file; empty where there is no git, or it does not know the file."""
    return git(path.parent, "log", "-1", "--format=%H", "--", path.name).strip()


def uncommitted(path: Path) -> bool:
    """Return whether a file differs from its last commit, or has none in a repository that has its neighbours."""
    return bool(git(path.parent, "ls-files", ".") and git(path.parent, "status", "--porcelain", "--", path.name))


def git(directory: Path, *words: str) -> str:
    """Return what git says; empty where there is none, or it refuses."""
    try:
        said = subprocess.run(["git", "-C", str(directory), *words], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if said.returncode else said.stdout


def experiment(source: str) -> str:
    """Return a claim's file without comments, docstrings and the fields that are words: the same for one experiment."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Claim":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in WORDS]
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [line for line in body if not is_text(line)]  # type: ignore
    return ast.dump(tree)


def is_text(line: ast.stmt) -> bool:
    """Return whether a statement is only a string, as docstrings are."""
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
