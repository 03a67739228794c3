"""Build the documentation site: all pages of the repository, and the names of the package, from their docstrings.

python docs/make/site.py           writes build/site; a warning, a broken link or a missed phrase ends it with 1
python docs/make/site.py --pages   writes what it is built from alone, build/pages and build/mkdocs.yml

Pages stay where they are in the repository, so that their links hold there and here. Pages of parts and claims are not
in the repository: `parts.py` and `claims.py` make them. A link `FILE.py#NAME` to the file of a part leads to the part's
page here, and a link to a claim's result to the claim's page. Any other file of code that a page links to becomes one.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import forage
from forage.config import registry

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
PAGES = ("*.md", "docs/**/*.md", "benchmarks/*.md", "benchmarks/results/**/*.md")
LINK = re.compile(r"\]\(([^()\s#]+)(#[^()\s]*)?\)")
STYLE = """
.md-grid { max-width: 78rem; }
.formula { overflow-x: auto; margin: 1em 0; padding: 0.2em 0; }
.formula > div { padding: 0.15em 0; white-space: nowrap; }
.formula.labels { display: grid; grid-template-columns: max-content 1fr; column-gap: 1.5em; align-items: baseline;
  justify-items: start; }
.formula.labels > div { display: contents; }
.formula .code { font-family: var(--md-code-font-family); font-size: 0.85em; }
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
    "Port of agents": "forage.core.ports.agent",
    "Abilities of agents": "forage.core.ports.abilities",
    "Environments": "forage.core.ports.environment",
    "Port of behaviours": "forage.core.ports.behaviour",
    "Port of rewards": "forage.core.ports.rewards",
    "Port of memories": "forage.core.ports.memory",
    "Port of starts": "forage.core.ports.starts",
    "Port of tasks": "forage.core.ports.tasks",
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
    "A custom environment": "docs/how-to/environment.md",
    "Your own reward bonus": "docs/how-to/bonus.md",
    "Your own agent": "docs/how-to/agent.md",
    "Mixed actions": "docs/how-to/mixed-actions.md",
    "Change a loss": "docs/how-to/change-a-loss.md",
    "Change a critic": "docs/how-to/change-a-critic.md",
    "All kinds of parts": "docs/write-your-own.md",
    "Publish a part": "docs/how-to/publish-a-part.md",
    "Coming from Stable-Baselines3": "docs/how-to/from-stable-baselines3.md",
    "Coming from CleanRL": "docs/how-to/from-cleanrl.md",
    "Notebooks": "docs/how-to/notebooks.md",
    "GPUs": "docs/how-to/gpu.md",
    "Recurrent policies": "docs/how-to/recurrent.md",
    "Multi-agent": "docs/how-to/multi-agent.md",
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
    "Language policies: reference": "docs/language-reference.md",
    "Rewards, behaviours and memory of text": "docs/language-parts.md",
    "Agents that learn to write": "docs/language-agents.md",
    "Which problem comes next": "docs/problems.md",
    "From a log to a policy that answers": "docs/how-to/from-a-log.md",
    "Learn from your own data": "docs/how-to/data.md",
    "Estimate a policy from a log": "docs/how-to/estimate.md",
    "Offline agents": "docs/offline.md",
    "Data sets of your own": "docs/data-sets.md",
    "Imitating demonstrations": "docs/how-to/imitation.md",
    "Studies: agents, environments, seeds": "docs/studies.md",
    "Judging from another's data": "docs/off-policy.md",
    "Problems, tools, games and environments of your own in text": "docs/how-to/your-own-text.md",
    "Tools and games for a text policy": "docs/how-to/tools.md",
    "From a file to a merged part": "docs/first_part.md",
}
WHY = {
    "The loop": "docs/why.md",
    "Beside other libraries": "docs/compared.md",
    "How far to trust a number": "docs/trust.md",
    "What people tried": "docs/evidence/journeys.md",
    "Four journeys, command by command": "docs/evidence/walks.md",
    "The sandbox": "docs/sandbox.md",
    "The design": "docs/design.md",
    "The contracts": "docs/contracts.md",
    "Dependencies": "docs/dependencies.md",
    "Why each part is in the core": "docs/core-parts.md",
}
MEASURED = {
    "At a glance": "docs/measured.md",
    "Probes": "docs/evidence/probes.md",
    "Regret": "docs/evidence/regret.md",
    "Parity": "docs/evidence/parity.md",
    "Conformance": "docs/evidence/conformance.md",
    "Versions": "docs/evidence/versions.md",
}


