"""Sample Factory's program for Atari, with the games of ale-py, which Gymnasium 0.29 does not know by itself."""

from __future__ import annotations

import sys
from typing import Any

import ale_py  # noqa: F401  in every process: it registers the games
from sample_factory.envs.env_utils import register_env
from sample_factory.train import run_rl
from sf_examples.atari.atari_utils import make_atari_env
from sf_examples.atari.train_atari import parse_atari_args


def make(*arguments: Any, **options: Any) -> Any:
    """Return the environment with the program's own wrappers; workers look this function up in this file."""
    return make_atari_env(*arguments, **options)


if __name__ == "__main__":
    register_env("atari_pong", make)
    sys.exit(run_rl(parse_atari_args()))
