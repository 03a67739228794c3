"""The dependencies of a claim's result, read from the source of the working tree or of any commit without running it.

Two answers. `claim_fingerprint` is one hash over all modules that a claim's runs can import, so that it changes with
any of them. `claim_settings` has a digest for each definition that affects the meaning of the numbers: measures and
helpers, seeds, the defaults of the parts and the statistics.
"""

from __future__ import annotations

import ast
import copy
import fnmatch
import functools
import hashlib
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from forage.config import packages
from forage.config.former import FORMER_OPTIONS, FORMER_WATCHED, with_former_words
from forage.studies.claims import rows
from forage.studies.claims.provenance import PACKAGES, experiment, is_text
from forage.studies.claims.rows import folders

FOLDERS = (*folders(), "forage.studies.claims.papers", "forage.claims")
"""The packages that hold claims, now and earlier, when each was a file."""

WHOLE = ("forage.studies.claims", "forage.claims", "forage.evaluation", *folders())
"""Packages with definitions that count whole in `claim_settings`; of all others, defaults count."""

TRAINING = ("forage.studies.claims.running", "forage.claims.running")
"""The module that trains and measures a claim's arms, and its former path."""

TABLES = ("registry", "catalogue", "ids")
"""Modules that hold tables of names, besides the packages of the ports."""

CLAIM = tuple(
    f"forage.studies.claims.claim:{name}" for name in ("Claim", "Arm", "Before", "PriorRun", "Scale", "Paper", "Rule")
)
"""The definitions that a row fills in, by all names that they have had, whose defaults it may rely on."""

JUDGING = (
    *(
        f"{package}.claim:{name}"
        for package in WHOLE[:2]
        for name in ("effects", "judged", "interval_verdict", "verdict", "join_verdicts")
    ),
    "forage.evaluation.statistics:score",
)
"""The definitions that turn scores into verdicts and intervals, by all names that they have had."""

BESIDE = tuple(f"forage.config.defaults:default_{port}" for port in ("behaviour", "memory", "starts"))
"""The definitions of an agent's default parts."""

CARRIES_OUT = ("forage.config.", "forage.runs.", "forage.cli.")
"""Packages that only execute settings: no default of their classes counts in `claim_settings`."""

PRESETS = (
    "forage.config.presets",
    *(package.presets.partition(":")[0] for package in packages.load_packages() if package.own and package.presets),
)
"""The modules of agents' settings for environments."""

MADE = "forage.environments."
"""The package of environments' makers: the defaults of its functions count in `claim_settings`."""


