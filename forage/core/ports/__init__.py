"""The contracts: the seven ports of the loop.

A part is a frozen pytree: numbers are leaves and are traced; sizes, names and functions are static fields.
Every method works on one environment or one trajectory; batches are made by `vmap`, from outside.
State is always an explicit value that goes in and comes out.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forage.core.ports.abilities import Estimating as Estimating
    from forage.core.ports.abilities import Grouping as Grouping
    from forage.core.ports.abilities import Lagging as Lagging
    from forage.core.ports.abilities import Offline as Offline
    from forage.core.ports.abilities import Recurrent as Recurrent
    from forage.core.ports.agent import ActInputs as ActInputs
    from forage.core.ports.agent import Agent as Agent
    from forage.core.ports.agent import Evolver as Evolver
    from forage.core.ports.behaviour import ActContext as ActContext
    from forage.core.ports.behaviour import Behaviour as Behaviour
    from forage.core.ports.behaviour import Decision as Decision
    from forage.core.ports.behaviour import HiddenState as HiddenState
    from forage.core.ports.behaviour import Intervention as Intervention
    from forage.core.ports.behaviour import InterventionContext as InterventionContext
    from forage.core.ports.behaviour import OnHost as OnHost
    from forage.core.ports.behaviour import Opponent as Opponent
    from forage.core.ports.environment import Environment as Environment
    from forage.core.ports.environment import World as World
    from forage.core.ports.environment import range_of_returns as range_of_returns
    from forage.core.ports.environment import return_range_within as return_range_within
    from forage.core.ports.memory import Memory as Memory
    from forage.core.ports.part import Metrics as Metrics
    from forage.core.ports.part import Part as Part
    from forage.core.ports.part import State as State
    from forage.core.ports.part import ValueEstimates as ValueEstimates
    from forage.core.ports.rewards import Rewards as Rewards
    from forage.core.ports.starts import Branching as Branching
    from forage.core.ports.starts import Starts as Starts
    from forage.core.ports.tasks import RolloutReport as RolloutReport
    from forage.core.ports.tasks import RolloutStates as RolloutStates
    from forage.core.ports.tasks import Tasks as Tasks

_MODULES = (
    *("abilities", "agent", "behaviour", "environment", "memory", "part", "rewards", "starts", "tasks"),
    *("checking", "needs"),
)


def __getattr__(name: str) -> Any:
    """Import the contracts at the first use of one, as `needs` is read without them, and they load JAX."""
    if name.startswith("_") or name in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in _MODULES[:9]:
        found = getattr(importlib.import_module(f"{__name__}.{module}"), name, None)
        if found is not None:
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
