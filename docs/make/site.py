"""Build the documentation site: all pages of the repository, and the names of the package, from their docstrings.

python docs/make/site.py           writes build/site; a warning or a broken link ends it with 1
python docs/make/site.py --pages   writes what it is built from alone, build/pages and build/mkdocs.yml

Pages stay where they are in the repository, so that their links hold there and here. A file of code that a page links
to becomes a page of its own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import forage
from forage.config import registry

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
PAGES = ("*.md", "docs/**/*.md", "benchmarks/*.md", "benchmarks/results/**/*.md")
LINK = re.compile(r"\]\(([^()\s#]+)(#[^()\s]*)?\)")
STYLE = """
.md-grid { max-width: 78rem; }
.language-text code { white-space: pre-wrap; font-size: 0.57rem; }
.md-typeset table:not([class]) :is(th, td) { min-width: 0; padding: 0.5em 0.8em; }
.md-typeset td code { word-break: normal; overflow-wrap: normal; }
.md-typeset p > img { border-radius: 0.2rem; }
[data-md-color-scheme="slate"] .md-typeset p > img { background: white; padding: 0.4rem; }
@media screen and (max-width: 44rem) {
  .md-typeset p:has(> img:only-child) { overflow-x: auto; }
  .md-typeset p > img:only-child { max-width: none; width: 34rem; }
}
"""
CODE = {".py": "python", ".json": "json", ".toml": "toml", ".cff": "yaml"}

CONTRACTS = {
    "Ports": "forage.core.ports",
    "What flows between them": "forage.core.types",
    "The language policy's network": "forage.nn.transformer",
    "Its sizes and families": "forage.nn.language.architecture",
    "Writing and scoring text": "forage.nn.language.generate",
    "Distributions of tokens": "forage.ops.sampling",
    "Adapters": "forage.nn.language.lora",
    "Tokenizers": "forage.core.text.tokenizer",
}
"""Modules whose public names have a page each, beside the page of what `import forage` gives."""

HOW_TO = {
    "Your own environment": "docs/how-to/environment.md",
    "Your own reward bonus": "docs/how-to/bonus.md",
    "Your own agent": "docs/how-to/agent.md",
    "All kinds of parts": "docs/write-your-own.md",
    "Coming from Stable-Baselines3": "docs/how-to/from-stable-baselines3.md",
    "Coming from CleanRL": "docs/how-to/from-cleanrl.md",
    "Notebooks": "docs/how-to/notebooks.md",
    "GPUs": "docs/how-to/gpu.md",
    "Several devices": "docs/devices.md",
    "Workers": "docs/workers.md",
    "The command line": "docs/command-line.md",
    "Python": "docs/python.md",
    "What a run shows and keeps": "docs/runs.md",
    "Reading results": "docs/how-to/reading-results.md",
    "Longer, from another run, until a score": "docs/longer.md",
    "Schedules, networks, optimisers": "docs/networks.md",
    "Trackers": "docs/trackers.md",
    "Acting, exporting, sharing": "docs/share.md",
    "Exploring": "docs/exploration.md",
    "A language policy": "docs/language.md",
    "Rewards, behaviours and memory of text": "docs/language-parts.md",
    "Agents that learn to write": "docs/language-agents.md",
    "Which problem comes next": "docs/problems.md",
    "Learn from data": "docs/how-to/data.md",
    "Offline agents": "docs/offline.md",
    "Data sets of your own": "docs/data-sets.md",
    "Imitating demonstrations": "docs/how-to/imitation.md",
    "Judging from another's data": "docs/off-policy.md",
    "Tools and games for a text policy": "docs/how-to/tools.md",
    "From a file to a merged part": "docs/first_part.md",
}
WHY = {
    "The loop": "docs/why.md",
    "Beside other libraries": "docs/compared.md",
    "How far to trust a number": "docs/trust.md",
    "What people tried": "docs/journeys.md",
    "The sandbox": "docs/sandbox.md",
    "The design": "docs/design.md",
}
MEASURED = {
    "At a glance": "docs/measured.md",
    "Probes": "docs/probes.md",
    "Regret": "docs/regret.md",
    "Parity": "docs/parity.md",
    "Conformance": "docs/conformance.md",
    "Versions": "docs/versions.md",
}


def linked(page: Path) -> set[Path]:
    """Return the files of the repository that a page links to or shows."""
    targets = {(page.parent / target).resolve() for target, _ in LINK.findall(page.read_text()) if ":" not in target}
    return {target for target in targets if target.is_file() and target.suffix != ".md"}


def page_of(path: Path) -> str:
    """Return a page's text for the site, in which links to code lead to the pages of that code."""

    def lead(found: re.Match[str]) -> str:
        target, anchor = found[1], found[2] or ""
        code = ":" not in target and (path.parent / target).suffix in CODE
        return f"]({target}{'.md' if code else ''}{anchor})"

    return LINK.sub(lead, path.read_text())


def code_page(path: Path) -> str:
    """Return a page that shows a file of code."""
    return f"# {path.name}\n\n`{path.relative_to(ROOT)}`\n\n````{CODE[path.suffix]}\n{path.read_text()}\n````\n"


