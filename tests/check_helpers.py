"""Checks of a part as a run makes them: its needs, and its own check."""

from __future__ import annotations

from typing import Any

from forage.config.ranges import check_ranges
from forage.core.ports import Agent, Behaviour, Memory, Rewards, Starts, Tasks
from forage.core.ports.checking import check_agent, check_needs
from forage.environments.registry import spec_of


def check(part: Any, *arguments: Any) -> None:
    """Raise `ForageError` as a run does for this part. `arguments`: those of its own `check`."""
    check_ranges(part, type(part).__name__)
    if isinstance(part, Agent):
        check_agent(part, *arguments)
        return
    if isinstance(part, Rewards):
        check_needs(part, *arguments)
    elif isinstance(part, Behaviour):
        agent, spec = arguments
        check_needs(part, spec, agent)
    elif isinstance(part, Memory):
        agent, spec, environment = arguments
        check_needs(part, spec, agent, environment)
    elif isinstance(part, Starts | Tasks):
        environment, *tasks = arguments
        spec = getattr(environment, "spec", None) or spec_of(environment, "world")
        check_needs(part, spec, None, environment, *tasks)
    part.check(*arguments)
