"""The ids of the toy languages."""

from __future__ import annotations

from forage.environments.entry import Entry

ENTRIES: dict[str, Entry] = {
    f"language:Reverse-{n}": Entry(
        "language.reverse:Reverse", f"Answer a prompt of {n} tokens with its reverse, token by token.", {"length": n}
    )
    for n in (2, 4, 6)
}