class Snapshot:
    """The source files of the packages, at a commit or in the working tree."""

    def __init__(
        self, blobs: dict[str, str], tables: dict[str, str], read: Callable[[list[str]], dict[str, str]]
    ) -> None:
        self.blobs = blobs  # git's id of each module's file, by the module's name
        self.tables = tables  # git's id of each file of claims' rows, by its path
        self._read = read
        self._neighbours: dict[str, frozenset[str]] = {}
        self._definitions: dict[str, tuple[dict[str, str], list[str]]] = {}
        self._reaches: dict[str, Reach] = {}

    def load(self, modules: Iterable[str]) -> None:
        """Read the files of these modules."""
        self._load(self.blobs[module] for module in modules)

    def _load(self, blobs: Iterable[str]) -> None:
        """Read all files of the snapshot at once if one of these is unread: each call takes a process."""
        if not all(blob in TEXTS for blob in blobs):
            TEXTS.update(self._read(sorted({*self.blobs.values(), *self.tables.values()} - TEXTS.keys())))

    @functools.cached_property
    def claim_rows(self) -> dict[str, Place]:
        """The row of each claim, by its name."""
        self._load(self.tables.values())
        found: dict[str, Place] = {}
        for path, blob in sorted(self.tables.items()):
            for name, table in rows.parse_rows(TEXTS[blob]).items():
                found.setdefault(name, Place(path, module_name(path).rpartition(".")[0], table))
        return found

    def claim_reach(self, claim: str) -> Reach:
        """Return the definitions that a claim's row names, and their own dependencies."""
        if claim not in self._reaches:
            self._reaches[claim] = find_reach(self, self.claim_rows[claim])
        return self._reaches[claim]

    def text(self, module: str) -> str:
        """Return the source of a module."""
        self.load([module])
        return TEXTS[self.blobs[module]]

    @functools.cached_property
    def part_targets(self) -> dict[str, str]:
        """Return `module:Class` of every named part, wrapper, environment and suite."""
        return find_named(self)

    @functools.cached_property
    def presets(self) -> list[Preset]:
        """All presets, in their order."""
        return find_presets(self)

    def neighbours(self, module: str) -> frozenset[str]:
        """Return the modules that one imports, or names in strings."""
        if module not in self._neighbours:
            blob = self.blobs[module]
            reached = set(module_imports(blob))
            strings = usual(blob) | (experiment_words(blob) if helps(module) else set())
            for word in strings:  # of ids with a suite's prefix, the suite
                target = self.part_targets.get(word) or self.part_targets.get(word.partition(":")[0], "")
                reached |= {target.partition(":")[0], target.replace(":", ".")}
            for one in list(reached):
                reached |= self.bases(one)
            reached |= {one.rpartition(".")[0] for one in reached}  # a package's own file is imported first
            self._neighbours[module] = frozenset(one for one in reached if one in self.blobs)
        return self._neighbours[module]

    def bases(self, name: str) -> set[str]:
        """Return the modules of the parts that a named setting, `module.Class`, builds on; empty for other names."""
        module, _, cls = name.rpartition(".")
        if not module.endswith(".settings") or module not in self.blobs:
            return set()
        here = parsed_at(self, module)
        row = here.defined.get(cls)
        if not isinstance(row, Row) or not isinstance(base := row.bases[0], ast.Name):
            return set()
        target = here.taken.get(base.id, f"{module}:{base.id}")
        return {target.partition(":")[0], *self.bases(target.replace(":", "."))}

    def definition(self, target: str) -> tuple[dict[str, str], list[str]]:
        """Return the digests of `module:name`, and the definitions that it refers to."""
        if target not in self._definitions:
            self._definitions[target] = define(self, target)
        return self._definitions[target]

    def module_of(self, claim: str) -> str | None:
        """Return the module of a claim's file, `None` if there is none."""
        found = (f"{folder}.{claim.replace('-', '_')}" for folder in FOLDERS)
        return next((module for module in found if module in self.blobs), None)


class Place(NamedTuple):
    """A claim's row in a snapshot."""

    path: str  # of its file
    folder: str  # the package in which the file is
    table: Mapping[str, Any]


class Reach(NamedTuple):
    """The definitions that a claim's row names, and their dependencies. Its experiment is the row with `sources`."""

    sources: dict[str, str]  # of definitions beside the row's file, by `module:name`, without docstrings and types
    targets: list[str]  # `module:name` of definitions elsewhere
    words: frozenset[str]  # text in the row and in `sources`


TEXTS: dict[str, str] = {}
"""The text of each file that was read, by git's id of it: most are the same in many commits."""


def module_name(path: str) -> str:
    """Return the name of the module at a path below the repository's root."""
    return path.removesuffix(".py").removesuffix(".toml").replace("/", ".").removesuffix(".__init__")


def is_table(path: str) -> bool:
    """Return whether a path below the repository's root is that of a file of claims' rows."""
    return path.endswith(".toml") and module_name(path).rpartition(".")[0] in FOLDERS


def working_tree(root: Path, *packages: str) -> Snapshot:
    """Return the packages in the working tree at `root`, by default all of the repository."""
    blobs, tables = {}, {}
    for package in packages or PACKAGES:
        for path in (root / package.replace(".", "/")).rglob("*"):
            place = path.relative_to(root).as_posix()
            if path.suffix == ".py" or is_table(place):
                data = path.read_bytes()
                blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
                (blobs if path.suffix == ".py" else tables)[module_name(place) if path.suffix == ".py" else place] = (
                    blob
                )
                TEXTS.setdefault(blob, data.decode())
    return Snapshot(blobs, tables, lambda wanted: {})


