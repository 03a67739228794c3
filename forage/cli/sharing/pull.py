"""`forage pull`: fetch a shared run from the Hugging Face Hub."""

from __future__ import annotations

from forage.cli.arguments import nothing_left
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage pull USER/NAME [--output DIRECTORY] [--revision R] [--anyway]

Downloads a run that `forage push` shared, to evaluate, watch, compare or load it like a local one. Its files are
numbers and names; no code in them is run. It needs an extra: pip install 'forage-rl[hub]'.

  --output DIRECTORY     the folder to write; default runs/NAME
  --revision R           a branch, a tag or a commit; by default the newest
  --anyway               also take a run that names its maker's own code; that is imported from here when it acts

Examples
  forage pull ada/ppo-cartpole && forage evaluate runs/ppo-cartpole
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage pull`."""
    if len(positional) != 1:
        raise ForageError("forage pull takes one repository: forage pull USER/NAME.")
    given = {name: options.parse(name, words.pop(name), str) for name in ("output", "revision") if name in words}
    anyway = bool(words.pop("anyway", False))
    nothing_left(words, "pull", ["output", "revision", "anyway"])
    from forage.studies.hub import pull

    pulled = pull(positional[0], given.get("output"), revision=given.get("revision"), anyway=anyway)
    score = f": return {pulled.score}" if pulled.evaluation and not pulled.config["sweep"] else ""
    print(f"{pulled.directory}: {pulled.title}{score}")
