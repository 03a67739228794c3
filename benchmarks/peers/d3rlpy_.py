"""d3rlpy: learning from random transitions, with its own sampling of batches."""

from __future__ import annotations

import time
from typing import Any

import common
import d3rlpy
import numpy as np
import torch
from d3rlpy.models.encoders import VectorEncoderFactory

SECONDS_IMPORT = common.seconds_since_start()
SETTLING_UPDATES = 20


def learner(settings: dict[str, Any]) -> Any:
    """Return the algorithm; what is not set is d3rlpy's own."""
    encoder = VectorEncoderFactory(list(settings["hidden"]))
    both = {"actor_encoder_factory": encoder, "critic_encoder_factory": encoder, "batch_size": settings["batch_size"]}
    rate, both = settings["learning_rate"], both | {"gamma": settings["discount"]}
    rates = {"actor_learning_rate": rate, "critic_learning_rate": rate}
    made = {
        "iql": lambda: d3rlpy.algos.IQLConfig(value_encoder_factory=encoder, tau=settings["tau"], **both, **rates),
        "td3-bc": lambda: d3rlpy.algos.TD3PlusBCConfig(tau=settings["tau"], **both, **rates),
        "cql": lambda: d3rlpy.algos.CQLConfig(tau=settings["tau"], **both, **rates),
    }
    return made[settings["algorithm"]]().create(device="cpu:0")


def main() -> None:
    _, settings = common.arguments()
    if settings["torch_threads"]:
        torch.set_num_threads(settings["torch_threads"])
    d3rlpy.seed(settings["seed"])
    draw = np.random.default_rng(0)
    count = settings["transitions"]
    ends = np.zeros(count, np.float32)
    ends[999::1000] = 1
    data = d3rlpy.dataset.MDPDataset(
        draw.normal(size=(count, settings["observations"])).astype(np.float32),
        draw.uniform(-1, 1, (count, settings["actions"])).astype(np.float32),
        draw.normal(size=count).astype(np.float32),
        terminals=np.zeros(count, np.float32),
        timeouts=ends,
    )
    agent = learner(settings)
    agent.build_with_dataset(data)
    size = settings["batch_size"]
    for _ in range(SETTLING_UPDATES):
        agent.update(data.sample_transition_batch(size))
    ready = time.perf_counter()
    for _ in range(settings["updates"]):
        agent.update(data.sample_transition_batch(size))
    common.report(
        seconds_import=SECONDS_IMPORT,
        seconds_compile=None,
        seconds_steady=time.perf_counter() - ready,
        seconds_outside=0.0,
        steps=settings["updates"],
        updates=settings["updates"],
        total_steps=settings["updates"] + SETTLING_UPDATES,
        final_return=[float("nan")],
        packages=("d3rlpy", "torch", "gymnasium"),
    )


if __name__ == "__main__":
    main()
