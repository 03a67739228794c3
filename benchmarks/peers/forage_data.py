"""Forage, learning from random transitions: an agent, a data set and the loop without environment steps."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import common
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from forage.config.resolve import resolve
from forage.core.ports import Environment
from forage.core.types import Step
from forage.data import files
from forage.data.logged import Transitions

SECONDS_IMPORT = common.seconds_since_start()
OBSERVATIONS, ACTIONS = 17, 6


class Blank(Environment):
    """An environment of HalfCheetah's shapes in which nothing happens; nobody plays in it."""

    horizon = 1000
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVATIONS,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTIONS,), np.float32)

    def reset(self, key: Key[Array, ""]) -> Any:
        return jnp.zeros(()), jnp.zeros(OBSERVATIONS)

    def step(self, state: Any, action: Any, key: Key[Array, ""]) -> Any:
        no = jnp.zeros((), bool)
        return state, Step(jnp.zeros(OBSERVATIONS), jnp.zeros(()), no, no, {})


def main() -> None:
    _, settings = common.arguments()
    if (settings["observations"], settings["actions"]) != (OBSERVATIONS, ACTIONS):
        raise SystemExit(f"This script's environment has {OBSERVATIONS} numbers and {ACTIONS} actions.")
    draw, count = np.random.default_rng(0), settings["transitions"]
    seen = draw.normal(size=(count, OBSERVATIONS)).astype(np.float32)
    ends = np.zeros(count, bool)
    ends[999::1000] = True
    following = np.concatenate([seen[1:], seen[:1]])
    actions = draw.uniform(-1, 1, (count, ACTIONS)).astype(np.float32)
    data = Transitions(seen, actions, draw.normal(size=count), following, np.zeros(count, bool), ends)
    options = {
        "learning_rate": settings["learning_rate"],
        "discount": settings["discount"],
        "batch_size": settings["batch_size"],
        "hidden_sizes": tuple(settings["hidden"]),
        "polyak": settings["tau"],
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        config = resolve("sac", Blank(), steps=settings["updates"], seeds=1).config()
        files.write_data(file, data, {"spec": config["spec"]})
        words = {"steps": settings["updates"], "seeds": [settings["seed"]], "agent_options": options}
        began = time.perf_counter()
        runner = resolve(settings["algorithm"], Blank(), data=str(file), **words).runner()
    runner.begin()
    runner.advance(0)  # compiles: the same program serves any number of updates
    ready = time.perf_counter()
    runner.advance(settings["updates"])
    common.report(
        seconds_import=SECONDS_IMPORT,
        seconds_compile=ready - began,
        seconds_steady=time.perf_counter() - ready,
        seconds_outside=0.0,
        steps=settings["updates"],
        updates=settings["updates"],
        total_steps=settings["updates"],
        final_return=[float("nan")],
        packages=("forage-rl", "jax", "equinox", "optax"),
    )


if __name__ == "__main__":
    main()
