"""`forage claim`: run a paper's claim."""

from __future__ import annotations

from forage.cli.arguments import display, nothing_left, say
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage claim [NAME] [OPTIONS]

Without a name, lists every claim with a sentence. With a name, trains the claim's arms and judges them by its rule; a
claim that was stopped continues where it stopped.

  --scale laptop | smoke | paper   minutes to an hour on two cores (the default); seconds; the paper's own setting
  --until-decided        add seeds at up to five looks until the claim is decided; go on from its published result
  --budget SECONDS       the most training of all looks; default 600
  --directory PATH       folder of its runs; default runs/claims/NAME-SCALE
  --anyway               start the paper's setting even without an accelerator
  --quiet | --json | --plain   show nothing; one JSON object a line; lines

Examples
  forage claim
  forage claim gae-lambda
  forage claim gae-lambda --scale smoke
  forage claim gae-lambda --until-decided
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage claim`."""
    from forage.studies.claims import names, running, statement

    if len(positional) > 1:
        raise ForageError("forage claim takes one claim: forage claim NAME.")
    if not positional:
        nothing_left(words, "claim", [])
        if not names():
            raise ForageError("No installed package has claims; forage-rl as it is published brings those of papers.")
        for name in names():
            print(f"  {name:28} {statement(name)}")
        return
    kind = display(words)
    scale = str(words.pop("scale", "laptop"))
    directory, anyway = words.pop("directory", None), bool(words.pop("anyway", False))
    until_decided = bool(words.pop("until_decided", False))
    budget = options.parse("budget", words.pop("budget"), float) if "budget" in words else None
    known = ["scale", "directory", "anyway", "until-decided", "budget", "quiet", "json", "plain"]
    nothing_left(words, "claim", known)
    if budget is not None and not until_decided:
        raise ForageError("--budget is of --until-decided, which adds seeds; give both, or neither.")
    if until_decided and scale != "laptop":
        raise ForageError(f"--until-decided adds seeds at the scale laptop, not at {scale}; leave --scale out.")
    from forage.runs.training import use_compilation_cache

    use_compilation_cache()
    place = None if directory is None else str(directory)
    if until_decided:
        from forage.studies.claims import looks

        result = looks.decide(positional[0], looks.BUDGET if budget is None else budget, place, kind)
    else:
        result = running.run(positional[0], scale, place, kind, anyway)
    if kind == "json":
        say({"event": "claim", **result})
    elif kind != "quiet":
        print(*running.result_sentences(result), sep="\n")
