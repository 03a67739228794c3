"""Makes the notebooks of docs/notebooks from pages: their text, commands and code as cells, in the order of the page.

python docs/make/notebooks.py           writes
python docs/make/notebooks.py --check   exits 1 when a notebook is not what it would write

A shell command is a line with `!`, or `%%bash` where it has braces, which IPython would take for Python. A server runs
in the background. Links to other pages become their text, as a notebook travels alone.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parents[1]
FOLDER = DOCS / "notebooks"
BLOCK = re.compile(r"```(\w+)\n(.*?)```\n?", re.DOTALL)
PATIENCE = "--retry 60 --retry-connrefused --retry-delay 1"  # a server loads JAX before it answers


class Source(NamedTuple):
    """The page of a notebook."""

    page: str  # below docs
    without: tuple[str, ...]  # headings of sections that are left out
    extras: str = ""  # of the package
    file: str = ""  # the name of the file that the page's code is, for the commands that name it


NOTEBOOKS = {
    "first-steps": Source("tutorial.md", ("Install", "Next")),
    "own-environment": Source(
        "how-to/environment.md", ("Many at once", "An environment in JAX", "Around it"), file="valley.py"
    ),
    "from-a-log": Source("how-to/from-a-log.md", (), "[parquet]"),
}


def make_notebook(name: str, source: Source) -> str:
    """Return the text of a notebook."""
    head, *sections = re.split(r"^(?=## )", (DOCS / source.page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    kept = [one for one in sections if one.splitlines()[0].removeprefix("## ") not in source.without]
    package = f"'forage-rl{source.extras}'" if source.extras else "forage-rl"
    cells = [make_cell(head), make_cell(f"%pip install -q {package}", code=True)]
    for section in kept:
        cells += cells_of(section, source.file)
    for number, cell in enumerate(cells):
        cell["id"] = f"{name}-{number}"
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def cells_of(section: str, file: str) -> list[dict[str, Any]]:
    """Return the cells of a section of a page; text that is no command and no code stays in the text."""
    cells, text = [], ""
    parts = BLOCK.split(section)
    for before, language, block in zip(parts[::3], [*parts[1::3], ""], [*parts[2::3], ""], strict=True):
        text += before
        if language not in ("sh", "python"):
            text += f"```{language}\n{block}```\n" if language else ""
            continue
        cells += [make_cell(text)] if text.strip() else []
        text = ""
        if language == "sh":
            cells += shell_cells(block)
        else:
            cells.append(make_cell(f"%%writefile {file}\n{block}" if file else block, code=True))
    return [*cells, make_cell(text)] if text.strip() else cells


def shell_cells(block: str) -> list[dict[str, Any]]:
    """Return the cells of commands; a server and what asks it have cells of their own."""
    cells, lines = [], []
    for line in block.splitlines():
        if line.startswith("forage serve"):
            cells.append(make_cell(f"%%bash --bg\n{line}", code=True))
        elif "{" in line:
            cells.append(make_cell(f"%%bash\n{line.replace('curl -s', f'curl -s {PATIENCE}')}", code=True))
        else:
            lines.append(f"!{line}")
    return [make_cell("\n".join(lines), code=True), *cells] if lines else cells


def make_cell(text: str, code: bool = False) -> dict[str, Any]:
    """Return a cell of text or of code."""
    if not code:
        text = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)
    lines = text.strip("\n").splitlines(keepends=True)
    kind = {"cell_type": "code", "execution_count": None, "outputs": []} if code else {"cell_type": "markdown"}
    return {**kind, "metadata": {}, "source": lines}


if __name__ == "__main__":
    made = {FOLDER / f"{name}.ipynb": make_notebook(name, source) for name, source in NOTEBOOKS.items()}
    if "--check" in sys.argv[1:]:
        wrong = [path.name for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
        sys.exit(f"Not what their pages say: {', '.join(wrong)}; run python docs/make/notebooks.py." if wrong else 0)
    FOLDER.mkdir(exist_ok=True)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