@functools.cache
def maker(name: str) -> ModuleType:
    """Import one of the programs beside this one."""
    spec = importlib.util.spec_from_file_location(f"make_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written_pages() -> dict[str, str]:
    """Return the text of each page in the repository, by name."""
    paths = (path for pattern in PAGES for path in sorted(ROOT.glob(pattern)))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def built_pages() -> dict[str, str]:
    """Return the text of each page that is made of the code and of results, by name."""
    return maker("parts").pages() | maker("claims").pages()


def file_at(page: str, target: str) -> str:
    """Return the name of the file that a link of a page leads to, from the repository's root."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


@functools.cache
def part_names() -> frozenset[str]:
    """Return the names of all parts and wrappers."""
    return frozenset(name for table in (*registry.tables().values(), registry.WRAPPERS) for name in table)


BUILT_OF = {
    "forage": "docs/parts/README.md",
    "docs/claims/results": "docs/claims/README.md",
    "docs/claims/history.json": "docs/claims/README.md#history",
}
"""Pages of the site that a link to a file or folder of the repository leads to."""


def site_link(page: str, target: str, anchor: str) -> tuple[str, str]:
    """Return the file that a link of a page leads to in the site, from the root, and the anchor there."""
    name = file_at(page, target)
    folder, base = posixpath.split(name)
    stem, suffix = posixpath.splitext(base)
    if suffix == ".py" and anchor[1:] in part_names():
        return f"docs/parts/{anchor[1:]}.md", ""
    if name in BUILT_OF:
        built, mark, part = BUILT_OF[name].partition("#")
        return built, mark + part
    if folder == "docs/claims/results" and not page.startswith("docs/claims/"):
        return f"docs/claims/{stem}.md", anchor
    return (f"{name}.md" if suffix in CODE else name), anchor


def site_text(page: str, text: str) -> str:
    """Return a page's text with the links that it has in the site."""

    def lead(found: re.Match[str]) -> str:
        if ":" in found[1]:
            return found[0]
        name, anchor = site_link(page, found[1], found[2] or "")
        return f"]({posixpath.relpath(name, posixpath.dirname(page) or '.')}{anchor})"

    return LINK.sub(lead, text)


def linked(texts: dict[str, str]) -> set[str]:
    """Return the files that pages, as the site has them, link to or show and that are no pages of it yet."""
    links = ((page, target) for page, text in texts.items() for target, _ in LINK.findall(text) if ":" not in target)
    return {file_at(page, target) for page, target in links} - texts.keys()


def code_page(path: Path) -> str:
    """Return a page that shows a file of code. Search leaves it out, so that pages of prose come first."""
    head = f"---\nsearch:\n  exclude: true\n---\n# {path.name}\n\n`{path.relative_to(ROOT)}`"
    return f"{head}\n\n````{CODE[path.suffix]}\n{path.read_text()}\n````\n"


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


def navigation(pages: Iterable[str]) -> list[dict[str, Any]]:
    """Return the site's tree of these pages."""

    def listed(folder: str) -> list[str]:
        found = sorted(page for page in pages if posixpath.dirname(page) == folder)
        return sorted(found, key=lambda name: not name.endswith("README.md"))

    def section(pages: dict[str, str]) -> list[dict[str, str]]:
        return [{title: page} for title, page in pages.items()]

    names = [{title: f"docs/api/{module.rpartition('.')[2]}.md"} for title, module in CONTRACTS.items()]
    tables = [page for page in listed("benchmarks/results") if "BEFORE" not in page]
    return [
        {"Forage": "README.md"},
        {"Tutorial": "docs/tutorial.md"},
        {"How to": section(HOW_TO)},
        {"Parts": ["docs/parts/README.md", *part_sections()]},
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
                {"Headline results": listed("benchmarks/results/headline")},
                {"Learning": "benchmarks/results/learning/README.md"},
                {"Benchmarks": ["benchmarks/README.md", *tables]},
                {"Claims": listed("docs/claims")},
            ]
        },
        {"Project": [{"Changes": "CHANGELOG.md"}, {"Contributing": "CONTRIBUTING.md"}]},
    ]


