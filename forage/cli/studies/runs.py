"""`forage runs`: list the runs below a folder."""

from __future__ import annotations

from forage.cli.arguments import nothing_left, say
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage runs [FOLDER] [OPTIONS]

Lists the runs below a folder (default runs): agent, environment, state, steps, score and date. A run is done, running
(a process trains it now), stopped (forage resume continues it) or damaged.

  --agent NAME           only agents whose name has this part
  --environment NAME     only environments whose name has this part
  --state STATE          only those that are done, running, stopped or damaged
  --since DATE           only those written to since a day, such as 2026-01-31
  --above SCORE          only those with this score or a higher one
  --sort COLUMN          date, agent, environment, score, steps, state or directory; default date, the newest first
  --reverse              the other way around
  --limit N              the first N of these
  --json                 print one JSON object instead

Examples
  forage runs
  forage runs --agent ppo --state stopped
  forage runs studies/walkers --sort score --limit 10
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage runs`."""
    if len(positional) > 1:
        raise ForageError("forage runs takes one folder: forage runs FOLDER.")
    json, reverse = bool(words.pop("json", False)), bool(words.pop("reverse", False))
    texts = {name: str(words.pop(name)) for name in ("agent", "environment", "state", "since", "sort") if name in words}
    above = options.parse("above", words.pop("above"), float) if "above" in words else None
    limit = options.parse("limit", words.pop("limit"), int) if "limit" in words else None
    if limit is not None and limit < 1:
        raise ForageError(f"--limit is 1 or more, not {limit}.")
    nothing_left(words, "runs", ["agent", "environment", "state", "since", "above", "sort", "reverse", "limit", "json"])
    from forage.runs.listing import list_runs, row_data, run_table

    folder = positional[0] if positional else "runs"
    rows = list_runs(folder, above=above, reverse=reverse, **texts)[:limit]
    if json:
        say({"event": "runs", "runs": [row_data(row) for row in rows]})
    elif rows:
        print(*run_table(rows), sep="\n")
    else:
        print(f"No such run in {folder}.")
