"""The rows of the ledger: agents, environments, numbers of steps, and seeds."""

from __future__ import annotations

import dataclasses
from typing import Any

FIRST_SEED = 100  # seeds that no search for presets used


@dataclasses.dataclass(frozen=True)
class Row:
    """One experiment, with the agent's usual settings except for `options`."""

    agent: str
    environment: str
    steps: int  # of each seed
    threshold: float  # of the mean return of training's episodes
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    environment_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    seeds: int = 5
    episodes: int = 32  # of each seed, in evaluation
    sample: bool = False  # cheap enough to be measured again every week

    def settings(self) -> dict[str, Any]:
        """Return the settings that determine a row's figures, as plain data."""
        found = dataclasses.asdict(self) | {"options": {k: plain(v) for k, v in self.options.items()}}
        return {name: value for name, value in found.items() if name != "sample"}


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


SMALL = {"hidden_sizes": (64, 64), "batch_size": 128}

ROWS: dict[str, Row] = {
    "ppo-cartpole": Row("ppo", "CartPole-v1", 100_000, 400.0, sample=True),
    "ppo-acrobot": Row("ppo", "Acrobot-v1", 100_000, -120.0, sample=True),
    "ppo-grid-empty": Row("ppo", "grid:Empty-8x8", 100_000, 0.9, sample=True),
    "ppo-chain": Row("ppo", "tabular:Chain-5", 100_000, 250.0, sample=True),
    "ppo-breakout": Row("ppo", "minatar:Breakout", 100_000, 1.0),
    "ppo-gru-tmaze": Row("ppo", "memory:TMaze-10", 200_000, 0.8, {"gru_size": 64}),
    "ppo-cartpole-host": Row("ppo", "gymnasium:CartPole-v1", 40_000, 195.0, seeds=4, episodes=10, sample=True),
    "dqn-cartpole": Row("dqn", "CartPole-v1", 60_000, 195.0, sample=True),
    "dqn-acrobot": Row("dqn", "Acrobot-v1", 50_000, -150.0, sample=True),
    "sac-pendulum": Row("sac", "Pendulum-v1", 6_000, -300.0, SMALL),
    "td3-pendulum": Row("td3", "Pendulum-v1", 6_000, -300.0, SMALL),
    "sac-discrete-cartpole": Row("sac-discrete", "CartPole-v1", 15_000, 195.0),
}
