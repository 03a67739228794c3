"""The check of docstrings and names: rules over source text, and a command that lists the failures.

python tests/project/words.py docstrings [PATH]   every docstring that fails, with file and line
python tests/project/words.py names [PATH]        every name that fails
python tests/project/words.py first-words         first words of our names that no peer's names begin with
python tests/project/words.py random SEED         forty docstrings and forty names
python tests/project/words.py shares              the share of failures by kind and by folder
python tests/project/words.py peers FOLDER...     write words_of_peers.txt from these installed packages
"""

from __future__ import annotations

import ast
import gc
import random
import re
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = ("forage", "forage_papers", "tests")
PEERS = Path(__file__).with_name("words_of_peers.txt")
PORTS = "forage/core/ports"
MAX_WH_SHARE = 0.07
MAX_MODULES = 3
INTERFACES = {
    "canonical": "each suite of environments: an id in its one form",
    "describe_id": "each suite of environments: a line about an id",
    "ids": "each suite of environments: all ids",
    "main": "each program",
    "read_data": "each format of data",
    "run": "each command",
    "write_data": "each format of data",
}
"""Names that modules share as methods share a port's: the modules that define them."""


class Docstring(NamedTuple):
    """The docstring of a module, class, function or attribute."""

    path: str
    line: int
    owner: str
    text: str


class Name(NamedTuple):
    """The definition of a function, class or method."""

    path: str
    line: int
    owner: str  # dotted, within its module
    kind: str  # "class", "function", "method", "nested", or "attribute" of a port
    boolean: bool  # annotated to return truth values
    bases: tuple[str, ...]  # base classes of a class, by their last word


class Failure(NamedTuple):
    """A docstring or a name that breaks a rule."""

    path: str
    line: int
    owner: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.text or self.owner}"


Collected = tuple[list[Docstring], list[Name]]

# Source text


def sources(root: Path = ROOT, folders: Iterable[str] = FOLDERS) -> dict[str, str]:
    """Return the text of every Python file of these folders by its path."""
    paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


# A docstring, skipped whole; or a statement of one line, which holds neither docstrings nor definitions.
STATEMENT = re.compile(
    r'"""[\s\S]*?"""|^( +(?:return|raise|assert|[\w.]+ =) )([^\n]*[^\n,(\[{\\])$|^( +)([\w.]+\([^\n]*\))$', re.M
)


def shorten_statements(text: str) -> str:
    """Return the source with `0` in place of the values of simple statements, to halve the time of parsing."""

    def replacement(match: re.Match[str]) -> str:
        rest = match[2] or match[4]
        if (
            not rest
            or "'''" in rest
            or '"""' in rest
            or any(rest.count(a) != rest.count(b) for a, b in ("()", "[]", "{}"))
        ):
            return match[0]
        return f"{match[1] or match[3]}0"

    return STATEMENT.sub(replacement, text)


def parse_source(text: str) -> ast.Module:
    try:
        return ast.parse(shorten_statements(text))
    except SyntaxError:
        return ast.parse(text)


def collect_source(path: str, text: str, parse: Callable[[str], ast.Module] = parse_source) -> Collected:
    """Return the docstrings and the definitions of one file."""
    docstrings: list[Docstring] = []
    names: list[Name] = []

    def add_docstring(body: list[ast.stmt], owner: str) -> None:
        first = body[0] if body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            docstrings.append(Docstring(path, first.lineno, owner, first.value.value))

    def visit(body: list[ast.stmt], owner: str, kind: str) -> None:
        for previous, node in zip([None, *body], body, strict=False):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{owner}.{node.name}".lstrip(".")
                if isinstance(node, ast.ClassDef):
                    bases = tuple(filter(None, map(last_word, node.bases)))
                    names.append(Name(path, node.lineno, name, "class", False, bases))
                    inner = "method"
                else:
                    names.append(Name(path, node.lineno, name, kind, returns_bool(node), ()))
                    inner = "nested"
                add_docstring(node.body, name)
                visit(node.body, name, inner)
            elif isinstance(node, ast.Expr):
                if kind != "nested" and isinstance(previous, (ast.Assign, ast.AnnAssign)):
                    add_docstring([node], f"{owner}.{ast.unparse(targets(previous)[0])}".lstrip("."))
            else:
                if kind == "method" and isinstance(node, ast.AnnAssign) and path.startswith(PORTS):
                    names.append(Name(path, node.lineno, f"{owner}.{ast.unparse(node.target)}", "attribute", True, ()))
                for field in ("body", "orelse", "finalbody"):
                    visit(getattr(node, field, None) or [], owner, kind)
                for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                    visit(handler.body, owner, kind)

    tree = parse(text)
    add_docstring(tree.body, "")
    visit(tree.body, "", "function")
    return docstrings, names


def targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def last_word(node: ast.expr) -> str:
    """Return the class that an expression names: `ports.Agent` and `Agent[State]` are both `Agent`."""
    if isinstance(node, ast.Subscript):
        return last_word(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def returns_bool(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    if node.returns is None:
        return False
    text = ast.unparse(node.returns).strip("'\"")
    return re.match(r"(\w+\.)?(bool|bool_|Bool|TypeGuard|TypeIs)\b", text) is not None


def collect_all(files: dict[str, str]) -> Collected:
    """Return the docstrings and the definitions of all files."""
    collected: Collected = ([], [])
    enabled = gc.isenabled()
    gc.disable()  # halves the time of parsing
    try:
        for path, text in files.items():
            for found, every in zip(collect_source(path, text), collected, strict=True):
                every.extend(found)
    finally:
        if enabled:
            gc.enable()
    return collected


def word_list(text: str, separator: str | None = None) -> list[str]:
    return text.split(separator)


# Docstrings

WH = r"(?:what|where|which|how)"
VERB_AND_WH = re.compile(rf"(?:\S+\s+)?(?:(?:in|of|to|for|from|by|at|on|with|also|only|just)\s+)?{WH}\b", re.I)
WHAT = re.compile(r"\b(?:what|whom|whatever|whichever)\b", re.I)
THING = re.compile(
    r"\b(?:things?|something|everything|nothing|(?:the )?ones? that|all that|as (?:it|they) (?:lies?|lay))\b", re.I
)
DIALECT_WORDS = word_list(
    "anew begun heed heeds heeded heard hear hears told tells lies upon beside alike foretell foretells foretold "
    "brought bring brings nobody somebody whoever whence ours theirs paid pay pays says said shall hitherto lived led "
    "amiss asunder naught forgo beforehand whatsoever"
)
DIALECT_PHRASES = word_list(
    "go on, goes on, going on, gone on, went on, lead to what, leads to what, under way, of its day, there it is, "
    "so many, so much, as it was, as they were, of one's own, of our own, came of, comes of, come of, came to be, "
    "makes of, make of, is made of it, stands in, stood, in truth, but for, all else, is asked for, are asked for, "
    "was asked for, were asked for, as ever, at bottom, takes for, be it, the like",
    ", ",
)
DIALECT = re.compile(rf"\b(?:{'|'.join([*DIALECT_WORDS, *DIALECT_PHRASES])})\b", re.I)
ANY_WH = re.compile(r"\b(?:what|which|where|who|whom|whose|when|how|why|whatever|whichever|whoever|wherever)\b", re.I)

# At most ten, as path::owner, each with its reason.
DOCSTRING_EXCEPTIONS: dict[str, str] = {}


def summary(docstring: str) -> str:
    """Return the first sentence, with the rest of the line that it ends in."""
    kept = []
    for line in docstring.strip().split("\n"):
        if not line.strip():
            break
        kept.append(line.strip())
        if re.search(r"[.:!?]([)`\"']*$|\s)", kept[-1]):
            break
    return " ".join(kept)


@cache
def summary_words(docstring: str) -> str:
    """Return the summary without its code and quotations, which need not follow the rules."""
    return re.sub(r"``.*?``|`[^`]*`|\"[^\"]*\"", "x", summary(docstring))


def docstring_faults(docstring: str) -> list[str]:
    """Return the kinds of rule that the summary of a docstring breaks."""
    text = summary_words(docstring)
    found = {
        "verb + wh-word": VERB_AND_WH.match(text),
        "what or whom": WHAT.search(text),
        "thing": THING.search(text),
        "dialect": DIALECT.search(text),
    }
    return [f"{kind} ({match.group().strip()})" for kind, match in found.items() if match]


def docstring_failures(docstrings: Iterable[Docstring]) -> Iterator[Failure]:
    for one in docstrings:
        faults = docstring_faults(one.text)
        if faults and f"{one.path}::{one.owner}" not in DOCSTRING_EXCEPTIONS:
            yield Failure(one.path, one.line, one.owner, ", ".join(faults), summary(one.text))


def wh_share(docstrings: list[Docstring]) -> float:
    """Return the share of summaries with a wh-word in them."""
    return sum(ANY_WH.search(summary_words(one.text)) is not None for one in docstrings) / max(len(docstrings), 1)


# Names

IGNORED = re.compile(r"__\w+__|test_\w+|Test\w+|_+")
# Verbs of one form that say what is done. `read` is not among them: it had 48 meanings.
ONE_FORM = frozenset(word_list("set put cut split hit let shut cast spread shed quit reset run broadcast"))
NOT_PARTICIPLES = frozenset(
    word_list(
        "seed feed need speed embed exceed proceed succeed bed shed breed bleed weed wed red hundred deed indeed reed "
        "steed creed greed unembed reseed"
    )
)
IRREGULAR = frozenset(
    word_list(
        "read drawn kept told seen begun taken given shown known made done gone found held left led lost met paid "
        "sent said sold built bought brought caught thought taught sought fought felt fed fled heard laid lain lent "
        "meant spent slept swept stood understood stuck struck sunk sung swum spun won hung dug born borne worn torn "
        "sworn woven frozen spoken broken chosen stolen driven written ridden risen hidden bitten eaten beaten fallen "
        "shaken forgotten gotten grown blown flown thrown been dealt learnt burnt spelt bent lit proven sown"
    )
)
NOT_A_NAME = frozenset(
    word_list(
        "upon beside besides alike ahead either neither several between within without among before after above below "
        "behind beyond through toward towards into onto of off on in by for from over under with as anew again apart "
        "aside away back beforehand everywhere elsewhere here there nowhere together already always ever every never "
        "often once rather since so still then thus until up down out near far now soon later else both each none "
        "some such few less more most least too very well how what where which when who whom whose why yet also along "
        "around across against despite during except per than though via while likewise otherwise afterwards "
        "meanwhile alone"
    )
)
NOT_ADVERBS = frozenset(
    word_list("apply reply multiply supply family poly assembly anomaly fly rely comply imply ally tally")
)

# At most ten, by name: what another library's interface asks for.
NAME_EXCEPTIONS: dict[str, str] = {
    "unwrapped": "a property of Gymnasium's environments",
    "Overcooked": "the name of a game",
    "SUNG": "the name of a published method",
    "now": "a method of datetime",
    "pyrefly": "the name of a program",
}


def words_of(name: str) -> list[str]:
    """Return the words of `snake_case` or `CamelCase`, in lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name.strip("_"))
    return [word for word in re.sub(r"\d+", "", spaced).lower().split("_") if word]


def is_participle(word: str) -> bool:
    stem = re.sub(r"^(un|re|over|mis)(?=\w{3})", "", word)
    if word in IRREGULAR or stem in IRREGULAR:
        return True
    return word.endswith("ed") and len(word) > 3 and word not in NOT_PARTICIPLES and stem not in NOT_PARTICIPLES


def is_adverb(word: str) -> bool:
    return word in NOT_A_NAME or (word.endswith("ly") and len(word) > 3 and word not in NOT_ADVERBS)


def name_fault(name: str, boolean: bool = False) -> str:
    """Return the kind of rule that a name breaks; empty for a good one."""
    words = words_of(name)
    if not words or name in NAME_EXCEPTIONS or IGNORED.fullmatch(name):
        return ""
    if words[0] in ONE_FORM or not all(is_participle(word) or is_adverb(word) for word in words):
        return ""
    if any(map(is_participle, words)):
        return "" if boolean else "participle"
    return "preposition or adverb"


def repeated_names(names: list[Name]) -> dict[str, list[Name]]:
    """Return the functions and classes of modules whose public name more than three modules of the packages define.

    Methods are read with their class, and are not counted. Names in `INTERFACES` are those that a caller looks up in
    each of a set of modules.
    """
    found: dict[str, list[Name]] = defaultdict(list)
    for one in names:
        if one.kind in ("nested", "attribute", "method") or "." in one.owner or one.path.startswith(("tests/", PORTS)):
            continue
        if not one.owner.startswith("_") and one.owner not in INTERFACES:
            found[one.owner].append(one)
    return {name: every for name, every in found.items() if len({one.path for one in every}) > MAX_MODULES}


def name_failures(names: list[Name]) -> Iterator[Failure]:
    for one in names:
        name = one.owner.split(".")[-1]
        if fault := name_fault(name, one.boolean):
            yield Failure(one.path, one.line, one.owner, fault, "")
    for name, every in repeated_names(names).items():
        modules = len({one.path for one in every})
        for one in every:
            yield Failure(one.path, one.line, one.owner, f"one name in {modules} modules ({name})", "")


# Peers


def first_words(names: Iterable[str]) -> Counter[str]:
    """Return the number of names that begin with each word."""
    return Counter(
        words[0] for name in names if not re.fullmatch(r"__\w+__|test_\w+", name) and (words := words_of(name))
    )


def peers_first_words() -> set[str]:
    lines = PEERS.read_text(encoding="utf-8").splitlines()
    return {word for line in lines if not line.startswith("#") for word in line.split()}


def write_peers(folders: Iterable[str]) -> None:
    """Write the first words of the names in these packages, below the packages and their versions."""
    heads, found = [], Counter()
    for folder in sorted(map(Path, folders), key=lambda path: path.name):
        files = {}
        for path in folder.rglob("*.py"):
            if not {"tests", "test", "testing", "_vendor"} & set(path.parts):
                files[str(path)] = path.read_text(encoding="utf-8", errors="replace")
        names = collect_all(files)[1]
        found += first_words({one.owner.split(".")[-1] for one in names})
        versions = [path.stem.split("-")[1] for path in folder.parent.glob(f"{folder.name}-*.dist-info")]
        heads.append(f"# {folder.name} {versions[0] if versions else ''}".rstrip())
    words = sorted(word for word in found if word.isascii() and len(word) > 1)
    title = "# First words of the names of functions, classes and methods in these libraries."
    lines = [title, *heads, *textwrap.wrap(" ".join(words), 120)]
    PEERS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def print_shares(docstrings: list[Docstring], names: list[Name]) -> None:
    """Print the share of failures of each kind, in all and by folder."""
    kinds = ["verb + wh-word", "what or whom", "thing", "dialect"]
    rows = defaultdict(Counter)
    for one in docstrings:
        faults = docstring_faults(one.text)
        for folder in ("all", folder_of(one.path)):
            rows[folder].update([kind for kind in kinds if any(fault.startswith(kind) for fault in faults)])
            rows[folder].update(["any"] * bool(faults) + ["n"] + ["wh"] * bool(ANY_WH.search(summary_words(one.text))))
    print(f"{'docstrings':24}{'number':>8}{'verb+wh':>9}{'what':>9}{'thing':>9}{'dialect':>9}{'any':>9}{'wh-word':>9}")
    for folder, row in sorted(rows.items()):
        shares = "".join(f"{100 * row[kind] / row['n']:8.1f}%" for kind in [*kinds, "any", "wh"])
        print(f"{folder:24}{row['n']:8}{shares}")
    rows = defaultdict(Counter)
    for one in names:
        if not IGNORED.fullmatch(one.owner.split(".")[-1]):
            rows["all"]["n"] += 1
            rows[folder_of(one.path)]["n"] += 1
    for one in name_failures(names):
        for folder in ("all", folder_of(one.path)):
            rows[folder][one.kind.split(" ")[0]] += 1
    print(f"\n{'names':24}{'number':>8}{'participle':>12}{'adverb':>9}{'repeated':>9}")
    for folder, row in sorted(rows.items()):
        print(f"{folder:24}{row['n']:8}{row['participle']:12}{row['preposition']:9}{row['one']:9}")


def folder_of(path: str) -> str:
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def main(words: list[str]) -> None:
    command, *rest = words or ["help"]
    if command == "peers":
        return write_peers(rest)
    if command not in ("docstrings", "names", "first-words", "random", "shares"):
        print(__doc__)
        return None
    docstrings, names = collect_all(sources())
    if command in ("docstrings", "names"):
        every = docstring_failures(docstrings) if command == "docstrings" else name_failures(names)
        for one in every:
            if one.path.startswith(rest[0].rstrip("/") if rest else ""):
                print(one)
    elif command == "first-words":
        own = [one for one in names if not one.path.startswith("tests/")]
        counted = first_words({one.owner.split(".")[-1] for one in own})
        foreign = {word: number for word, number in counted.items() if word not in peers_first_words()}
        for word, number in sorted(foreign.items(), key=lambda item: (-item[1], item[0])):
            examples = sorted(
                {one.owner.split(".")[-1] for one in own if words_of(one.owner.split(".")[-1])[:1] == [word]}
            )
            print(f"{word} ({number}): {', '.join(examples[:6])}")
        print(f"{len(foreign)} of {len(counted)} first words ({len(foreign) / len(counted):.0%})")
    elif command == "random":
        draw = random.Random(rest[0])
        for one in draw.sample(docstrings, 40):
            print(f"{one.path}:{one.line}: {summary(one.text)}")
        for name in draw.sample([one for one in names if not re.fullmatch(r"__\w+__", one.owner.split(".")[-1])], 40):
            print(f"{name.path}:{name.line}: {name.owner}")
    else:
        print_shares(docstrings, names)
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
