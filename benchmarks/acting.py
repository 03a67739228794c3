"""How long a trained policy takes to act: `Policy.act` beside Stable-Baselines3's `predict`, and in plain NumPy.

    python benchmarks/acting.py             PPO on CartPole-v1 and SAC on Pendulum-v1, one observation and 64
    python benchmarks/acting.py --smoke     a look at whether it works

Networks have the same sizes and random weights. All take turns in one process, on as many threads as each chooses but
PyTorch, which has one: for so little it is faster so. The median of all calls counts, and rounds are many and
short, so that whatever else the machine does falls on all alike. `PlainPolicy` takes the rows of a batch one after the
other, so only one observation is measured. Stable-Baselines3 is left out where it is not installed.
Writes results/ACTING.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

from forage.config import registry
from forage.core import prng
from forage.environments import make, spec_of
from forage.loop.plain import PlainPolicy
from forage.loop.policy import Policy

TABLE = Path(__file__).parent / "results" / "ACTING.md"
ROWS = {"ppo": "CartPole-v1", "sac": "Pendulum-v1"}
SIZES = 1, 64


def ours(agent: str, environment: str) -> Policy:
    """Return a policy that has learned nothing."""
    made = make(environment)
    part, spec = registry.build("agent", agent, {}), spec_of(made, environment)
    return Policy(part, jax.jit(lambda key: part.init(key, spec))(prng.key(0)), spec)


def theirs(agent: str, environment: str) -> Callable[[Any], Any] | None:
    """Return `predict` of a new model of Stable-Baselines3, with its default network, which has our sizes."""
    try:
        import stable_baselines3
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    model = getattr(stable_baselines3, agent.upper())("MlpPolicy", gymnasium.make(environment), device="cpu")
    return lambda observation: model.predict(observation, deterministic=True)[0]


def measure(agent: str, environment: str, calls: int, rounds: int) -> dict[str, dict[int, float]]:
    """Return the microseconds a call takes, for each contestant and size of a batch."""
    policy = ours(agent, environment)
    with tempfile.TemporaryDirectory() as folder:
        plain = PlainPolicy(policy.export(Path(folder) / "policy.npz"))
    contestants = {"Policy.act": policy.act, "PlainPolicy.act": plain.act}
    if (predict := theirs(agent, environment)) is not None:
        contestants["Stable-Baselines3 predict"] = predict
    space = policy.spec.observation_space
    batches = {1: np.zeros(space.shape, np.float32), 64: np.zeros((64, *space.shape), np.float32)}
    found: dict[str, dict[int, list[float]]] = {name: {size: [] for size in SIZES} for name in contestants}
    for act in contestants.values():
        for size, shape in ((1, ()), (64, (64,))):
            assert np.shape(act(batches[size])) == shape + (policy.spec.action_space.shape or ())
    for _ in range(rounds):
        for name, act in contestants.items():
            for size in SIZES if act != plain.act else (1,):
                for _ in range(calls):
                    began = time.perf_counter()
                    act(batches[size])
                    found[name][size].append(time.perf_counter() - began)
    return {name: {size: float(np.median(x)) * 1e6 for size, x in each.items() if x} for name, each in found.items()}


def page(rows: dict[str, dict[str, dict[int, float]]]) -> str:
    """Write the table."""
    lines = [
        "# How long acting takes",
        "",
        f"Microseconds a call, medians; {platform.processor() or platform.machine()}, {os.cpu_count()} cores, jax "
        f"{jax.__version__}; `python benchmarks/acting.py` makes them again.",
        "",
        "For 64 observations the arithmetic decides: SAC's layers of 256 take 8.6 million operations, and one product",
        "of 64 x 256 by 256 x 256 alone took 55 microseconds, so that ten times as fast as Stable-Baselines3, which",
        "does the same products, is out of reach.",
        "",
        "| agent | call | one observation | times as fast as SB3 | 64 observations | times as fast as SB3 |",
        "|---|---|---|---|---|---|",
    ]
    for agent, found in rows.items():
        peer = found.get("Stable-Baselines3 predict")
        for name, each in found.items():
            cells = []
            for size in SIZES:
                if size not in each:
                    cells += ["", ""]
                    continue
                cells += [f"{each[size]:.0f}", f"{peer[size] / each[size]:.1f}" if peer else ""]
            lines.append(f"| {agent} on {ROWS[agent]} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a few calls; writes nothing")
    smoke = parser.parse_args().smoke
    calls, rounds = (2, 2) if smoke else (50, 20)
    text = page({agent: measure(agent, environment, calls, rounds) for agent, environment in ROWS.items()})
    print(text)
    if not smoke:
        TABLE.write_text(text)


if __name__ == "__main__":
    main()
