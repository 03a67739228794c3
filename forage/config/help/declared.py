"""Declarations of parts and environments, read from their source without importing them, so that help is quick."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from pathlib import Path

from forage.config import packages
from forage.config.part_options import meaning_of, parse_comments
from forage.core.errors import ForageError
from forage.core.settings import Setting

ROOT = Path(__file__).parents[2]
QUOTED = r'(?P<raw>r?)"""(?P<text>.*?)"""'
MODULE, CLASS = (re.compile(head + QUOTED, re.DOTALL) for head in ("", r"(\([^\"']*?\))?:\s+"))
"""Patterns of a module's docstring, and of a class from the end of its name to its docstring's."""


def summary(target: str) -> str:
    """Return the first sentence of the docstring of the class that `module:Name` is.

    Where that goes on into a formula, the first sentence of the module's.
    """
    if row := row_of_settings(target):
        return first_sentence(row.summary)
    module, _, name = target.partition(":")
    text = quoted_docstring(module, name)
    if text is None:
        found = definition(module, name)
        text = ast.get_docstring(found) or "" if found else ""
    sentence = first_sentence(text)
    if sentence.endswith("."):
        return sentence
    text = quoted_docstring(module)
    return first_sentence((ast.get_docstring(parse_module(module)) if text is None else text) or sentence)


def quoted_docstring(module: str, name: str = "") -> str | None:
    """Return the docstring of a module, or of a class in it, as it stands there; None if only parsing would tell.

    Parsing takes most of the time of a list of all parts, and their docstrings stand in triple quotes.
    """
    text = source(module)
    place = class_place(text, name) if name else 0
    found = None if place is None else (CLASS if name else MODULE).match(text, place)
    if found is None or ("\\" in found["text"] and not found["raw"]):
        return None
    return inspect.cleandoc(found["text"])


def class_place(text: str, name: str) -> int | None:
    """Return the place behind a class's name in a module's text; None if there is no such class."""
    places = (f"\n{text}".find(f"\nclass {name}{end}") for end in "(:")
    return next((place + len(f"class {name}") for place in places if place >= 0), None)


def own_choices(target: str) -> str:
    """Return the numbers and rules of a part that are Forage's and not its paper's; empty for other parts."""
    if row := row_of_settings(target):
        return str(row.defaults.get("own_choices", ""))
    module, _, name = target.partition(":")
    if "own_choices" not in source(module) and class_place(source(module), name) is not None:
        return ""
    found = definition(*target.split(":"))
    for node in found.body if isinstance(found, ast.ClassDef) else ():
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "own_choices" and node.value:
            return str(ast.literal_eval(node.value))
    return ""


def row_of_settings(target: str) -> Setting | None:
    """Return the row of a named setting, whose module imports none of the parts; None for other classes."""
    module, _, name = target.partition(":")
    if not module.endswith(".settings") or not source(module):
        return None
    try:
        return getattr(packages.import_tables(module), "SETTINGS", {}).get(name)
    except ForageError:  # of a stranger's package; naming the part says so
        return None


def first_sentence(text: str) -> str:
    """Return the first paragraph of a docstring, up to its first full stop, on one line."""
    whole = " ".join(text.strip().partition("\n\n")[0].split())
    end = next((i for i, letter in enumerate(whole) if letter == "." and whole[i + 1 : i + 3].strip().istitle()), -1)
    return whole if end < 0 or whole[end - 2 : end + 1] == "al." else whole[: end + 1]


def meanings(target: str) -> dict[str, str]:
    """Return the options of the class or function that `module:Name` is, its bases' first, each with its meaning."""
    if row := row_of_settings(target):
        return meanings(row.base) | dict(row.meanings)
    module, _, name = target.partition(":")
    origin = origin_of(module, name)
    if origin and origin != target:  # a package that passes the class on
        return meanings(origin)
    found = definition(module, name)
    if isinstance(found, ast.FunctionDef):
        return {argument.arg: "" for argument in (*found.args.args, *found.args.kwonlyargs)}
    result: dict[str, str] = {}
    for base in found.bases if found else ():
        if isinstance(base, ast.Name) and (origin := origin_of(module, base.id)):
            result |= meanings(origin)
    if found:
        notes = parse_comments(class_source(module, found))
        for node in found.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not is_of_class(node):
                option = node.target.id
                result[option] = notes.get(option) or result.get(option) or meaning_of(option, module)
    return result


def class_source(module: str, node: ast.ClassDef) -> str:
    """Return the lines of a class, with the comments behind its last statement."""
    lines = source(module).splitlines()
    end = node.end_lineno or node.lineno
    while end < len(lines) and re.match(r"\s+#", lines[end]):
        end += 1
    return "\n".join(lines[node.lineno - 1 : end]) + "\n"


def is_of_class(node: ast.AnnAssign) -> bool:
    """Return whether a name in a class is the class's own and no option."""
    return ast.unparse(node.annotation).startswith("ClassVar")


@functools.cache
def source(module: str) -> str:
    """Return the text of a module of Forage, or of a package that adds parts; empty for any other."""
    if module.startswith("forage."):
        path = ROOT.joinpath(*module.split(".")[1:])
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    else:
        path = packages.source_file(module) if packages.package_of(module) else None
    return path.read_text(encoding="utf-8", errors="replace") if path and path.exists() else ""


@functools.cache
def parse_module(module: str) -> ast.Module:
    """Return a module's tree; an empty one for a module that Python cannot parse, as its import will say."""
    try:
        return ast.parse(source(module))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def statements(module: str) -> list[ast.stmt]:
    """Return the statements of a module, those for type checkers (`if TYPE_CHECKING`) among them."""
    found: list[ast.stmt] = []
    for node in parse_module(module).body:
        checked = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        found += node.body if checked else [node]
    return found


def definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef | None:
    """Return the definition of a class or a function in a module, or in the module that it is imported from."""
    for node in statements(module):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    origin = origin_of(module, name)
    return definition(*origin.split(":")) if origin and origin != f"{module}:{name}" else None


def origin_of(module: str, name: str) -> str | None:
    """Return `module:Name` of the definition that a module calls `name`, if it is Forage's."""
    if row_of_settings(f"{module}:{name}"):
        return f"{module}:{name}"
    for node in statements(module):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return f"{module}:{name}"
        if isinstance(node, ast.ImportFrom):
            for one in node.names:
                if (one.asname or one.name) == name and source(node.module or ""):
                    return f"{node.module}:{one.name}"
    return None
