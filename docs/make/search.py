"""Rank the site's pages as its search does, and hold the phrases for which people look a page up.

Zensical's search runs in the reader's browser, over the sections of all pages (`search.json`). Each word of a query is
the beginning of a word in the section; all of them must occur, in its title, its path or its text. Sections whose
title has the words come first, then those whose path has them. Among these the order is by the first cluster of the
words, which are at most ten apart there: more different words, a shorter stretch, an earlier place.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PHRASES = {
    "custom environment": "docs/how-to/environment",
    "own data": "docs/how-to/data",
    "export": "docs/share",
    "callbacks": "docs/longer",
    "multi agent": "docs/how-to/multi-agent",
    "recurrent": "docs/how-to/recurrent",
}
"""What people look for, and the page that the first hit is on."""

SEPARATOR = r"""[\s\-_,:!=\[\]()\\"`/]+|\.(?!\d)"""
"""Between words, unless an index has another one."""
FIELDS = ("title", "path", "text")
"""The parts of a section, by weight."""
GAP, ALONE = 10, 10
"""The places between the words of a cluster, and the stretch of a cluster of one word."""


class Cluster(NamedTuple):
    """The first cluster of a query's words in a field; the least is the best one."""

    field: int
    words: int  # as many different ones, negative
    stretch: int
    place: int


def split_words(text: str | Sequence[str], separator: str = SEPARATOR) -> list[str]:
    """Return the words of a text without its tags, or of several texts one after another."""
    texts = [text] if isinstance(text, str) else text
    bare = (piece for one in texts for piece in re.split(r"<[^>]*>", one))
    found = (word for piece in bare for word in re.split(separator, piece) if word)
    return [unicodedata.normalize("NFKD", word).lower() for word in found]


def find_cluster(query: Sequence[str], words: Sequence[str], field: int) -> Cluster | None:
    """Return the first cluster of a query's words among those of a field, if one is there."""
    found: list[tuple[int, int]] = []  # of the cluster: place and number of the query's word
    for place, word in enumerate(words):
        number = next((i for i, start in enumerate(query) if word.startswith(start)), None)
        if number is None:
            continue
        if found and place - found[-1][0] > GAP:
            break
        again = next((i for i, (_, other) in enumerate(found) if other == number), None)
        if again is not None:  # the words since then are nearer to this one, and begin a cluster with it
            nearer = found[-1][0] - found[again][0] > place - found[-1][0]
            found = found[: again + 1] if nearer else found
            break
        found.append((place, number))
    if not found:
        return None
    stretch = 1 + found[-1][0] - found[0][0] if len(found) > 1 else ALONE
    return Cluster(field, -len(found), stretch, found[0][0])


class Section(NamedTuple):
    """A section of a page, with the words of its fields."""

    location: str
    fields: list[list[str]]


def split_sections(items: Iterable[dict[str, Any]], separator: str = SEPARATOR) -> list[Section]:
    """Split the sections of an index into words."""
    return [
        Section(item["location"], [split_words(item.get(name) or (), separator) for name in FIELDS]) for item in items
    ]


def rank_sections(query: str, sections: Iterable[Section], separator: str = SEPARATOR) -> list[str]:
    """Return the locations of the sections that a query finds, best first."""
    asked, ranked = split_words(query, separator), []
    for location, fields in sections:
        if all(any(word.startswith(start) for words in fields for word in words) for start in asked):
            clusters = [find_cluster(asked, words, field) for field, words in enumerate(fields)]
            matches = [cluster for cluster in clusters if cluster is not None]
            # The end comes after any match, so that among equal beginnings more matches win.
            ranked.append(([*matches, Cluster(len(FIELDS), 0, 0, 0)], location))
    return [location for _, location in sorted(ranked, key=lambda row: row[0])]


def missed_phrases(site: Path) -> list[str]:
    """Describe the phrases whose first hit in a site is not on their page."""
    index = json.loads((site / "search.json").read_text())
    separator = index["config"]["separator"]
    sections = split_sections(index["items"], separator)
    lines = []
    for phrase, page in PHRASES.items():
        first = next(iter(rank_sections(phrase, sections, separator)), "no page")
        if first.partition("#")[0] != f"{page}.html":
            lines.append(f"search: {phrase!r} finds {first} first, and not {page}.html")
    return lines
