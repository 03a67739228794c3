"""Sample Factory: PyTorch, environments in worker processes, with its own program for MuJoCo at the row's settings.

Its log is read: it says every few seconds how many frames there are, so the rate is of the time from the first such
line that counts any to the last. It ends with its training, whose newest episodes are its return.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import tempfile
from typing import Any

import common

EARNED = re.compile(r"Avg episode reward: \[\(0, '(-?[\d.]+)'\)\]")
SAID = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\].*Total num frames: (\d+)")


def words(settings: dict[str, Any], folder: str) -> list[str]:
    """Return the words of its program."""
    each, workers = settings["num_envs"] // settings["workers"], settings["workers"]
    minibatch = settings["num_envs"] * settings["rollout_length"] // settings["num_minibatches"]
    layers = map(str, settings["hidden"])
    given = {
        "env": f"mujoco_{settings['environment'].partition('-')[0].lower()}",
        "train_dir": folder,
        "experiment": "run",
        "device": "cpu",
        "seed": settings["seed"],
        "num_workers": workers,
        "num_envs_per_worker": each,
        "worker_num_splits": 2,
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
    return [*(f"--{name}={value}" for name, value in given.items()), "--encoder_mlp_layers", *layers]


def main() -> None:
    _, settings = common.arguments()
    if settings["algorithm"] != "ppo" or settings["num_seeds"] > 1 or settings["simulator"] != "gymnasium":
        raise SystemExit("This script runs PPO for one seed, in MuJoCo's environments.")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sf_examples.mujoco.train_mujoco", *words(settings, folder)]
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
