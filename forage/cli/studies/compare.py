"""`forage compare`: compare runs with each other."""

from __future__ import annotations

from forage.cli.arguments import nothing_left
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage compare RUN RUN ... [OPTIONS]

Draws the curves of all runs into one picture, and reports which is better, by how much and how surely.

  --output FILE          the picture, .png, .svg or .pdf; default comparison.png

Examples
  forage compare runs/A runs/B
  forage compare runs/A runs/B runs/C --output three.svg
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage compare`."""
    if len(positional) < 2:
        raise ForageError("forage compare takes two runs or more: forage compare runs/A runs/B.")
    output = options.parse("output", words.pop("output", "comparison.png"), str)
    nothing_left(words, "compare", ["output"])
    from forage.studies.compare import compare as draw

    print(*draw(positional, output), sep="\n")
