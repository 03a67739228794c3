"""The origin of a claim: the commit of its file, and the experiment in files from before claims were rows."""

from __future__ import annotations

import ast
import functools
import subprocess
from pathlib import Path

from forage.config import packages

WORDS = {"title", "authors", "year", "arxiv", "note", "paper", "smoke"}
"""Fields of a claim that describe the experiment, or the paper's, and are no part of it."""


PACKAGES = ("forage", *(package.name for package in packages.load_packages() if package.own))
"""The packages of the repository that identify the code of a claim's result."""


REWRITTEN = (
    ("Policy.load(", "load_policy("),
    (
        """
    road = from_config(run.config).road(run.config["devices"])
    assert isinstance(road, DeviceRoad)
    state, header = load(run.checkpoints[-1], road.shapes())
    road.restore(state, header["steps"])
    rollout = road.next_rollout()
""",
        """
    runner = from_config(run.config).runner(run.config["devices"])
    runner.load(run.checkpoints[-1])
    rollout = runner.next_rollout()
""",
    ),
)
"""Text of claims' files for an interface of the library that changed: its old and its new form."""


def commit_of(*paths: Path) -> str:
    """Return the last commit that changed any of these files; empty if there is no git, or it knows none of them."""
    return git(paths[0].parent, "log", "-1", "--format=%H", "--", *map(str, paths)).strip()


def git(directory: Path, *words: str) -> str:
    """Return git's output; empty if git is missing or fails."""
    try:
        said = subprocess.run(["git", "-C", str(directory), *words], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if said.returncode else said.stdout


@functools.cache
def experiment(source: str) -> str:
    """Return a claim's file, from before claims were rows, without its words: it is equal for equal experiments.

    Words are comments, docstrings, the fields in `WORDS`, the paths of imports from the library, and imports and
    constants without any use. Text in `REWRITTEN` is replaced by its present form.
    """
    for then, now in REWRITTEN:
        source = source.replace(then, now)
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Claim":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in WORDS]
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [line for line in body if not is_text(line) and not is_ours(line)]  # type: ignore
    unused: list[ast.stmt] = tree.body
    while unused:
        referred = referred_to(tree)
        unused = [line for line in tree.body if (names := names_of(line)) and not names & referred]
        tree.body = [line for line in tree.body if line not in unused]
    return ast.dump(tree)


def names_of(line: ast.stmt) -> set[str]:
    """Return the names that an import or a constant defines; none for other statements, and for the claim itself."""
    if isinstance(line, ast.Import | ast.ImportFrom):
        return {name.asname or name.name.partition(".")[0] for name in line.names}
    if isinstance(line, ast.Assign):
        return {target.id for target in line.targets if isinstance(target, ast.Name)} - {"CLAIM"}
    return set()


def referred_to(tree: ast.Module) -> set[str]:
    """Return all names that are read."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def is_ours(line: ast.stmt) -> bool:
    """Return whether a statement imports names from the library, which may be moved without effect."""
    return isinstance(line, ast.ImportFrom) and (line.module or "").partition(".")[0] in PACKAGES


def is_text(line: ast.stmt) -> bool:
    """Return whether a statement is only a string, as docstrings are."""
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
