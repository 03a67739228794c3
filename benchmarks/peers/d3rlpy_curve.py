"""d3rlpy: learning from a data set of Forage's, with the greedy return in the environment after so many updates.

Called as `python d3rlpy_curve.py ROW '{"data": FILE.npz, "algorithm": "iql", "updates": 20000, ...}'`. The last line of
its output is one JSON object: `evaluations` has a pair of updates and mean return for each, `seconds` are of all.
"""

from __future__ import annotations

import importlib.metadata
import json
import time
from typing import Any

import common
import d3rlpy
import gymnasium
import numpy as np
import torch
from d3rlpy.algos.utility import build_scalers_with_transition_picker
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.preprocessing import StandardObservationScaler

PACKAGES = ("d3rlpy", "torch", "gymnasium", "mujoco", "numpy")


def read_episodes(file: str) -> d3rlpy.dataset.MDPDataset:
    """Return the data set of a file of Forage's; an episode's end is a terminal, a timeout or a cut."""
    with np.load(file) as arrays:
        ended = arrays["terminated"] | arrays["truncated"]
        return d3rlpy.dataset.MDPDataset(
            arrays["observation"].astype(np.float32),
            arrays["action"].astype(np.float32),
            arrays["reward"].astype(np.float32),
            terminals=arrays["terminated"].astype(np.float32),
            timeouts=(ended & ~arrays["terminated"]).astype(np.float32),
        )


def make_learner(settings: dict[str, Any], data: d3rlpy.dataset.MDPDataset) -> Any:
    """Return the algorithm with d3rlpy's defaults, but for two that its own reproductions change as well.

    TD3+BC sees standardised observations, and CQL's weight is constant.
    """
    encoder = VectorEncoderFactory([256, 256])
    both = {"actor_encoder_factory": encoder, "critic_encoder_factory": encoder, "batch_size": 256, "gamma": 0.99}
    made = {
        "iql": lambda: d3rlpy.algos.IQLConfig(value_encoder_factory=encoder, **both),
        "td3-bc": lambda: d3rlpy.algos.TD3PlusBCConfig(observation_scaler=StandardObservationScaler(), **both),
        "cql": lambda: d3rlpy.algos.CQLConfig(alpha_learning_rate=0.0, **both),
    }
    agent = made[settings["algorithm"]]().create(device="cpu:0")
    agent.build_with_dataset(data)
    build_scalers_with_transition_picker(agent, data)
    return agent


def play(agent: Any, environment: Any, episodes: int, seed: int) -> list[float]:
    """Return the return of each greedy episode."""
    found = []
    for number in range(episodes):
        observation, _ = environment.reset(seed=seed + number)
        total, over = 0.0, False
        while not over:
            action = agent.predict(np.asarray(observation, np.float32)[None])[0]
            observation, reward, terminated, truncated, _ = environment.step(action)
            total, over = total + float(reward), terminated or truncated
        found.append(total)
    return found


def main() -> None:
    """Train, evaluate every so many updates, and print the curve."""
    _, settings = common.arguments()
    torch.set_num_threads(1)
    d3rlpy.seed(settings["seed"])
    data = read_episodes(settings["data"])
    agent = make_learner(settings, data)
    environment = gymnasium.make(settings["environment"])
    found, started = [], time.perf_counter()
    for done in range(settings["every"], settings["updates"] + 1, settings["every"]):
        for _ in range(settings["every"]):
            agent.update(data.sample_transition_batch(256))
        found.append((done, float(np.mean(play(agent, environment, settings["episodes"], 10_000 + settings["seed"])))))
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    told = {"curve": [], "evaluations": found, "evaluation": found[-1][1], "seconds": time.perf_counter() - started}
    print(json.dumps(told | {"versions": versions}), flush=True)


if __name__ == "__main__":
    main()