@functools.cache
def at_commit(root: Path, commit: str) -> Snapshot | None:
    """Return the packages at a commit; `None` if git does not know it."""
    listed = git_bytes(root, "ls-tree", "-r", "-z", commit, "--", *PACKAGES)
    if not listed:
        return None
    blobs, tables = {}, {}
    for line in listed.decode().split("\0"):
        about, _, path = line.partition("\t")
        if path.endswith(".py"):
            blobs[module_name(path)] = about.split()[2]
        elif is_table(path):
            tables[path] = about.split()[2]

    def decode_blobs(wanted: list[str]) -> dict[str, str]:
        return {blob: data.decode() for blob, data in read_blobs(root, wanted).items()}

    return Snapshot(blobs, tables, decode_blobs)


def read_blobs(root: Path, blobs: list[str]) -> dict[str, bytes]:
    """Return the contents of git's objects, in one process."""
    said = git_bytes(root, "cat-file", "--batch", text="\n".join(blobs) + "\n") if blobs else b""
    found, at = {}, 0
    while at < len(said):
        head, at = said[at : (end := said.index(b"\n", at))].split(), end + 1
        if head[1] != b"missing":
            found[head[0].decode()] = said[at : at + int(head[2])]
            at += int(head[2]) + 1
    return found


def git_bytes(root: Path, *words: str, text: str = "") -> bytes:
    """Return git's answer; empty if there is none, or it refuses."""
    try:
        said = subprocess.run(["git", "-C", str(root), *words], input=text.encode(), capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return b"" if said.returncode else said.stdout


# Imports

IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]+)|import[ \t]+([^\n]+))", re.M)
FOR_TYPES = re.compile(r"^([ \t]*)if (?:typing\.)?TYPE_CHECKING:\n(?:\1[ \t]+[^\n]*\n|[ \t]*\n)*", re.M)
STRING = re.compile(r"Constant\(value='([\w:./-]+)'\)")  # in a dump of a syntax tree
USUAL = re.compile(r"""^[ \t]+usual_\w+[^=\n]*=[ \t]*["']([\w-]+)["']""", re.M)
NAMED = re.compile(r""""([\w:./-]+)":\s*(?:(?:Entry|Suite)\(\s*)?"([\w.]+):(\w+)\"""")


@functools.cache
def module_imports(blob: str) -> frozenset[str]:
    """Return the modules that a file may import anywhere in it, with the names that it takes from packages."""
    text = FOR_TYPES.sub("", TEXTS[blob])
    found = {module for module, name, _ in imports(text)} | {f"{module}.{name}" for module, name, _ in imports(text)}
    return frozenset(found)


def imports(text: str) -> Iterator[tuple[str, str, str]]:
    """Return the imports from the packages in a source: the module, the name taken from it, and its name there."""
    for module, names, plain in IMPORT.findall(text):
        taken = re.sub(r"#[^\n]*", "", names or plain).strip("() \t\n").split(",")
        for one in filter(None, map(str.strip, taken)):
            name, _, other = one.partition(" as ")
            place, name = (module, name.strip()) if module else (name.strip(), "")
            if place.partition(".")[0] in PACKAGES:
                yield place, name, other.strip() or name


def find_named(snapshot: Snapshot) -> dict[str, str]:
    """Return `module:Class` of every named part, wrapper, environment and suite."""
    holders = [m for m in snapshot.blobs if m.count(".") == 1 or m in PACKAGES or m.rpartition(".")[2] in TABLES]
    snapshot.load(holders)
    found: dict[str, str] = {}
    for holder in sorted(holders):
        for name, module, cls in name_rows(snapshot.blobs[holder]):
            places = (f"{holder}.{module}", f"{PACKAGES[0]}.environments.{module}", module)
            if place := next((one for one in places if one in snapshot.blobs), None):
                found[name] = f"{place}:{cls}"
    return found


@functools.cache
def name_rows(blob: str) -> tuple[tuple[str, str, str], ...]:
    """Return the rows of a file's tables of names: a name, a module and a class."""
    return tuple(NAMED.findall(TEXTS[blob]))


@functools.cache
def usual(blob: str) -> frozenset[str]:
    """Return the default parts of the agents in a file."""
    return frozenset(USUAL.findall(TEXTS[blob]))