def part_sections() -> list[dict[str, Any]]:
    """Return the pages of parts by port, those of agents and rewards by family, and those of wrappers."""
    sections: list[dict[str, Any]] = []
    for port in registry.PORTS:
        families: dict[str, list[str]] = {}
        for name, target in registry.parts(port).items():
            families.setdefault(family_of(target), []).append(f"docs/parts/{name}.md")
        pages: list[Any] = sorted(families.pop("", []))
        sections.append({port.capitalize(): pages + [{title: sorted(families[title])} for title in sorted(families)]})
    return [*sections, {"Wrappers": [f"docs/parts/{name}.md" for name in sorted(registry.WRAPPERS)]}]


def family_of(target: str) -> str:
    """Return the family of a part's module, `actor_critic` as `Actor critic`; empty for parts without one.

    A named setting is of the family of the part that it builds on.
    """
    module, _, name = target.partition(":")
    if module.endswith(".settings"):
        return family_of(importlib.import_module(module).SETTINGS[name].base)
    folders = module.split(".")[2:-1]
    return folders[0].replace("_", " ").capitalize() if folders else ""


def configuration(pages: Iterable[str]) -> dict[str, Any]:
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
        "extra_javascript": ["search-in-folder.js"],
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
        "nav": navigation(pages),
    }


def switch(to: str) -> dict[str, str]:
    return {"icon": f"material/weather-{'night' if to == 'dark' else 'sunny'}", "name": f"Switch to {to}"}


def stage() -> None:
    """Write what the site is built from."""
    pages, pictures = BUILD / "pages", BUILD / "claims"
    shutil.rmtree(pages, ignore_errors=True)
    pictures.mkdir(parents=True, exist_ok=True)
    maker("claims").draw_pictures(pictures)  # kept there: drawing all takes a minute
    texts = {page: site_text(page, text) for page, text in (written_pages() | built_pages()).items()} | api_pages()
    for name in linked(texts):
        path, made = pages / name, pictures / name.removeprefix("docs/claims/")
        if (ROOT / name.removesuffix(".md")).suffix in CODE:
            texts[name] = code_page(ROOT / name.removesuffix(".md"))
        elif (source := ROOT / name if (ROOT / name).is_file() else made).is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, path)
    for name, text in texts.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text(text)
    (pages / "site.css").write_text(STYLE)
    shutil.copyfile(Path(__file__).with_name("search.js"), pages / "search-in-folder.js")
    (BUILD / "mkdocs.yml").write_text(json.dumps(configuration(texts), indent=1))  # all JSON is YAML


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


def write_index_as_script(site: Path) -> None:
    """Write the search's index as a script too, as pages that are opened from a folder cannot read JSON."""
    (site / "search.js").write_text(f"var __index = {(site / 'search.json').read_text()}")


def main() -> None:
    stage()
    if "--pages" in sys.argv:
        return
    shutil.rmtree(BUILD / "site", ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(BUILD / "mkdocs.yml")]
    if code := subprocess.run(command, cwd=BUILD).returncode:
        sys.exit(code)
    write_index_as_script(BUILD / "site")
    if lines := broken(BUILD / "site") + maker("search").missed_phrases(BUILD / "site"):
        sys.exit("\n".join(lines))


if __name__ == "__main__":
    main()
