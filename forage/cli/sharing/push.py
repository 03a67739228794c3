"""`forage push`: share a run on the Hugging Face Hub."""

from __future__ import annotations

from forage.cli.arguments import nothing_left
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage push RUN USER/NAME [--private]

Uploads a run's agents, numbers and pictures to the Hugging Face Hub, with a model card of its
environment, agent, settings, score with its interval, seeds, versions and the way to load it. Checkpoints stay here.
It needs an extra, pip install 'forage-rl[hub]', and a token with write access: hf auth login.

  --private              make a new repository private

Examples
  forage push runs/ppo-CartPole-v1 ada/ppo-cartpole
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage push`."""
    if len(positional) != 2:
        raise ForageError("forage push takes a run and a repository: forage push runs/NAME USER/NAME.")
    private = bool(words.pop("private", False))
    nothing_left(words, "push", ["private"])
    from forage.studies.hub import push

    print(push(*positional, private=private))
