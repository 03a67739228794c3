"""The introduction of a run: its agent and environment, and the settings that decide most."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from forage.config.run_config import RunConfig
from forage.core.ports import Evolver
from forage.core.schedule import is_schedule
from forage.core.spaces import reading
from forage.memory.around import innermost
from forage.memory.dataset import DataSet
from forage.memory.mixed import Mixed
from forage.rewards.environment import EnvironmentReward
from forage.runs.curve import NEWEST


def title(setup: RunConfig) -> str:
    """Return the title of a run: agent, environment, and the number of settings and seeds."""
    seeds, settings = len(setup.seeds), setup.settings
    each = f"{seeds} seed{'s' if seeds > 1 else ''}"
    many = f"{settings} settings with {each} each" if settings > 1 else each
    return f"{setup.names['agent']} on {setup.name}, {many}"


def introduction(setup: RunConfig, directory: Path, steps: int, spread: str = "") -> list[str]:
    """Describe the decisive settings at the start of a run of `steps`. `spread`: the division of members among
    devices.
    """
    lines = [f"in {directory}"]
    if wrapped := setup.environment_config.get("wrap"):
        lines.append(f"{setup.name} in {', '.join(wrapped)}")
    if setup.why:
        lines.append(f"{setup.names['agent']} because {setup.why}")
    if setup.settings_from:
        lines.append(f"{setup.settings_from}: {sizes(setup)}")
    if setup.left_out:
        lines.append(setup.left_out)
    if spread:
        lines.append(spread)
    memory = innermost(setup.memory)
    if isinstance(memory, Mixed):
        lines.append(f"{describe_share(memory.share)} of each batch from {', '.join(memory.data)}")
    if isinstance(memory, DataSet):
        lines.append(f"from {memory.file}; each step is an update, and none is taken in the environment")
    else:
        lines.append(f"returns on the way are means of each seed's last {NEWEST} training episodes or more")
    if setup.steps_from:
        lines.append(f"{setup.steps:,} steps of each seed, {setup.steps_from}; --steps changes it")
    if isinstance(agent := setup.agent, Evolver):
        lines.append(
            f"steps are those played: each seed plays generations of {agent.num_envs} episodes while one of full "
            f"length fits into its {steps:,} steps (`played` says "
            f"how many it took)"
        )
    return lines + reading(setup.spec.observation_space)


def describe_share(share: Any) -> str:
    """Describe the share of data in each batch."""
    return f"a share that follows {share}" if is_schedule(share) else f"{share:.0%}"


def sizes(setup: RunConfig) -> str:
    """Return the settings that decide most, in a line."""
    agent = setup.agent
    names = ("learning_rate", "epochs", "minibatches", "entropy_coefficient", "normalise_observation", "batch_size")
    own = {field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)}
    own |= {name: " or ".join(f"{value:g}" for value in values) for name, values in setup.sweep.items()}
    said = [f"{n.replace('_', ' ')} {own[n]}" for n in names if own.get(n, False) is not False]
    said = [text.removesuffix(" True") for text in said]
    if not isinstance(setup.rewards, EnvironmentReward):
        said.append(f"rewards {setup.names['rewards']}")
    each = f"{agent.num_envs} environment{'s' if agent.num_envs > 1 else ''} x {agent.rollout_length} steps"
    return ", ".join(said if setup.offline else [each, *said])
