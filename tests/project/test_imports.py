"""Imports run downward, wings do not know each other, and simple questions are answered without JAX."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small import environment

import forage
from forage.config.registry import PORTS
from forage.nn.residual import GAINS
from forage.ops.tokens.advantages import ADVANTAGES

ROOT = Path(forage.__file__).parent
ROOTS = {path.name: path for path in (ROOT, ROOT.with_name("forage_papers")) if path.exists()}
"""The core and, if it is installed too, the package of papers."""
WINGS = ("tasks", "starts", "behaviours", "rewards", "memory", "agents")

# What stands on a level may import what stands on lower ones, and its own neighbours in the same folder.
LEVELS: list[tuple[str, ...]] = [
    ("core",),
    ("data",),
    ("ops", "environments", "tasks"),
    ("nn",),
    ("starts", "behaviours", "rewards", "memory", "agents", "evaluation", "loop"),
    ("config",),
    ("runs", "presets", "settings"),
    ("studies",),
    ("cli", "claims"),
    ("__main__",),
]
LEVEL = {name: number for number, names in enumerate(LEVELS) for name in names}


def modules() -> dict[str, Path]:
    """Return the file of every module of both packages, by its full name."""
    found = {}
    for package, root in ROOTS.items():
        for path in root.rglob("*.py"):
            parts = (package, *path.relative_to(root).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def find_imports(path: Path, at_load: bool) -> set[str]:
    """Return the modules of this project that a file imports: at load, or anywhere except under TYPE_CHECKING."""
    return {name for name, loads in list_imports(path) if loads or not at_load}


@functools.cache
def list_imports(path: Path) -> list[tuple[str, bool]]:
    """Return the modules of this project that a file imports, each with whether it does so at load."""
    names: list[tuple[str, bool]] = []

    def visit(node: ast.AST, loads: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        loads = loads and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if isinstance(node, ast.Import):
            names.extend((alias.name, loads) for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            full = {alias: f"{node.module}.{alias.name}" for alias in node.names}
            names.extend((full[alias] if full[alias] in MODULES else str(node.module), loads) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):  # which holds no import
                visit(child, loads)

    visit(ast.parse(path.read_text()), True)
    return [(name, loads) for name, loads in names if name.partition(".")[0] in ROOTS and "." in name]


MODULES = modules()
INNER = sorted(name for name in MODULES if "." in name)


def folder(name: str) -> str:
    """Return the folder below its package that a module is in."""
    return name.split(".")[1]


def test_the_core_knows_no_papers():
    assert not [
        path for path in ROOT.rglob("*") if path.suffix in (".py", ".md") and "forage_papers" in path.read_text()
    ]


NAMED = (
    re.compile(r"""["']([a-z]\w*(?:-\w+)+)["']"""),  # a text that looks like none but a part's, with a hyphen
    re.compile(r"--(?:agent|behaviour|memory|rewards|starts|tasks)(?: |=)([a-z][\w-]*)"),
    re.compile(r"""(?:agent|behaviour|memory|rewards|starts|tasks)=["']([a-z][\w-]*)["']"""),
    re.compile(r"forage (?:train|tune|plan|show|claim) ([a-z][\w-]*)"),
    re.compile(r"""["'](?:train|tune|plan|show|claim)(?: |", "|', ')([a-z][\w-]*)"""),
    re.compile(r"""(?:resolve|train|tune|claim|refused)\(\s*["']([a-z][\w-]*)["']"""),
    re.compile(r"""(?:part|build|part_class)\(\s*["']\w+["'],\s*["']([a-z][\w-]*)["']"""),
)
"""Patterns of code that names a part or a claim."""
ABOUT_PACKAGES = (
    "test_imports.py",
    "words.py",
    "conftest.py",
    "without_papers.py",
    "test_annoyances.py",
    "test_words.py",
)
"""Files that name the package itself, or that install claims of such names."""


def part_names(text: str) -> set[str]:
    """Return the names of parts and claims in a text of code, and others that only look like them."""
    return {name for pattern in NAMED for name in pattern.findall(text)}


def test_names_of_parts_are_found():
    text = 'resolve("a", x, rewards="b")\nCASES = ["c-d", "e"]\nsaid = "use --starts f, or forage train g-h X"\n'
    assert part_names(text + "part('rewards', 'i'), here('claim', 'j')") == {"a", "b", "c-d", "f", "g-h", "i", "j"}
    assert not part_names('"not-a name", x["loop"], part, "a train of thought"')


