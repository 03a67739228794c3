"""`forage report`: write one page about runs."""

from __future__ import annotations

from forage.cli.arguments import nothing_left
from forage.cli.studies.compare import take_curve_options
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage report RUN ... [OPTIONS]

Writes one HTML page about runs: curves, losses and other metrics, scores, profiles, settings, films, and texts of
language policies. Runs may be of several environments, of different lengths, and sweeps.

  --output FILE          the page; default report.html
  --threshold RETURN     also the steps until each run reaches this return
  --labels A,B,...       a name for each run
  --title TEXT           the title of the page; default agents and environments
  --smooth STEPS         average each point of a curve over so many steps
  --curves FILE          also write all points by seed, as .csv or .parquet
  --film                 also a film of each run
  --trust                use the maker's code and addresses named in the runs; they are shown and remembered

Examples
  forage report runs/A
  forage report runs/A runs/B --output both.html --threshold 475
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage report`."""
    if not positional:
        raise ForageError("forage report takes one run or more: forage report runs/A runs/B.")
    output = options.parse("output", words.pop("output", "report.html"), str)
    threshold = options.parse("threshold", words.pop("threshold"), float) if "threshold" in words else None
    film = bool(words.pop("film", False))
    given = take_curve_options(words)
    nothing_left(words, "report", ["output", "threshold", "labels", "title", "smooth", "curves", "film"])
    from forage.runs.display import Waiting
    from forage.studies.report import report as write

    with Waiting() as tell:
        path = write(positional, output, threshold, film, tell, **given)
    print(path)
