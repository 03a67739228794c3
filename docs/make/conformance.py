"""Writes docs/evidence/conformance.md: which adapter says what its library says, checked here and now.

python docs/make/conformance.py               every row whose library is installed; others stay as the page has them
python docs/make/conformance.py gymnax brax   only these suites

Takes half an hour for all, most of it compilation.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence" / "conformance.md"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "environments")]


def results(row: object) -> dict[str, str]:
    """Each check's word in the table: yes, no, or why it does not apply."""
    from conformance import case
    from conformance_checks import CHECKS

    words = {}
    for name, check in CHECKS.items():
        try:
            reason = check(case(row.id))
            words[name] = "yes" if reason is None else f"does not apply: {shorten(reason)}"
            if name == "terminated" and row.hidden:
                words[name] += f"; {row.hidden}"
        except Exception as error:
            words[name] = "**no**"
            print(f"  {name}: {type(error).__name__}: {str(error).strip()[:600]}")
    return words


def shorten(reason: str) -> str:
    if "OpenGL" in reason:
        return "no OpenGL here"
    return "no picture" if "cannot be drawn" in reason or "failed at drawing" in reason else reason


def version(library: str) -> str:
    distributions = importlib.metadata.packages_distributions().get(library, [library])
    name = library if library in distributions else distributions[0]
    return f"{name} {importlib.metadata.version(name)}"


def known() -> dict[str, str]:
    """The lines that the page has now, by id."""
    if not PAGE.exists():
        return {}
    return {match[1]: match[0] for match in re.finditer(r"^\| `([^`]+)`[^|]* \|.*$", PAGE.read_text(), re.MULTILINE)}


def main(suites: list[str]) -> int:
    from conformance import here
    from conformance_checks import CHECKS
    from conformance_rows import ROWS

    from forage.environments.catalogue import SUITES

    bad = 0
    for row in ROWS:
        if not here(row) or (suites and row.suite not in suites):
            continue
        start = time.time()
        words = results(row)
        bad += sum(word == "**no**" for word in words.values())
        lines = known()
        options = "".join(f" {name}={value}" for name, value in row.options.items())
        libraries = dict.fromkeys((SUITES[row.suite].library, row.library))
        versions = ", ".join(version(library) for library in libraries)
        lines[row.id] = f"| `{row.id}`{options} | {versions} | {' | '.join(words.values())} |"
        print(f"{row.id}: {time.time() - start:.0f} s", flush=True)
        PAGE.write_text(page(CHECKS, [lines[row.id] for row in ROWS if row.id in lines]))
    return bad


def page(checks: dict[str, object], lines: list[str]) -> str:
    head = [
        "# Conformance of the adapters",
        "",
        "Each environment is stepped by Forage's adapter and by its own library, driven directly, with the same",
        "actions and keys or seeds, to each of its ends. Written by `python docs/make/conformance.py`; the checks are",
        "in `tests/environments/conformance_checks.py`, and `make thorough` runs them (with `FORAGE_SLOW=1` those that",
        "compile for minutes as well).",
        "",
        *(f"- **{name}**: {' '.join((check.__doc__ or '').split())}" for name, check in checks.items()),
        "",
        f"| environment | library | {' | '.join(checks)} |",
        f"|---|---|{'---|' * len(checks)}",
    ]
    return "\n".join([*head, *lines, ""])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