def words_at(snapshot: Snapshot, module: str) -> frozenset[str]:
    """Return the short strings of a claim's file."""
    snapshot.load([module])
    return experiment_words(snapshot.blobs[module])


@functools.cache
def experiment_words(blob: str) -> frozenset[str]:
    """Return the short strings of a claim's file that are part of its experiment."""
    return frozenset(STRING.findall(experiment(TEXTS[blob])))


def modules(snapshot: Snapshot, claim: str) -> set[str]:
    """Return every module that the runs of a claim can import, anywhere in a file.

    These are the module that trains its arms, and the modules of the functions, parts, environments and suites that its
    row names; their imports, and so on; and the parts that helpers and agents' `usual_...` fields name in strings. For
    a claim from before claims were rows, its file takes the place of the row.
    """
    if claim in snapshot.claim_rows:
        named = set()
        for target in snapshot.claim_reach(claim).targets:
            named |= {target.partition(":")[0], *snapshot.bases(target.replace(":", "."))}
        new = {one for module in named for one in (module, module.rpartition(".")[0]) if one in snapshot.blobs}
    elif file := snapshot.module_of(claim):
        new = {file}
    else:
        return set()
    found: set[str] = set()
    new |= {module for module in TRAINING if module in snapshot.blobs}
    while new:
        found |= new
        snapshot.load(new)
        new = {other for module in new for other in snapshot.neighbours(module)} - found
    return found


def helps(module: str) -> bool:
    """Return whether a module is a claim's file or a helper of such files."""
    return module.rpartition(".")[0] in (*WHOLE[:2], *FOLDERS) and module not in TRAINING


def claim_fingerprint(snapshot: Snapshot, claim: str) -> str:
    """Return a hash over a claim's row and all modules that its runs can import; empty for an unknown claim."""
    found = sorted(modules(snapshot, claim))
    told = "\n".join(f"{module} {snapshot.blobs[module]}" for module in found)
    if claim in snapshot.claim_rows:
        told += f"\n{experiment_of(snapshot, claim)}"
    return hashlib.sha256(told.encode()).hexdigest()[:16] if found else ""


# Rows


def experiment_of(snapshot: Snapshot, claim: str) -> str:
    """Return a claim's experiment as text: that of its row and of the functions in its folder, or of its file.

    Empty for an unknown claim.
    """
    if claim in snapshot.claim_rows:
        sources = snapshot.claim_reach(claim).sources.items()
        texts = sorted(with_former_words(f"{name} {text}") for name, text in sources)
        return "\n".join([rows.experiment(snapshot.claim_rows[claim].table), *texts])
    module = snapshot.module_of(claim)
    return experiment(snapshot.text(module)) if module else ""


def paths_of(snapshot: Snapshot, claim: str) -> set[str]:
    """Return the modules of a claim's row: its file, and those in its folder that define its functions."""
    if claim not in snapshot.claim_rows:
        return set()
    return {
        module_name(snapshot.claim_rows[claim].path),
        *(one.partition(":")[0] for one in snapshot.claim_reach(claim).sources),
    }


def find_reach(snapshot: Snapshot, row: Place) -> Reach:
    """Return the definitions that a row names, and those that definitions in its folder refer to."""
    table = {key: value for key, value in row.table.items() if key not in rows.WORDS}
    said = set(rows.strings(table))
    left = [target for name in rows.functions(table) if (target := function_at(snapshot, row.folder, name))]
    sources: dict[str, str] = {}
    targets = [snapshot.part_targets[word] for word in said if word in snapshot.part_targets]
    targets += [word for word in said if word.partition(":")[0] in snapshot.blobs]
    while left:
        place = find(snapshot, target := left.pop())
        if place is None or place[0].rpartition(".")[0] != row.folder:
            targets.append(target)
            returned = getattr(place[1], "returns", None) if place else None  # the class that a maker returns
            targets += names_in(snapshot, place[0], returned) if place and returned else []
            continue
        name = f"{place[0]}:{target.partition(':')[2]}"
        if name not in sources:
            sources[name] = without_words(place[1])
            said |= set(STRING.findall(sources[name]))
            left += referred_names(snapshot, place[0], place[1])
    suites = {snapshot.part_targets.get(word.partition(":")[0], "") for word in said}
    return Reach(sources, sorted({*targets, *suites} - {""}), frozenset(said))


