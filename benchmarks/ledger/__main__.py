"""Measure rows of the ledger again, and compare them with the recorded figures: `python benchmarks/ledger`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from forage.cli.arguments import FLAGS, display, say
from forage.cli.entry import as_command
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
python benchmarks/ledger [OPTIONS]               list every row with its figures
python benchmarks/ledger measure ROW ...         measure rows, and write their figures into the ledger
python benchmarks/ledger check ROW ...           measure rows again; the exit code is 1 if a figure got worse

  --sample               also the cheap rows (marked with a star)
  --file PATH            the ledger; default benchmarks/ledger.json
  --quiet | --json       show nothing; one JSON object a row

Scores are always judged; speed, compile time and memory only if JAX and the hardware are those of the ledger.

Examples
  python benchmarks/ledger
  python benchmarks/ledger check ppo-cartpole
"""

OPTIONS = "--sample, --file, --quiet and --json"


def run(arguments: list[str]) -> int:
    """Run the action that the arguments name. Return the exit code."""
    positional, words = options.split(arguments, FLAGS, set())
    if words.pop("help", False):
        print(HELP, end="")
        return 0
    from ledger.rows import ROWS

    action, names = (positional[0], positional[1:]) if positional else ("list", [])
    if action not in ("list", "measure", "check"):
        raise ForageError(f"python benchmarks/ledger can measure ROW or check ROW; {action!r} is neither.")
    kind, file = display(words), words.pop("file", None)
    if words.pop("sample", False):
        names = [*names, *(name for name, row in ROWS.items() if row.sample and name not in names)]
    if words:
        raise ForageError(
            f"python benchmarks/ledger has no option --{next(iter(words)).replace('_', '-')}; it has {OPTIONS}."
        )
    if action != "list" and not names:
        raise ForageError(f"{action} takes a row or more: python benchmarks/ledger {action} {next(iter(ROWS))}.")
    from ledger import checking
    from ledger.showing import lines

    path = checking.ledger_path(None if file is None else str(file), new=action == "measure")
    if action == "list":
        ledger = checking.read_json(path)
        say(ledger) if kind == "json" else print(*lines(ledger), sep="\n")
        return 0
    for name in names:  # check all names before anything is measured
        checking.row_of(name)
    stored = {name: checking.stored_figures(name, path) for name in names} if action == "check" else {}
    failed = False
    for name in dict.fromkeys(names):
        if action == "check":
            found = checking.check(name, stored[name])
            failed |= checking.verdict(found) == checking.WORSE
            data = {"verdict": checking.verdict(found), "findings": [finding._asdict() for finding in found]}
            said = checking.sentences(name, found)
        else:
            data = checking.measure(name)
            checking.store(name, data, path)
            said = lines({name: data}, [name])
        if kind == "json":
            say({"event": action, "row": name, **data})
        elif kind != "quiet":
            print(*said, sep="\n", flush=True)
    return int(failed)


if __name__ == "__main__":
    as_command(lambda: run(sys.argv[1:]))