def api_pages() -> dict[str, str]:
    """Return the pages of the package's names, which are filled from their docstrings."""
    where = vars(forage)["_WHERE"]
    agents = {target: name for name, target in registry.parts("agent").items()}
    entries = []
    for name in forage.__all__:
        part = agents.get(f"{where[name]}:{name}")
        members = f"\n      members: false\n\nIts options: [{part}](../parts/{part}.md).\n" if part else "\n"
        module, _, known = where[name].partition(":")
        entries.append(f"::: {module}.{known or name}\n    options:\n      heading: forage.{name}{members}")
    head = "What `import forage` gives. The command line does the same with the same names.\n"
    result = {"docs/api/README.md": "\n".join(["# API", "", head, *entries])}
    for title, module in CONTRACTS.items():
        body = f"::: {module}\n    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
        result[f"docs/api/{module.rpartition('.')[2]}.md"] = f"# {title}\n\n`{module}`\n\n{body}"
    return result


def listed(folder: str) -> list[str]:
    """Return the pages of a folder, its overview first."""
    found = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob("*.md"))
    return sorted(found, key=lambda name: not name.endswith("README.md"))


def navigation() -> list[dict[str, Any]]:
    """Return the site's tree of pages."""

    def section(pages: dict[str, str]) -> list[dict[str, str]]:
        return [{title: page} for title, page in pages.items()]

    names = [{title: f"docs/api/{module.rpartition('.')[2]}.md"} for title, module in CONTRACTS.items()]
    tables = [page for page in listed("benchmarks/results") if "BEFORE" not in page]
    return [
        {"Forage": "README.md"},
        {"Tutorial": "docs/tutorial.md"},
        {"How to": section(HOW_TO)},
        {"Parts": listed("docs/parts")},
        {"Environments": listed("docs/environments")},
        {
            "Reference": [
                {"API": ["docs/api/README.md", *names]},
                {"Settings": "docs/defaults.md"},
                {"Operators of tokens": "docs/tokens.md"},
                {"All pages": "docs/README.md"},
            ]
        },
        {"Why": section(WHY)},
        {
            "Measured": [
                *section(MEASURED),
                {"Learning": "benchmarks/results/learning/README.md"},
                {"Benchmarks": ["benchmarks/README.md", *tables]},
                {"Claims": listed("docs/claims")},
            ]
        },
        {"Project": [{"Changes": "CHANGELOG.md"}, {"Contributing": "CONTRIBUTING.md"}]},
    ]


def configuration() -> dict[str, Any]:
    """Return what Zensical is told, in the words of mkdocs.yml."""
    shown = {
        "show_source": False,
        "show_root_heading": True,
        "show_root_full_path": False,
        "show_signature_annotations": True,
        "separate_signature": True,
        "signature_crossrefs": True,
        "members_order": "source",
        "show_if_no_docstring": False,
        "heading_level": 2,
        "filters": ["!^_"],
    }
    return {
        "site_name": "Forage",
        "site_description": "Reinforcement learning on JAX: one loop, seven ports, honest numbers.",
        "docs_dir": "pages",
        "site_dir": "site",
        "use_directory_urls": False,  # pages open from a folder, without a server
        "extra_css": ["site.css"],
        "theme": {
            "name": "material",
            "font": False,  # the reader's own, so that nothing is asked of others' servers
            "features": [
                *("navigation.tabs", "navigation.top", "navigation.footer", "navigation.path"),
                *("content.code.copy", "search.highlight", "toc.follow"),
            ],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "toggle": switch("dark")},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "toggle": switch("light")},
            ],
        },
        "markdown_extensions": [
            *("tables", "admonition", "attr_list", "md_in_html", "pymdownx.superfences"),
            {"toc": {"permalink": True, "toc_depth": 3}},
            {"pymdownx.highlight": {"pygments_lang_class": True}},
        ],
        "plugins": [
            "search",
            {"mkdocstrings": {"handlers": {"python": {"paths": [str(ROOT)], "options": shown}}}},
        ],
        "validation": {"links": {"not_found": "warn", "anchors": "warn"}},
        "nav": navigation(),
    }


def switch(to: str) -> dict[str, str]:
    return {"icon": f"material/weather-{'night' if to == 'dark' else 'sunny'}", "name": f"Switch to {to}"}


def stage() -> None:
    """Write what the site is built from."""
    pages = BUILD / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    sources = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    texts = {path.relative_to(ROOT).as_posix(): page_of(path) for path in sources} | api_pages()
    for path in set().union(*map(linked, sources)):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in CODE:
            texts[f"{name}.md"] = code_page(path)
        else:
            (pages / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, pages / name)
    for name, text in texts.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text(text)
    (pages / "site.css").write_text(STYLE)
    (BUILD / "mkdocs.yml").write_text(json.dumps(configuration(), indent=1))  # all JSON is YAML


class Targets(HTMLParser):
    """Collect what a page of the site links to and shows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found |= {value for name, value in attributes if name in ("href", "src") and value}


def broken(site: Path) -> list[str]:
    """Return what pages of the site link to or show that is not there.

    Zensical checks links in text and their anchors, but neither pictures nor navigation.
    """
    lines = []
    for page in sorted(site.rglob("*.html")):
        targets = Targets()
        targets.feed(page.read_text())
        for target in sorted(targets.found):
            path = target.partition("#")[0].partition("?")[0]
            local = path and ":" not in path and not path.startswith("/")
            if local and not (page.parent / path).is_file() and not (page.parent / path / "index.html").is_file():
                lines.append(f"{page.relative_to(site)}: there is no {target}")
    return lines


def main() -> None:
    stage()
    if "--pages" in sys.argv:
        return
    shutil.rmtree(BUILD / "site", ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(BUILD / "mkdocs.yml")]
    if code := subprocess.run(command, cwd=BUILD).returncode:
        sys.exit(code)
    if lines := broken(BUILD / "site"):
        sys.exit("\n".join(lines))


if __name__ == "__main__":
    main()
