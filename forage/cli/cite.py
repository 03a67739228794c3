"""`forage cite`: print the citation of Forage, and of a run made with it."""

from __future__ import annotations

from forage.cli.arguments import nothing_left
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage cite [RUN]

Prints a BibTeX entry for Forage. For a run, the entry has the version that made it, and is followed by a sentence for a
paper and the papers of the run's parts.

Examples
  forage cite
  forage cite runs/NAME
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage cite`."""
    nothing_left(words, "cite", [])
    if len(positional) > 1:
        raise ForageError("forage cite takes one run's directory, or none: forage cite runs/NAME.")
    from forage.studies.cite import cite

    print(cite(*positional))
