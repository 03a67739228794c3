"""`forage compare`: compare runs with each other."""

from __future__ import annotations

import re
from typing import Any

from forage.cli.arguments import nothing_left
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage compare RUN RUN ... [OPTIONS]

Draws the curves of all runs into one picture, and reports which is better, by how much and how surely. Runs of several
environments get a panel each, and the settings of a sweep a line each. Runs of different lengths are compared over
their common steps. A file NAME.csv among the runs holds curves of another program: columns step, return and seed.

  --output FILE          the picture, .png, .svg or .pdf; default comparison.png
  --labels A,B,...       a name for each run
  --title TEXT           the title of the picture; default the environment
  --size WIDTHxHEIGHT    the size of the picture in inches, such as 7.2x4.2
  --smooth STEPS         average each point over so many steps
  --metrics A,B,...      panels of these metrics: return, entropy, value_loss ...; default return
  --curves FILE          also write all points by seed, as .csv or .parquet
  --looks N              seeds are added and compared up to N times, this one included; widens the interval for it

Examples
  forage compare runs/A runs/B
  forage compare runs/A runs/B runs/C --output three.svg --labels plain,wide,deep --smooth 10k
  forage compare runs/A theirs.csv --metrics return,entropy --curves points.csv
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage compare`."""
    if len(positional) < 2:
        raise ForageError("forage compare takes two runs or more: forage compare runs/A runs/B.")
    output = options.parse("output", words.pop("output", "comparison.png"), str)
    given = take_curve_options(words)
    if "size" in words:
        given["size"] = parse_size(str(words.pop("size")))
    if "metrics" in words:
        given["metrics"] = [name.strip() for name in str(words.pop("metrics")).split(",") if name.strip()]
    if "looks" in words:
        given["looks"] = options.parse("looks", words.pop("looks"), int)
    nothing_left(words, "compare", ["output", "labels", "title", "size", "smooth", "metrics", "curves", "looks"])
    from forage.studies.comparison.compare import compare as draw

    print(*draw(positional, output, **given), sep="\n")


def take_curve_options(words: options.Words) -> dict[str, Any]:
    """Take out the options that comparisons and reports share."""
    found: dict[str, Any] = {name: str(words.pop(name)) for name in ("title", "curves") if name in words}
    if "labels" in words:
        found["labels"] = [label.strip() for label in str(words.pop("labels")).split(",")]
    if "smooth" in words:
        found["smooth"] = options.parse("smooth", words.pop("smooth"), int)
    return found


def parse_size(text: str) -> tuple[float, float]:
    """Return the width and the height in a text such as `7.2x4.2`."""
    if not (sides := re.fullmatch(r"(\d+\.?\d*)\s*[x,]\s*(\d+\.?\d*)", text.strip())):
        raise ForageError(f"--size is a width and a height in inches, such as 7.2x4.2, not {text!r}.")
    return float(sides[1]), float(sides[2])
