"""`forage cite`: print how to cite Forage, and a run made with it."""

from __future__ import annotations

from forage.cli.arguments import nothing_left
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage cite [RUN]

Prints a BibTeX entry for Forage; of a run, at the version that made it, and beside it the sentence that a paper would
print and the papers of the parts that it used.

Examples
  forage cite
  forage cite runs/NAME
"""


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage cite` ask for."""
    nothing_left(words, "cite", [])
    if len(positional) > 1:
        raise ForageError("forage cite takes one run's directory, or none: forage cite runs/NAME.")
    from forage.studies.cite import cite

    print(cite(*positional))
