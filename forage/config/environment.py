"""From what was given as an environment to the environment, and to its spec."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium

from forage.config import registry
from forage.config.wrapping import wrap as wrap_environment
from forage.core.compiling import check_precision
from forage.core.host import HostEnvironment
from forage.core.ports import Environment
from forage.core.ranges import check_all_declared
from forage.core.types import ForageError, Spec
from forage.environments import HostFactory, make, spec_of
from forage.environments.loading import name_of, short, whole
from forage.environments.plain import to_plain


def resolve_environment(
    given: Any, options: dict[str, Any], wrap: Sequence[str] = ()
) -> tuple[str, Any, dict[str, Any]]:
    """Return the environment's name, the environment (or a function that builds a batch of it), and its config.

    `wrap` names what is put around it, the first innermost.
    """
    check_precision()  # or the environment would be blamed for numbers that are not what its spaces say
    if wrap:
        name, environment, config = resolve_environment(given, options)
        for words in wrap:
            registry.check_wrapper(words.partition(":")[0])
        if not isinstance(environment, Environment):
            raise ForageError(
                f"{name} is stepped on the host, and wrappers by name go around native environments such as "
                f"CartPole-v1; wrap it in its own library instead and name it as module:Class."
            )
        return name, wrap_environment(environment, wrap), config | {"wrap": list(wrap)}
    if isinstance(given, type) and (found := name_of(given)):
        if given.__module__ != "__main__":
            return resolve_environment(found, options)
        # The class itself: to find it by its name the script that runs would be run again.
        _, environment, _ = resolve_object(given, options, found)
        return short(found), environment, {"id": whole(found), "options": to_plain(found, options)}
    if isinstance(given, str):
        kept = to_plain(given, options)
        made = make(given, **options)
        name = short(made.id if isinstance(made, HostFactory) else given)
        return name, made.build if isinstance(made, HostFactory) else made, {"id": whole(given), "options": kept}
    return resolve_object(given, options)


def resolve_object(given: Any, options: dict[str, Any], name: str = "") -> tuple[str, Any, dict[str, Any]]:
    """Return what `resolve_environment` returns for an object, a class or a function."""
    if isinstance(given, gymnasium.Env | gymnasium.vector.VectorEnv):
        raise ForageError(one_environment(given))
    if isinstance(given, type) and issubclass(given, Environment):
        given, options = given(**options), {}
    if isinstance(given, type) and issubclass(given, HostEnvironment):
        given, options = functools.partial(given, **options), {}
    if options and (isinstance(given, Environment | HostFactory) or not callable(given) or takes_a_number(given)):
        raise ForageError(
            "Options of an environment go with its id, its class or a function that makes one; an object already has "
            "its own."
        )
    if isinstance(given, HostFactory):
        return given.id, given.build, {"id": given.id, "options": to_plain(given.id, given.options)}
    if isinstance(given, Environment):
        check_all_declared(given, type(given).__name__)
        return type(given).__name__, given, {"object": repr(type(given))}
    if callable(given):
        name = name or name_of_maker(given)
        if takes_a_number(given):
            return name, checked(given, name), {"object": repr(given)}
        return name, HostFactory(name, options, given).build, {"object": repr(given)}
    raise ForageError(
        f"An environment is an id such as CartPole-v1, a forage Environment, a class, or a function that makes a "
        f"gymnasium.Env or, from a number of environments, a HostEnvironment; not a {type(given).__name__}."
    )


def one_environment(given: Any) -> str:
    """Say what to give in place of one environment, where a run makes several."""
    cls = type(getattr(given, "unwrapped", given)).__name__
    id = getattr(getattr(given, "spec", None), "id", None)
    if isinstance(given, gymnasium.vector.VectorEnv):
        return f"A {cls} is many environments already; give an id, a class, or a function that makes one environment."
    give = f"'gymnasium:{id}' or lambda: gymnasium.make('{id}')" if id else f"{cls} itself or lambda: {cls}(...)"
    return f"This {cls} is one environment, and a run makes several of its own; give {give}."


def name_of_maker(function: Any) -> str:
    """Return how an environment is called that a function or a class makes."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return "environment" if name == "<lambda>" else name


def takes_a_number(function: Any) -> bool:
    """Return whether a function must be given something: the number of environments."""
    if isinstance(function, type):
        return False
    try:
        inspect.signature(function).bind()
    except TypeError:
        return True
    except ValueError:  # no signature to be read
        return True
    return False


def checked(build: Callable[[int], Any], name: str) -> Callable[[int], HostEnvironment]:
    """Return the same function. What it returns is looked at before anything else is done with it."""

    def built(num_envs: int) -> HostEnvironment:
        try:
            made = build(num_envs)
        except TypeError as error:
            raise ForageError(
                f"The function {name} could not be called with a number of environments: {error}; it takes that number "
                f"and makes a forage.core.host.HostEnvironment, or takes nothing and makes one gymnasium.Env."
            ) from error
        if not isinstance(made, HostEnvironment):
            raise ForageError(
                f"The function {name} made a {type(made).__name__} of a number of environments; it should make a "
                f"forage.core.host.HostEnvironment, or take no number and make one gymnasium.Env."
            )
        return made

    return built


def environment_spec(name: str, environment: Any) -> Spec:
    if isinstance(environment, Environment):
        return spec_of(environment, name)
    batch = environment(1)
    batch.close()
    return dataclasses.replace(batch.spec, name=name)
