"""`forage check`: say what is right and wrong with an environment, before anything is trained in it."""

from __future__ import annotations

from forage.cli.arguments import nothing_left, say, wrappers
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage check ENVIRONMENT [OPTIONS]

Plays an environment with random actions and says, a line each, what is right, what is wrong and how to mend it:
observations against their space, rewards, ends and lengths of episodes, seeds, copies side by side, drawing, saving,
speed, in JAX also compiling, and which agents can learn it. Exits with 1 where something is wrong, else with 0.

  --steps N              steps that are played, at most for ten seconds; 1,000
  --seed N               seed of the environment and of the actions; 0
  --env.OPTION VALUE     any field or option of the environment
  --wrap NAME:VALUE      put a wrapper around the environment; again for one around that (forage list wrappers)
  --json                 print one JSON object instead

Examples
  forage check my_env.py:Env
  forage check my_env.py:Env --env.length 20 --steps 10k
  forage check gymnasium:HalfCheetah-v5 --json
"""


def run(positional: list[str], words: options.Words) -> int:
    """Do what the words after `forage check` ask for. Return 1 where something is wrong."""
    wrap = wrappers(words, "wrap")
    json = bool(words.pop("json", False))
    numbers = {name: options.parse(name, words.pop(name), int) for name in ("steps", "seed") if name in words}
    environment_options = {w[4:]: options.guess(words.pop(w)) for w in list(words) if w.startswith("env.")}
    nothing_left(words, "check", ["steps", "seed", "wrap", "json"])
    if len(positional) != 1:
        raise ForageError("forage check takes one environment: forage check my_env.py:Env.")
    from forage.studies.check import check

    found = check(positional[0], environment_options=environment_options, wrap=wrap, **numbers)
    if json:
        say({"event": "check"} | found.to_json())
    else:
        print(found)
    return 0 if found.ok else 1
