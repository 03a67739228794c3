"""Functions by users that make a given number of environments at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from forage.core.host import HostEnvironment
from forage.core.types import ForageError


def takes_a_number(function: Any) -> bool:
    """Return whether a function takes the number of environments: it has a required argument, or a `num_envs`."""
    if isinstance(function, type):
        return False
    try:
        signature = inspect.signature(function)
        signature.bind()
    except TypeError:
        return True
    except ValueError:  # no signature to be read
        return True
    return "num_envs" in signature.parameters


def build_batch(function: Callable[..., Any], name: str, num_envs: int, options: Mapping[str, Any]) -> HostEnvironment:
    """Make `num_envs` environments. `options`: `info` names numbers of a VectorEnv's infos, others go to the function.

    Raise `ForageError` if it makes something else.
    """
    own, info = dict(options), ()
    if "info" in own and "info" not in parameter_names(function):
        info = own.pop("info")
    try:
        by_name = {"num_envs": num_envs, **own} if "num_envs" in parameter_names(function) else None
        made = function(num_envs, **own) if by_name is None else function(**by_name)
    except TypeError as error:
        raise ForageError(
            f"The function {name} could not be called with a number of environments: {error}; it takes that number "
            f"and makes a gymnasium.vector.VectorEnv or a forage.core.host.HostEnvironment, or takes nothing and "
            f"makes one gymnasium.Env."
        ) from error
    if isinstance(made, gymnasium.vector.VectorEnv):
        from forage.environments.adapters.gymnasium.vector import VectorEnvironment

        return VectorEnvironment(made, name, num_envs, info)
    if not isinstance(made, HostEnvironment):
        raise ForageError(
            f"The function {name} made a {type(made).__name__} of a number of environments; it should make a "
            f"gymnasium.vector.VectorEnv or a forage.core.host.HostEnvironment, or take no number and make one "
            f"gymnasium.Env."
        )
    return made


def parameter_names(function: Any) -> set[str]:
    """Return the names of a function's parameters; none if they cannot be read."""
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()