def function_at(snapshot: Snapshot, folder: str, name: str) -> str:
    """Return `module:name` of a function that a row names; empty if there is none."""
    module, _, attribute = name.rpartition(":")
    places = [f"{folder}.{module}", module] if module else list(rows.SHARED)
    found = (f"{place}:{attribute}" for place in places if find(snapshot, f"{place}:{attribute}"))
    return next(found, "")


# Settings


class Module(NamedTuple):
    """The definitions of a file."""

    tree: ast.Module
    defined: dict[str, ast.stmt]  # functions, classes and constants, by name
    taken: dict[str, str]  # what it imports from the packages: a module or `module:name`, by the name that it has here


@functools.cache
def parse_module(blob: str) -> Module:
    """Return the definitions of a file, by git's id of it."""
    defined: dict[str, ast.stmt] = {}
    tree = ast.parse(TEXTS[blob])
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign):
            defined |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined[node.target.id] = node
    taken = {here: f"{module}:{name}" for module, name, here in imports(TEXTS[blob]) if name}
    if isinstance(table := defined.get("SETTINGS"), ast.Assign) and isinstance(table.value, ast.Dict):
        for name, call in zip(table.value.keys, table.value.values, strict=True):
            if isinstance(name, ast.Constant) and isinstance(call, ast.Call) and call.args:
                target = str(ast.literal_eval(call.args[0]))
                base = target.partition(":")[2]
                taken[base] = target
                defined[str(name.value)] = setting_class(str(name.value), base, call)
    return Module(tree, defined, taken)


ABOUT = ("summary", "source", "example", "words", "meanings")
"""Arguments of a named setting's row that are no defaults."""


class Row(ast.ClassDef):
    """The class that a row of named settings stands for."""


def setting_class(name: str, base: str, call: ast.Call) -> Row:
    """Return the class of a row, as if it were written out."""
    lines: list[ast.stmt] = [
        ast.AnnAssign(ast.Name(one.arg), ast.Constant(""), one.value, simple=1)
        for one in call.keywords
        if one.arg and one.arg not in ABOUT
    ]
    return Row(name, [ast.Name(base)], [], lines, [])


def claim_settings(snapshot: Snapshot, claim: str) -> dict[str, str]:
    """Return a digest of each setting that decides the meaning of a claim's scores, by its name.

    `area`, a measure, a helper or a constant, counts whole; `PPO.epochs` is the default of a part's field, wherever
    among its bases it is set; `river_swim(size)` the default of an argument.
    """
    if claim in snapshot.claim_rows:
        reach = snapshot.claim_reach(claim)
        found = by_former_names(follow_definitions(snapshot, [*reach.targets, *CLAIM, *BESIDE]))
        return found | {preset.name: preset.digest for preset in snapshot.presets if preset.fits(reach.words)}
    file = snapshot.module_of(claim)
    if file is None:
        return {}
    told = words_at(snapshot, file)
    named = (snapshot.part_targets.get(word, "") for word in told)
    read = names_in(snapshot, file, parsed_at(snapshot, file).tree)
    # What the file defines itself is its experiment, which is compared as a whole.
    outside = [one for one in read if not one.startswith(f"{file}:")]
    found = by_former_names(follow_definitions(snapshot, [*outside, *named, *BESIDE]))
    return found | {preset.name: preset.digest for preset in snapshot.presets if preset.fits(told)}


def by_former_names(digests: dict[str, str]) -> dict[str, str]:
    """Return digests by the former names of definitions and options, which all versions of a setting share."""
    found = {}
    for name, digest in digests.items():
        owner, rest = re.fullmatch(r"([^.(]*)(.*)", name).groups()  # pyrefly: ignore[missing-attribute]
        option = rest[1:] if rest.startswith(".") else ""
        former = FORMER_WATCHED.get(owner, owner) + (f".{FORMER_OPTIONS.get(option, option)}" if option else rest)
        found[FORMER_WATCHED.get(name, former)] = digest
    return found


