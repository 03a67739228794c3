"""Find functions that PPO on CartPole and GRPO on text share, and write them into docs/language-reference.md.

python docs/make/shared.py           writes
python docs/make/shared.py --check   exits 1 when the table is not what it would write

It reads the source and runs nothing. From an agent and the runner that steps its environment it follows what is named:
functions, classes and bases that a body mentions by a name that its module defines or imports, classes that annotations
say it is given, and of each class so reached the methods whose name is mentioned somewhere that is reached (rapid type
analysis; Bacon, Sweeney, 1996, "Fast Static Analysis of C++ Virtual Function Calls"; from memory, the paper was not
looked up). Where two classes have a method of one name the table may have one too many; what is reached from one side
alone is not in it.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "language-reference.md"
BEGIN, END = "<!-- shared: docs/make/shared.py -->\n", "<!-- end of shared -->"
SIDES = (
    ("forage.agents.policy_gradient.ppo.PPO", "forage.loop.device.runner.DeviceRunner"),
    ("forage.agents.language.grpo.GRPO", "forage.loop.host.runner.HostRunner"),
)
FOLDERS = {
    "forage.ops": "operators",
    "forage.nn": "networks",
    "forage.agents": "agents",
    "forage.loop": "the loop",
    "forage.core": "the core",
}
CALLED = "__init__", "__call__", "__post_init__", "__check_init__"  # without their names being mentioned
LEFT_OUT = "forage.core.errors", "forage.core.types"  # which everything names


class Node(NamedTuple):
    """A function, a method or a class of the package, and what its code mentions."""

    names: frozenset[str]  # full names of functions, classes and modules' members
    attributes: frozenset[str]  # names behind a dot
    methods: tuple[str, ...] = ()  # of a class
    bases: tuple[str, ...] = ()
    runs: bool = False  # it is a function or a method


class Reader:
    """The package's source as nodes by their full names."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        paths = [path for path in (ROOT / "forage").rglob("*.py") if "claims" not in path.parts]
        self.modules = {self.module_of(path) for path in paths}
        for path in paths:
            self.read(self.module_of(path), ast.parse(path.read_text(encoding="utf-8")))

    @staticmethod
    def module_of(path: Path) -> str:
        parts = path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def read(self, module: str, tree: ast.Module) -> None:
        known: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                known |= {a.asname: a.name for a in node.names if a.asname and a.name.startswith("forage.")}
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("forage"):
                known |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        tops = [node for node in tree.body if isinstance(node, (*functions, ast.ClassDef))]
        known |= {node.name: f"{module}.{node.name}" for node in tops}
        # Tables and constants of a module belong to whoever names them.
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets += [node.target] if isinstance(node, ast.AnnAssign) else []
            for target in targets:
                if isinstance(target, ast.Name):
                    known[target.id] = f"{module}.{target.id}"
                    self.nodes[known[target.id]] = self.mentioned([node], known)
        for node in tops:
            full = f"{module}.{node.name}"
            if not isinstance(node, ast.ClassDef):
                self.nodes[full] = self.mentioned([node], known)._replace(runs=True)
                continue
            methods = [one for one in node.body if isinstance(one, functions)]
            rest = [one for one in node.body if not isinstance(one, functions)]
            found = self.mentioned([*rest, *node.bases], known)
            bases = tuple(found_name for base in node.bases if (found_name := self.full(base, known)))
            self.nodes[full] = found._replace(methods=tuple(one.name for one in methods), bases=bases)
            for one in methods:
                self.nodes[f"{full}.{one.name}"] = self.mentioned([one], known)._replace(runs=True)

    @staticmethod
    def full(node: ast.AST, known: dict[str, str]) -> str:
        """Return the full name that a name, or a member of a module, stands for; nothing for others."""
        if isinstance(node, ast.Name):
            return known.get(node.id, "")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
            return f"{known[node.value.id]}.{node.attr}"
        return ""

    def mentioned(self, nodes: list[ast.AST], known: dict[str, str]) -> Node:
        """Return what code mentions."""
        names: set[str] = set()
        attributes: set[str] = set()

        def visit(node: ast.AST) -> None:
            if found := self.full(node, known):
                names.add(found)
            if isinstance(node, ast.Attribute):
                attributes.add(node.attr)
            for child in ast.iter_child_nodes(node):
                visit(child)

        for node in nodes:
            visit(node)
        return Node(frozenset(names), frozenset(attributes))

    def reached(self, roots: tuple[str, ...]) -> set[str]:
        """Return the functions and methods that are reached from some classes."""
        found: set[str] = set()
        classes: set[str] = set()
        attributes: set[str] = set()
        waiting = list(roots)
        while waiting:
            while waiting:
                name = waiting.pop()
                if name in found or name not in self.nodes:
                    continue
                node = self.nodes[name]
                found.add(name)
                attributes |= node.attributes
                waiting += [*node.names, *node.bases]
                if node.methods:
                    classes.add(name)
            for name in classes:
                for method in self.nodes[name].methods:
                    full = f"{name}.{method}"
                    if full not in found and (method in attributes or method in CALLED):
                        waiting.append(full)
        return {name for name in found if self.nodes[name].runs}


def shared() -> dict[str, list[str]]:
    """Return what both sides reach: by module, the functions and methods."""
    reader = Reader()
    one, two = (reader.reached(roots) for roots in SIDES)
    found: dict[str, list[str]] = defaultdict(list)
    for name in sorted(one & two):
        module = max((m for m in reader.modules if name.startswith(f"{m}.")), key=len)
        last = name.rpartition(".")[2]
        if module.startswith(LEFT_OUT) or last.startswith("_"):
            continue
        found[module].append(name.removeprefix(f"{module}."))
    return dict(found)


def table() -> str:
    """Return the table, a part for each folder."""
    found = shared()
    lines = []
    for folder, title in FOLDERS.items():
        rows = {module: names for module, names in found.items() if module.startswith(f"{folder}.")}
        if rows:
            lines += [f"| {title} | functions that both reach |", "|---|---|"]
            lines += [f"| `{module}` | {', '.join(f'`{name}`' for name in names)} |" for module, names in rows.items()]
            lines += [""]
    return "\n".join(lines)


def main() -> int:
    """Write the table, or say whether it is as it would be written."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    new = f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"
    if "--check" in sys.argv[1:]:
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
