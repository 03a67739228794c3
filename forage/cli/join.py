"""`forage join`: share a run that another process or machine leads."""

from __future__ import annotations

from forage.cli.arguments import display, nothing_left
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage join NAME:PORT --number I --hosts N

Shares a run with its leading host, number 0 (forage train ppo CartPole-v1 --coordinator NAME:PORT
--hosts N), and with the others. All hosts need the same Forage and JAX, and a shared folder of runs.

  --number I             the number of this host: 1 to N - 1
  --hosts N              the number of hosts, including the first
  --quiet | --json | --plain   show nothing; one JSON object a line; lines

Examples
  forage join localhost:4711 --number 1 --hosts 2
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage join`."""
    if len(positional) != 1:
        raise ForageError("forage join takes the place where the first host listens: forage join machine:4711.")
    shown = display(words)
    for name in ("number", "hosts"):
        if name not in words:
            raise ForageError(f"forage join needs to know --number and --hosts; say --{name} too.")
    number, hosts = (options.parse(name, words.pop(name), int) for name in ("number", "hosts"))
    nothing_left(words, "join", ["number", "hosts", "quiet", "json", "plain"])
    from forage.runs import display as progress
    from forage.runs import joining, training

    training.use_compilation_cache()
    joining.follow_host(positional[0], number, hosts, progress.make_steady(shown))
