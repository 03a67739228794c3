"""The documentation site: its tree of pages, its links, and, if Zensical is installed, its build."""

import html
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import forage
from forage.config import part_options, registry

ROOT = Path(__file__).parents[3]
RESULTS = {
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "docs" / "claims" / "results", *(ROOT / "docs" / "claims").glob("**/*.json"))
}
"""Names in docs/claims of the repository."""


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("site_of_pages", ROOT / "docs" / "make" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(site):
    """The texts of all pages: those of the repository, and those that are built."""
    return site.written_pages() | site.built_pages()


def tables():
    return [*registry.tables().items(), ("wrappers", registry.WRAPPERS)]


def leaves(tree):
    if isinstance(tree, str):
        return [tree]
    return [page for branch in (tree.values() if isinstance(tree, dict) else tree) for page in leaves(branch)]


def test_every_page_is_in_the_tree_once(site, pages):
    every = pages.keys() | site.api_pages().keys()
    found = leaves(site.navigation(every))
    assert len(found) == len(set(found)) and set(found) <= every
    left = {page for page in every - set(found) if re.match(r"docs/([^/]+|parts/.+|claims/.+|evidence/.+)$", page)}
    assert not left, f"give these a place in docs/make/site.py: {sorted(left)}"


def test_links_of_the_repository_lead_to_what_is_in_it(site):
    """So they can be followed where no site is built."""
    files = {}
    for _, table in tables():
        for part, target in table.items():
            files.setdefault(part, set()).add(f"{target.partition(':')[0].replace('.', '/')}.py")
    checked = 0
    for page, text in site.written_pages().items():
        for target, anchor in site.LINK.findall(text):
            if ":" in target:
                continue
            name = site.file_at(page, target)
            tracked = not name.startswith(("docs/parts", "docs/claims")) or name in RESULTS
            assert (ROOT / name).exists() and tracked, f"{page} leads to {name}, which is not in the repository"
            if name.endswith(".py") and anchor:
                part = anchor[1:]
                assert name in files[part], f"{page}: {part} is in {', '.join(files[part])} and not in {name}"
                checked += 1
    assert checked > 80


def test_links_of_the_site_lead_to_pages(site, pages):
    pictures = {f"docs/claims/{path.stem}.png" for path in site.maker("claims").result_paths()}
    for page, text in pages.items():
        for target, anchor in site.LINK.findall(text):
            if ":" in target:
                continue
            name, _ = site.site_link(page, target, anchor)
            there = name in pages or name in pictures or (ROOT / name.removesuffix(".md")).is_file()
            assert there, f"{page}: there is no {name}"


def test_links_to_code_and_results_lead_to_their_pages(site):
    def in_site(text):
        return site.site_text("docs/offline.md", text)

    assert in_site("[a](../forage/agents/offline/bc.py#bc)") == "[a](parts/bc.md)"
    assert in_site("[a](claims/results/iql.json) [b](claims/results)") == "[a](claims/iql.md) [b](claims/README.md)"
    assert in_site("[a](claims/history.json)") == "[a](claims/README.md#history)"
    assert in_site("[a](../tests/tiers.py) [b](why.md#x)") == "[a](../tests/tiers.py.md) [b](why.md#x)"
    assert site.site_text("docs/claims/iql.md", "[a](results/iql.json)") == "[a](results/iql.json.md)"


def test_pages_of_parts_say_what_the_parts_say(pages):
    """Each has its heading, its sentence, its command and its options; claims stand on the page of their part."""
    for port, table in tables():
        for name, target in table.items():
            text = pages[f"docs/parts/{name}.md"]
            cls = registry.wrapper_class(name) if port == "wrappers" else registry.load(target)
            assert text.startswith(f"# {name}\n") and f"`{target}`" in text
            assert cls.example in text and (cls.__doc__ or "").strip().splitlines()[0] in html.unescape(text).replace(
                "\\", ""
            )
            fields = registry.wrapper_fields(cls) if port == "wrappers" else part_options.fields(cls)
            assert all(f"{field.name.replace('_', '-')}`" in text for field in fields), name
            assert f"- [{name}]({name}.md): " in pages["docs/parts/README.md"]
    iql = pages["docs/parts/iql.md"]
    assert "| `--learning-rate` | `0.0003` |" in iql and "[iql](../claims/iql.md)" in iql and "## Presets" in iql
    assert "| `--rewards.weight` |" in pages["docs/parts/rnd.md"]


def test_docstrings_become_prose(site, pages):
    prose = site.maker("parts").prose
    said = prose("Do *it* by `a_b`, x_i.\n\n    y = 2 x\n\nThen.")
    assert re.fullmatch(r'Do \\\*it\\\* by `a_b`, x\\_i\.\n\n<div class="formula">.*<mi>y</mi>.*</div>\n\nThen\.', said)
    assert prose("a ~ b <= c") == "a &#126; b &lt;= c"
    assert prose("Args:\n    one: The first\n        of all.\n    two: Rest.") == (
        "**Args**\n\n- `one`: The first of all.\n- `two`: Rest."
    )
    redq = pages["docs/parts/redq.md"]
    assert "<span>critics</span><math>" in redq and "\n\nSoft actor-critic with N critics" in redq


def test_parts_stand_by_port_and_family(site, pages):
    (parts,) = [branch["Parts"] for branch in site.navigation(pages) if "Parts" in branch]
    ports = {title: branch for section in parts[1:] for title, branch in section.items()}
    assert [*ports] == ["Agent", "Tasks", "Starts", "Behaviour", "Rewards", "Memory", "Wrappers"]
    families = {title: found for one in ports["Agent"] for title, found in one.items()}
    assert {"docs/parts/redq.md", "docs/parts/sac.md", "docs/parts/fql.md"} <= set(families["Actor critic"])
    assert "docs/parts/dapo.md" in families["Language"]


def test_pages_of_claims_show_the_results(site, pages):
    paths = site.maker("claims").result_paths()
    assert len(paths) > 100
    for path in paths:
        text, overview = pages[f"docs/claims/{path.stem}.md"], pages["docs/claims/README.md"]
        assert f"![what was found]({path.stem}.png)" in text and f"(results/{path.name})" in text
        assert f"| [{path.stem}]({path.stem}.md)" in overview


def test_a_picture_is_drawn_again_only_after_a_change(site, tmp_path, monkeypatch):
    claims, drawn = site.maker("claims"), []
    (one, *_) = paths = claims.result_paths()
    monkeypatch.setattr(claims, "result_paths", lambda: paths[:1])
    draw = claims.draw_claim

    def count(picture, *words):
        drawn.append(picture.name)
        return draw(picture, *words)

    count.__module__ = draw.__module__
    monkeypatch.setattr(claims, "draw_claim", count)
    claims.draw_pictures(tmp_path)
    claims.draw_pictures(tmp_path)
    assert drawn == [f"{one.stem}.png"] and (tmp_path / drawn[0]).read_bytes().startswith(b"\x89PNG")
    os.utime(tmp_path / drawn[0], (0, 0))
    claims.draw_pictures(tmp_path)
    assert len(drawn) == 2


def test_what_leads_nowhere_in_the_site_is_said(site, tmp_path):
    (tmp_path / "there.html").write_text('<a href="https://elsewhere.org">')
    (tmp_path / "page.html").write_text('<img src="no.png"><a href="there.html#part"></a><a href="gone.html"></a>')
    assert site.broken(tmp_path) == ["page.html: there is no gone.html", "page.html: there is no no.png"]


def test_names_of_the_package_have_entries(site):
    page = site.api_pages()["docs/api/README.md"]
    assert all(f"heading: forage.{name}" in page for name in forage.__all__)


def named_paths(tree, above=()):
    """Return the titles on the way to each page that the tree gives a title."""
    found = {}
    for branch in (branch for branch in tree if isinstance(branch, dict)):
        for title, below in branch.items():
            path = (*above, title)
            found |= {below: path} if isinstance(below, str) else named_paths(below, path)
    return found


def test_search_finds_the_page_on_each_phrase_by_its_titles(site, pages):
    """Titles of all pages and their places in the tree, which come before any text, are ranked as the site does."""
    search = site.maker("search")
    paths = named_paths(site.navigation(pages | site.api_pages()))
    texts = {page: re.sub(r"```.*?```", "", text, flags=re.DOTALL) for page, text in pages.items()}
    sections = [
        {"location": page.removesuffix(".md") + ".html", "title": title, "path": paths.get(page, ())}
        for page, text in (texts | site.api_pages()).items()
        for title in re.findall(r"^(?:#+|      heading:) (.+)$", text, re.MULTILINE)
    ]
    words = search.split_sections(sections)
    assert len(words) > 1000 and len(search.PHRASES) == 6
    for phrase, page in search.PHRASES.items():
        assert search.rank_sections(phrase, words)[0] == f"{page}.html", phrase


RANKED = [
    {"location": "a", "title": "Noise", "text": "<p>Own environments are custom ones.</p>"},
    {"location": "b", "title": "Customs", "text": "An environment."},
    {"location": "c", "title": "Environments of your own, custom kind", "text": ""},
    {"location": "d", "title": "A custom environment", "text": ""},
    {"location": "e", "title": "Custom environments", "text": ""},
    {"location": "f", "title": "Custom", "text": "Nothing of it."},
    {"location": "g", "title": "Notes", "path": ["Custom", "Environments"], "text": ""},
    {"location": "h", "title": "Custom environments", "text": "A custom environment."},
]


def test_search_ranks_as_zensical_does(site):
    """Words are beginnings, all must occur; title, path, text; then more words, nearer, earlier; then more fields."""
    search = site.maker("search")

    def rank(query, *sections):
        return "".join(search.rank_sections(query, search.split_sections(sections)))

    assert rank("custom env", *RANKED) == "hedcbga" and rank("nothing else", *RANKED) == ""
    near = {"location": "n", "title": "one 1 2 3 4 5 6 7 two one"}  # its first cluster ends before the nearer "one"
    far = {"location": "f", "title": "one 1 2 3 4 5 6 7 8 two"}
    assert rank("one two", near, far) == "fn"


@pytest.mark.thorough
def test_the_site_is_built_without_a_warning():
    for needed in ("zensical", "mkdocstrings_handlers.python"):
        pytest.importorskip(needed, reason="needs forage-rl[docs]")
    made = subprocess.run([sys.executable, "docs/make/site.py"], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "Trains an agent" in (ROOT / "build" / "site" / "docs" / "api" / "index.html").read_text()
    assert (ROOT / "build" / "site" / "search.js").read_text().startswith("var __index = {")