@pytest.mark.skipif("forage_papers" not in ROOTS, reason="there are no papers here")
def test_the_core_and_its_tests_name_no_parts_of_papers():
    import forage_papers

    parts = {name for table in forage_papers.PARTS.values() for name in table}
    claims = set()
    for path in (ROOTS["forage_papers"] / "claims").glob("*.toml"):
        claims |= set(re.findall(r"^\[([\w-]+)\]", path.read_text(), re.MULTILINE))
    claims -= {name for table in PORTS.values() for name in table}  # a claim may have the name of its part
    parts, claims = (names - {*ADVANTAGES, *GAINS} for names in (parts, claims))  # choices of options of the core
    tests = ROOT.parent / "tests"
    of_tests = [path for path in tests.rglob("*.py") if "papers" not in path.parts and path.name not in ABOUT_PACKAGES]
    of_core = [path for path in ROOT.rglob("*.py") if path.name != "former.py"]  # of parts when all were in the core
    for files, names in ((of_core, parts), (of_tests, parts | claims)):
        texts = {path.relative_to(ROOT.parent).as_posix(): path.read_text() for path in files}
        assert not [name for name, text in texts.items() if "forage_papers" in text]
        found = {name: names & part_names(text) for name, text in texts.items()}
        assert not {name: named for name, named in found.items() if named}


def test_imports_run_downward():
    assert not {folder(name) for name in INNER} - set(LEVEL), "a folder has no place in the order of imports"
    wrong = []
    for name in INNER:
        for other in find_imports(MODULES[name], at_load=False):
            below, top = folder(other), folder(name)
            if below != top and not LEVEL[below] < LEVEL[top]:
                wrong.append(f"{name} imports {other}, which is not below it")
    assert not wrong


def imports_of(*folders: str) -> dict[str, set[str]]:
    """Return the modules in some folders, each with its imports."""
    return {name: find_imports(MODULES[name], at_load=False) for name in INNER if folder(name) in folders}


def test_no_wing_imports_another():
    wings = {name: {folder(other) for other in others} & set(WINGS) for name, others in imports_of(*WINGS).items()}
    assert not {name: found for name, found in wings.items() if not found <= {folder(name)}}


def test_what_knows_contracts_imports_core_alone():
    wrong = {}
    for name, imported in imports_of("environments", "tasks", "data", "loop").items():
        others = {other for other in imported if folder(other) not in (folder(name), "core")}
        if folder(name) == "environments":  # prompts of a file are rows of data
            others = {other for other in others if not other.startswith("forage.data.text.")}
        if others:
            wrong[name] = others
    assert not wrong


def family(name: str) -> str:
    """Return the folder below `agents` that a module is in."""
    return name.split(".")[2] if name.count(".") > 2 else ""


def test_no_family_of_agents_imports_another():
    wrong = {}
    for name, imported in imports_of("agents").items():
        others = {other for other in imported if folder(other) == "agents"}
        others -= {f"{root}.agents.settings" for root in ROOTS}  # a row is of the family of the agent that it builds on
        if not {family(other) for other in others} <= {family(name)}:
            wrong[name] = others
    assert not wrong


MOST = 25


def test_no_module_lies_loose_and_no_folder_is_too_full():
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py"}
    for root in ROOTS.values():
        folders = {path.parent for path in root.rglob("*.py")}
        full = {folder.relative_to(root).as_posix() for folder in folders if len(list(folder.glob("*.py"))) > MOST}
        assert not full


def test_no_circle():
    graph = {name: find_imports(path, at_load=True) & set(MODULES) for name, path in MODULES.items()}
    done: set[str] = set()

    def walk(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in done:
            for other in graph[name]:
                walk(other, (*trail, name))
            done.add(name)

    for name in graph:
        walk(name, ())


def modules_loaded_by(code: str) -> set[str]:
    """The modules that are loaded after some code ran in a fresh process."""
    code += "\nimport sys; print('LOADED', *sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    return set(result.stdout.split("LOADED ")[1].split())


def test_import_alone_is_cheap():
    loaded = modules_loaded_by("import forage")
    assert not {"jax", "numpy", "equinox", "gymnasium", "forage.core.errors"} & loaded


HEAVY = {"jax", "numpy", "equinox", "gymnasium", "optax", "rich", "matplotlib", "scipy"}


@pytest.mark.parametrize(
    "words", ["--help", "help", "train --help", "bogus", "train", "train pop CartPole-v1", "list pumpkins", "resume"]
)
def test_answers_that_need_no_jax_do_not_load_it(words):
    code = f"from forage.cli.entry import main\ntry:\n    main({words.split()!r})\nexcept SystemExit:\n    pass"
    loaded = modules_loaded_by(code)
    assert not HEAVY & loaded


def test_people_are_warned_by_notices():
    """The command line shows a notice as its sentence, and any other warning with a file, a line and its source."""
    others = [name for name, path in modules().items() if "warnings.warn(" in path.read_text()]
    assert others == ["forage.core.errors"]


def test_tests_mirror_the_package():
    tests = Path(__file__).parents[1]
    loose = {path.name for path in tests.glob("test_*.py")}
    folders = {path.name for path in tests.iterdir() if path.is_dir() and list(path.glob("test_*.py"))}
    apart = {"project", "journeys", "papers", "wrong"}  # what people do, across the whole package
    assert not loose and folders - apart <= {path.name for path in ROOT.iterdir() if path.is_dir()}
    papers = {path.parent.name for path in (tests / "papers").glob("*/test_*.py")}
    assert papers <= {"studies", "data", "project", *(path.name for root in ROOTS.values() for path in root.iterdir())}
