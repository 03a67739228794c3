"""`forage compare`: hold runs against each other."""

from __future__ import annotations

from forage.cli.arguments import nothing_left
from forage.config import options
from forage.core.errors import ForageError


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage compare` ask for."""
    if len(positional) < 2:
        raise ForageError("forage compare takes two runs or more: forage compare runs/A runs/B.")
    output = options.parse("output", words.pop("output", "comparison.png"), str)
    nothing_left(words, "compare", ["output"])
    from forage.studies.compare import compare as draw

    print(*draw(positional, output), sep="\n")
