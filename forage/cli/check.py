"""`forage check`: test an environment before any training, and report its faults."""

from __future__ import annotations

from forage.cli.arguments import environment_options, nothing_left, say, wrappers
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage check ENVIRONMENT [OPTIONS]

Plays an environment with random actions and reports, a line each, what is right, what is wrong and how to mend it:
observations against their space, rewards, ends and lengths of episodes, seeds, copies side by side, rendering, saving,
speed, compiling in JAX, and the agents that can learn it. The exit code is 1 if there is a fault, else 0.

  --steps N              steps to play, for ten seconds at most; default 1,000
  --seed N               seed of the environment and of the actions; default 0
  --env.OPTION VALUE     any field or option of the environment
  --wrap NAME:VALUE      wrap the environment; repeat for further, outer wrappers (forage list wrappers)
  --json                 print one JSON object instead

Examples
  forage check my_env.py:Env
  forage check my_env.py:Env --env.length 20 --steps 10k
  forage check gymnasium:HalfCheetah-v5 --json
"""


def run(positional: list[str], words: options.Words) -> int:
    """Run `forage check`. Return 1 if the environment has a fault."""
    wrap = wrappers(words, "wrap")
    json = bool(words.pop("json", False))
    numbers = {name: options.parse(name, words.pop(name), int) for name in ("steps", "seed") if name in words}
    of_environment = environment_options(words)
    nothing_left(words, "check", ["steps", "seed", "wrap", "json"])
    if len(positional) != 1:
        raise ForageError("forage check takes one environment: forage check my_env.py:Env.")
    from forage.studies.check import check

    found = check(positional[0], environment_options=of_environment, wrap=wrap, **numbers)
    if json:
        say({"event": "check"} | found.to_json())
    else:
        print(found)
    return 0 if found.ok else 1
