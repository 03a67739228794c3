"""`forage chat`: talk to a language model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from forage.cli.arguments import checkpoint_of, environment_options, nothing_left
from forage.config import options
from forage.core.errors import ForageError
from forage.core.records import printable

HELP = """\
forage chat RUN | forage | DIRECTORY [ENVIRONMENT] [OPTIONS]

Talks to the policy of a run on text, to the base model `forage`, or to a model in a Hugging Face directory. Each line
is a prompt, and the answer follows. An empty line starts a new conversation, and Ctrl-D ends the command. With an
environment, or --problem, it poses problems held out from training, and shows the answer and the verdict.

  --problem              pose the run's own problems
  --env.OPTION VALUE     any option of the problems' environment
  --number N             number of problems; by default one after each Enter, or a single one without a terminal
  --temperature X        divisor of the logits, 0 for the most probable tokens; by default as in the run's evaluation
  --tokens N             maximal length of an answer
  --seed N               the seed of the policy; by default the best
  --checkpoint best|N    a kept policy, of the best evaluation or of step N; by default the newest
  --trust                use the maker's code and addresses named in the run; they are shown and remembered

Examples
  forage chat runs/NAME
  forage chat runs/NAME --temperature 1
  forage chat runs/NAME --problem --number 5
  forage chat forage text:countdown --env.level 1
  echo "Compute 12 + 30." | forage chat forage
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage chat`."""
    if not 1 <= len(positional) <= 2:
        raise ForageError("forage chat takes a run or a model, and perhaps an environment: forage chat runs/NAME.")
    source, environment = positional[0], positional[1] if len(positional) > 1 else None
    problem = bool(words.pop("problem", False)) or environment is not None
    known = {"temperature": float, "tokens": int, "seed": int}
    values: dict[str, Any] = {
        name: options.parse(name, words.pop(name), kind) for name, kind in known.items() if name in words
    }
    number = options.parse("number", words.pop("number"), int) if "number" in words else None
    own = environment_options(words)
    if own and not problem:
        raise ForageError(
            "--env.OPTION is of an environment whose problems are posed; add --problem or an environment."
        )
    if number is not None and not problem:
        raise ForageError("--number is how many problems are posed; add --problem or an environment.")
    if number is not None and number < 1:
        raise ForageError(f"Problems to pose are 1 or more, not {number}.")
    checkpoint = checkpoint_of(words)
    nothing_left(words, "chat", ["problem", "number", "checkpoint", *known])
    from forage.runs.training import use_compilation_cache
    from forage.studies.chat import chat

    use_compilation_cache()
    talk = chat(source, checkpoint=checkpoint, **values)
    if problem:
        for _, one in zip(rounds(number), talk.problems(environment, **own), strict=False):
            print(printable(str(one)), end="\n\n", flush=True)
        return
    for line in lines():
        if not line:
            talk.begin()
            continue
        try:
            print(printable(talk.say(line)), flush=True)
        except ForageError as error:
            if not sys.stdin.isatty():
                raise
            print(error, file=sys.stderr)


def lines() -> Iterator[str]:
    """Yield the typed lines until the input ends."""
    while True:
        try:
            yield (input("> ") if sys.stdin.isatty() else input()).strip()
        except EOFError:
            return


def rounds(number: int | None) -> Iterator[int]:
    """Count the problems: `number`, or, in a terminal, another one after each Enter; else one."""
    if number is not None:
        yield from range(number)
        return
    yield 0
    if sys.stdin.isatty():
        print("Enter for another one, Ctrl-D to end", file=sys.stderr)
        yield from (count for count, _ in enumerate(lines(), 1))