class Preset(NamedTuple):
    """The settings of an agent in a family of environments."""

    agent: str
    patterns: list[str]  # of the environments' ids
    digest: str

    @property
    def name(self) -> str:
        return f"preset of {self.agent} for {' '.join(self.patterns)}"

    def fits(self, told: frozenset[str]) -> bool:
        """Return whether a claim that names these words in strings has the agent in such an environment."""
        return self.agent in told and any(fnmatch.filter(told, pattern) for pattern in self.patterns)


def find_presets(snapshot: Snapshot) -> list[Preset]:
    """Return all presets, as far as their agents and patterns are plain strings or constants of their file."""
    found = []
    for module in PRESETS:
        if module not in snapshot.blobs:
            continue
        here = parsed_at(snapshot, module)
        for call in ast.walk(here.tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Preset":
                agent, patterns = (constant(here, one) for one in call.args[:2])
                said = "".join(expand_source(here, one) for one in (*call.args[3:4], *call.args[5:], *call.keywords))
                found += [Preset(agent, patterns.split(), short(said))] if agent and patterns else []
    return found


def constant(here: Module, node: ast.expr) -> str:
    """Return a string, or that of a constant of the same file; empty for anything else."""
    if isinstance(node, ast.Name) and isinstance(line := here.defined.get(node.id), ast.Assign):
        node = line.value
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def expand_source(here: Module, node: ast.AST, seen: frozenset[str] = frozenset()) -> str:
    """Return a piece of source with that of the names from the same file that it refers to, and so on."""
    names = sorted({one.id for one in ast.walk(node) if isinstance(one, ast.Name)} & here.defined.keys() - seen)
    return without_words(node) + "".join(expand_source(here, here.defined[one], seen | set(names)) for one in names)


def statistics(snapshot: Snapshot) -> dict[str, str]:
    """Return a digest of each definition that turns scores into verdicts and intervals, by its name."""
    return by_former_names(follow_definitions(snapshot, JUDGING))


def follow_definitions(snapshot: Snapshot, targets: Iterable[str]) -> dict[str, str]:
    """Return the digests of definitions, each `module:name`, and of all definitions that they refer to."""
    left, seen = list(targets), set()
    found: dict[str, str] = {}
    while left:
        if (target := left.pop()) not in seen:
            seen.add(target)
            here, more = snapshot.definition(target)
            found |= here
            left += more
    return dict(sorted(found.items()))


def define(snapshot: Snapshot, target: str) -> tuple[dict[str, str], list[str]]:
    """Return the digests of `module:name`, and the definitions that it refers to."""
    place = find(snapshot, target)
    if place is None:
        return {}, []
    (module, node), name = place, target.partition(":")[2]
    whole = module.startswith(WHOLE) or target in BESIDE
    pieces: dict[str, tuple[str, ast.AST]] = {}
    if module.startswith(CARRIES_OUT) and not whole:
        return {}, []
    if isinstance(node, ast.FunctionDef) and not whole:
        arguments = defaults(node) if module.startswith(MADE) else ()
        pieces |= {f"{name}({argument})": (module, value) for argument, value in arguments}
    elif isinstance(node, ast.ClassDef):
        pieces |= {f"{name}.{field}": piece for field, piece in fields(snapshot, module, node).items()}
        if whole:
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            pieces |= {f"{name}.{one.name}": (module, one) for one in methods}
    else:
        pieces[name] = module, node
    found, more = {}, []
    for key, (where, piece) in pieces.items():
        found[key] = short(without_words(piece))
        more += referred_names(snapshot, where, piece)
    return found, more


def short(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def digest_of(value: object) -> str:
    """Return the digest that a default of this value has; lists are read as tuples, as JSON has no others."""
    value = tuple(value) if isinstance(value, list) else value
    return short(ast.dump(ast.parse(repr(value), mode="eval").body))


def find(snapshot: Snapshot, target: str) -> tuple[str, ast.stmt] | None:
    """Return the module that defines a name, and the definition, following modules that re-export it."""
    module, _, name = target.partition(":")
    while module in snapshot.blobs:
        here = parsed_at(snapshot, module)
        if name in here.defined:
            return module, here.defined[name]
        module, _, name = here.taken.get(name, "").partition(":")
    return None


def parsed_at(snapshot: Snapshot, module: str) -> Module:
    """Return the definitions of a module."""
    snapshot.load([module])
    return parse_module(snapshot.blobs[module])


def fields(snapshot: Snapshot, module: str, node: ast.ClassDef) -> dict[str, tuple[str, ast.expr]]:
    """Return the defaults of a class's fields, those of its bases included: the module and the value of each."""
    found: dict[str, tuple[str, ast.expr]] = {}
    for base in reversed(node.bases):
        base = base.value if isinstance(base, ast.Subscript) else base
        place = find(snapshot, target_of(snapshot, module, base.id)) if isinstance(base, ast.Name) else None
        if place and isinstance(place[1], ast.ClassDef):
            found |= fields(snapshot, place[0], place[1])
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value is not None:
            name, value, fixed = line.target.id, line.value, "ClassVar" in ast.dump(line.annotation)
            if isinstance(node, Row):
                value, fixed = replace_default(found[name][1], value) if name in found else value, name not in found
            found |= {} if fixed and not name.startswith("usual_") else {name: (module, value)}
    return found


def replace_default(declared: ast.expr, value: ast.expr) -> ast.expr:
    """Return the default of a field that is declared so, such as by `equinox.field`, with another value."""
    if not isinstance(declared, ast.Call) or all(one.arg != "default" for one in declared.keywords):
        return value
    again = copy.deepcopy(declared)
    for one in again.keywords:
        if one.arg == "default":
            one.value = value
    return again


def target_of(snapshot: Snapshot, module: str, name: str) -> str:
    """Return `module:name` of a name that a module uses; empty for names from elsewhere."""
    here = parsed_at(snapshot, module)
    return f"{module}:{name}" if name in here.defined else here.taken.get(name, "")


def referred_names(snapshot: Snapshot, module: str, node: ast.AST) -> list[str]:
    """Return `module:name` of the definitions that a piece of source refers to: by name, and parts in strings."""
    named = [snapshot.part_targets[string] for string in words_in(node).strings if string in snapshot.part_targets]
    return [*names_in(snapshot, module, node), *named]


def names_in(snapshot: Snapshot, module: str, node: ast.AST) -> list[str]:
    """Return `module:name` of all names that a piece of source reads."""
    found = []
    for name, attribute in words_in(node).names:
        target = target_of(snapshot, module, name)
        found.append(f"{target.replace(':', '.')}:{attribute}" if attribute else target)
    return [target for target in found if target]


class Words(NamedTuple):
    """The strings in a piece of source, and the names that it reads, each with an attribute that it takes of it."""

    strings: list[str]
    names: list[tuple[str, str]]  # `files.write_data` is `files` with `write_data`, and `files` with none


@functools.cache
def words_in(node: ast.AST) -> Words:
    """Return the words of a piece of source; most pieces are the same in many commits."""
    found = Words([], [])
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            found.strings.append(one.value)
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            found.names.append((one.id, ""))
        elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            found.names.append((one.value.id, one.attr))
    return found


def defaults(node: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Return the arguments of a function that have a default, with it."""
    plain = [*node.args.posonlyargs, *node.args.args]
    yield from zip((one.arg for one in plain[len(plain) - len(node.args.defaults) :]), node.args.defaults, strict=True)
    yield from (
        (one.arg, value) for one, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value
    )


@functools.cache
def without_words(node: ast.AST) -> str:
    """Return a piece of source without docstrings and types; most pieces are the same in many commits."""
    if isinstance(node, ast.expr):
        return ast.dump(node)
    node = copy.deepcopy(node)
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef):
            one.returns = None
        elif isinstance(one, ast.arg):
            one.annotation = None
        elif isinstance(one, ast.AnnAssign):
            one.annotation = ast.Constant("")
        if isinstance(body := getattr(one, "body", None), list):
            one.body = [line for line in body if not is_text(line)]  # type: ignore
    return ast.dump(node)
