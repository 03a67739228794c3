"""`forage estimate`: the value of a policy that was never run, from a log of another one."""

from __future__ import annotations

from forage.cli.arguments import checkpoint_of, display, nothing_left, one_run, say
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage estimate RUN --data FILE [OPTIONS]

What would the run's policy have earned where another one was logged? Its mean discounted return from the log's first
observations, by fitted Q evaluation, with an interval; for actions that are choices also by a doubly robust estimate
and by weighted importance sampling. Beside it: how many transitions and episodes stand behind the value, how often the
policy does what the log hardly has, how well a fitted behaviour is calibrated, and warnings in words.

  --data FILE            the log: any data set that --data of a training takes
  --discount NUMBER      discount of the return; default the agent's
  --confidence NUMBER    of the intervals; default 0.95
  --seed N               the trained agent of this seed; default the best in evaluation
  --checkpoint best|N    a kept agent, of the best evaluation or of step N; by default the newest
  --trust                use the maker's code and addresses named in the run; they are shown and remembered
  --quiet | --json       show nothing; one JSON object

The result is written to estimate.json of the run, and shown on its page (forage report RUN).

Examples
  forage estimate runs/NAME --data log.csv
  forage estimate runs/NAME --data later.csv --discount 0.95 --json
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage estimate`."""
    kind = display(words)
    directory = one_run(positional, "estimate")
    file = str(words.pop("data")) if "data" in words else None
    numbers = {"discount": float, "confidence": float, "seed": int}
    given = {name: options.parse(name, words.pop(name), numbers[name]) for name in numbers if name in words}
    checkpoint = checkpoint_of(words)
    nothing_left(words, "estimate", ["data", *numbers, "checkpoint", "json", "quiet"])
    if file is None:
        raise ForageError("A value is estimated from a log; name it with --data FILE, as in --data log.csv.")
    from forage.runs.training import use_compilation_cache
    from forage.studies.estimate import estimate_run

    use_compilation_cache()
    found = estimate_run(directory, file, checkpoint=checkpoint, **given)
    if kind == "json":
        from forage.studies.select import finite

        say(finite(found.data()))
    elif kind != "quiet":
        print(found)
