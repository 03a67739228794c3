"""The claim a result belongs to: a fingerprint of its file, and the commit that held the file when the run began."""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from forage.errors import ForageError

WORDS = ("title", "authors", "year", "arxiv", "note", "measured", "judged_by", "paper", "smoke")
"""Fields of a claim that change nothing in the experiment. `statement` is none of them: it is what is judged."""


def stripped(source: str) -> ast.Module:
    """Parse a claim's file and leave out docstrings, imports, the fields in `WORDS` and constants of theirs alone."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Claim":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in WORDS]
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    tree.body = [
        node
        for node in tree.body
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and not (isinstance(node, ast.Assign) and _name(node) not in used | {"CLAIM"})
    ]
    return tree


def fingerprint(source: str) -> str:
    """Hash what a claim's file says of the experiment; comments, layout and `WORDS` do not count."""
    return hashlib.sha256(ast.unparse(stripped(source)).encode()).hexdigest()[:12]


def parts(source: str) -> dict[str, str]:
    """Return each part of the experiment as text, by its name: the claim's fields, and what else the file defines."""
    found: dict[str, str] = {}
    for node in stripped(source).body:
        value = getattr(node, "value", None)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "Claim":
            found |= {keyword.arg or "": ast.unparse(keyword.value) for keyword in value.keywords}
        elif isinstance(node, ast.Assign):
            found[_name(node)] = ast.unparse(node.value)
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = ast.unparse(node)
    return found


def not_fresh(fingerprint: str, seeds: Iterable[int], earlier: Iterable[Mapping[str, Any]]) -> list[int]:
    """Return the seeds on which another version of the experiment was run before."""
    used = {seed for result in earlier if result["fingerprint"] != fingerprint for seed in result["seeds"]}
    return sorted(used & set(seeds))


def claim_file(path: Path, must: bool) -> dict[str, Any]:
    """Return the fingerprint of a claim's file and the last commit that changed it.

    `commit` is None where the file is not kept in git, as in an installed package, and where it differs from what was
    committed. With `must` the latter is an error: what is compared is fixed before the first run at full scale.
    """
    known: dict[str, Any] = {"fingerprint": fingerprint(path.read_text()), "commit": None}
    if not (commit := _git(path, "log", "-1", "--format=%H")):
        if must and _git(path, "status", "--porcelain").startswith("??"):
            raise ForageError(_uncommitted(path))
        return known
    if _git(path, "status", "--porcelain"):
        if must:
            raise ForageError(_uncommitted(path))
        return known
    return known | {"commit": commit}


def _name(node: ast.Assign) -> str:
    return ast.unparse(node.targets[0])


def _uncommitted(path: Path) -> str:
    return f"{path} differs from what is committed; commit it before its full scale, or try it with --scale smoke."


def _git(path: Path, *words: str) -> str:
    """Ask git about one file. Returns an empty text where there is no git, no repository, or nothing to say."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", *words, "--", path.name]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10, cwd=path.parent, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""
