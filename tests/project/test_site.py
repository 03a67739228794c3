"""The documentation site: its tree of pages, links that lead somewhere, and, where Zensical is installed, its build."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import forage

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site():
    spec = importlib.util.spec_from_file_location("site_of_pages", ROOT / "docs" / "make" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sources(site):
    return [path for pattern in site.PAGES for path in ROOT.glob(pattern)]


def leaves(tree):
    if isinstance(tree, str):
        return [tree]
    return [page for branch in (tree.values() if isinstance(tree, dict) else tree) for page in leaves(branch)]


def test_every_page_is_in_the_tree_once(site):
    found = leaves(site.navigation())
    pages = {path.relative_to(ROOT).as_posix() for path in sources(site)} | set(site.api_pages())
    assert len(found) == len(set(found)) and set(found) <= pages
    left = {page for page in pages - set(found) if page.startswith("docs/") and page.count("/") == 1}
    assert not left, f"give these a place in docs/make/site.py: {sorted(left)}"


def test_links_lead_to_files(site):
    missing = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in sources(site)
        for target, _ in site.LINK.findall(path.read_text())
        if ":" not in target and not (path.parent / target).is_file()
    ]
    assert not missing


def test_what_leads_nowhere_in_the_site_is_said(site, tmp_path):
    (tmp_path / "there.html").write_text('<a href="https://elsewhere.org">')
    (tmp_path / "page.html").write_text('<img src="no.png"><a href="there.html#part"></a><a href="gone.html"></a>')
    assert site.broken(tmp_path) == ["page.html: there is no gone.html", "page.html: there is no no.png"]


def test_names_of_the_package_have_entries(site):
    page = site.api_pages()["docs/api/README.md"]
    assert all(f"heading: forage.{name}" in page for name in forage.__all__)


@pytest.mark.thorough
def test_the_site_is_built_without_a_warning():
    for needed in ("zensical", "mkdocstrings_handlers.python"):
        pytest.importorskip(needed, reason="needs forage-rl[docs]")
    made = subprocess.run([sys.executable, "docs/make/site.py"], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "Trains an agent" in (ROOT / "build" / "site" / "docs" / "api" / "index.html").read_text()
