"""Sample Factory: PyTorch, environments in worker processes, with its own programs at the row's settings.

Its log is read: it says every few seconds how many frames there are, so the rate is of the time from the first such
line that counts any to the last. It ends with its training, whose newest episodes are its return.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import common

EARNED = re.compile(r"Avg episode reward: \[\(0, '(-?[\d.]+)'\)\]")
SAID = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\].*Total num frames: (\d+)")


def words(settings: dict[str, Any], folder: str) -> list[str]:
    """Return the words of its program."""
    each, workers = settings["num_envs"] // settings["workers"], settings["workers"]
    minibatch = settings["num_envs"] * settings["rollout_length"] // settings["num_minibatches"]
    name = settings["environment"].partition("-")[0].lower()
    atari = settings["simulator"] == "ale"
    own: dict[str, Any] = {"env": f"mujoco_{name}"}
    if atari:  # steps are counted as elsewhere, and nothing is scaled by what was seen
        own = {"env": f"atari_{name}", "summaries_use_frameskip": False, "normalize_input": False,
               "normalize_returns": False}  # fmt: skip
    given = own | {
        "train_dir": folder,
        "experiment": "run",
        "device": "cpu",
        "seed": settings["seed"],
        "num_workers": workers,
        "num_envs_per_worker": each,
        "worker_num_splits": 2 if each > 1 else 1,
        "train_for_env_steps": settings["steps"],
        "rollout": settings["segment"],
        "batch_size": minibatch,
        "num_batches_per_epoch": settings["num_minibatches"],
        "num_epochs": settings["epochs"],
        "nonlinearity": settings["activation"],
        "learning_rate": settings["learning_rate"],
        "gamma": settings["discount"],
        "gae_lambda": settings["gae_lambda"],
        "ppo_clip_ratio": settings["clip"],
        "value_loss_coeff": settings["value_coefficient"],
        "max_grad_norm": settings["max_grad_norm"],
        "experiment_summaries_interval": 3,
        "with_wandb": False,
    }
    layers = [] if atari else ["--encoder_mlp_layers", *map(str, settings["hidden"])]
    return [*(f"--{name}={value}" for name, value in given.items()), *layers]


def program(settings: dict[str, Any]) -> list[str]:
    """Return the words that start its program; that of Atari does not find ale-py's games by itself."""
    if settings["simulator"] == "ale":
        return [str(Path(__file__).with_name("sample_factory_atari.py"))]
    return ["-m", "sf_examples.mujoco.train_mujoco"]


def main() -> None:
    _, settings = common.arguments()
    known = settings["simulator"] in ("gymnasium", "ale")
    if settings["algorithm"] != "ppo" or settings["num_seeds"] > 1 or not known:
        raise SystemExit("This script runs PPO for one seed, in MuJoCo's environments and Atari's.")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *program(settings), *words(settings, folder)]
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    seen = [
        (datetime.datetime.strptime(when, "%Y-%m-%d %H:%M:%S,%f"), int(frames))
        for when, frames in SAID.findall(done.stdout)
    ]
    seen = [one for one in seen if one[1]]
    (began, first), (ended, last) = seen[0], seen[-1]
    common.report(
        seconds_import=None,
        seconds_compile=None,
        seconds_steady=(ended - began).total_seconds(),
        seconds_outside=0.0,
        steps=last - first,
        updates=(last - first) // (settings["num_envs"] * settings["rollout_length"]),
        total_steps=last,
        final_return=[float(EARNED.findall(done.stdout)[-1])],
        packages=("sample-factory", "torch", "gymnasium", "mujoco", "numpy"),
    )


if __name__ == "__main__":
    main()
