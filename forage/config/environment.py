"""The environment of a run: from its name or object, and named wrappers, to the environment and its spec."""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium

from forage.config import options, registry
from forage.config.options import hyphens
from forage.core.columns.entries import LogView, log_spaces
from forage.core.compiling import check_precision
from forage.core.errors import nearest
from forage.core.host import HostEnvironment
from forage.core.loading import full_target, short, target_name
from forage.core.plain import python_numbers
from forage.core.ports import Environment
from forage.core.ports.checking import is_known
from forage.core.ranges import check_all_declared
from forage.core.types import ForageError, Spec, exact_space
from forage.environments.adapters.gymnasium.atari import is_atari
from forage.environments.adapters.gymnasium.make import OURS
from forage.environments.batches import build_batch, parameter_names, takes_a_number
from forage.environments.plain import to_plain
from forage.environments.registry import HostFactory, complete_options, is_text, make, spec_of


class World(NamedTuple):
    """The environment of a run."""

    name: str
    environment: Any  # or a function that builds a batch of it on the host; `None`: nothing is played
    config: dict[str, Any]  # plain data that makes it again, or a description
    spec: Spec
    native: bool  # stepped in JAX


def find_world(environment: Any, options: Mapping[str, Any] | None, wrap: Sequence[str]) -> World:
    """Return the environment that an id, an object or a function stands for, and its spec."""
    name, made, config = resolve_environment(environment, dict(options or {}), wrap)
    return World(name, made, config, environment_spec(name, made), isinstance(made, Environment))


def encode_as_log(world: World, log: Spec) -> World:
    """Return a world in the spaces of a log. Raise `ForageError` if they do not fit.

    Observations are encoded as the log's columns, and actions are the log's. An environment with these spaces stays.
    """
    told = log_spaces(log)
    LogView(told, world.spec.observation_space, world.spec.action_space, world.name)  # raises in words of the world
    if log.columns is None and exact_space(world.spec.action_space) == exact_space(log.action_space):
        return world
    if isinstance(world.environment, Environment):
        from forage.environments.wrappers.log_encoding import LogEncoding

        made: Any = LogEncoding(world.environment, told)
    else:
        factory = getattr(world.environment, "__self__", None)
        if not isinstance(factory, HostFactory):
            raise ForageError(
                f"{world.name} builds a batch on the host by itself, and data of other spaces go with native "
                f"environments and Gymnasium's; give it the spaces of the data where it is made."
            )
        made = dataclasses.replace(factory, around=(*factory.around, ("log-encoding", {"log": told}))).build
    spec = dataclasses.replace(environment_spec(world.name, made), columns=log.columns)
    return world._replace(environment=made, spec=spec, config=world.config | {"logged": True})


def resolve_environment(
    given: Any, options: dict[str, Any], wrap: Sequence[str] = ()
) -> tuple[str, Any, dict[str, Any]]:
    """Return the environment's name, the environment (or a function that builds a batch of it), and its config.

    `wrap` names what is put around it, the first innermost.
    """
    check_precision()  # or the environment would be blamed for numbers that are not what its spaces say
    options = python_numbers(options) if options else {}
    if wrap:
        name, environment, config = resolve_environment(given, options)
        for words in wrap:
            registry.check_wrapper(words.partition(":")[0])
        config = config | {"wrap": list(wrap)}
        if isinstance(environment, Environment):
            return name, wrap_environment(environment, wrap), config
        return name, wrap_on_host(name, environment, wrap), config
    if isinstance(given, type) and (found := target_name(given)):
        if given.__module__ != "__main__" or is_text(given):  # other processes import a class of text
            return resolve_environment(found, options)
        # The class itself: to find it by its name the script that runs would be run again.
        _, environment, _ = resolve_object(given, options, found)
        return short(found), environment, {"id": full_target(found), "options": to_plain(found, options)}
    if isinstance(given, str):
        given = whole_file(bare(given))
        options = complete_options(given, options)
        config = {
            "id": full_target(given) if ":" in given else given,
            "options": to_plain(given, options) if options else {},
        }
        made = make(given, **options)
        if isinstance(made, HostFactory):
            return short_id(made.id), made.build, config
        return short(given) if ":" in given else given, for_agents(made), config
    return resolve_object(given, options)


def for_agents(environment: Environment) -> Environment:
    """Return a native environment whose actions agents know, with `FlatActions` around it if they are others."""
    if is_known(environment.action_space):
        return environment
    from forage.environments.wrappers.actions import FlatActions

    return FlatActions(environment)


def bare(id: str) -> str:
    """Return `file.py:Class` of problems in text without the prefix of texts, as such classes do not need it."""
    rest = id.removeprefix("text:")
    return rest if rest != id and ".py:" in rest else id


def whole_file(id: str) -> str:
    """Return `text:FILE` of a file of prompts with its whole path, and any other id as it is."""
    prefix, _, rest = id.partition(":")
    if prefix.lower() != "text":
        return id
    from forage.environments.text.own.prompts import full_path, is_file

    return f"text:{full_path(rest)}" if is_file(rest) else id


def short_id(id: str) -> str:
    """Return an id as sentences show it: without the folder of a file."""
    prefix, _, rest = id.partition(":")
    is_path = prefix == "text" and os.sep in rest and ":" not in rest
    return f"text:{Path(rest).name}" if is_path else short(id)


def wrap_on_host(name: str, build: Any, wrap: Sequence[str]) -> Callable[[int], HostEnvironment]:
    """Return a function that builds a batch with the named wrappers around each environment of it."""
    factory = getattr(build, "__self__", None)
    if not isinstance(factory, HostFactory):
        raise ForageError(
            f"{name} builds a batch on the host by itself, and wrappers by name go around native environments and "
            f"Gymnasium's; wrap it where it is made."
        )
    from forage.environments.adapters.gymnasium.wrapping import BY_NAME

    for words in wrap:
        if words.partition(":")[0] not in BY_NAME:
            raise ForageError(
                f"{words.partition(':')[0]} goes around native environments such as CartPole-v1; around {name}, which "
                f"is stepped on the host, go {', '.join(BY_NAME)}."
            )
    around = tuple((words.partition(":")[0], wrapper_options(words)) for words in wrap)
    return dataclasses.replace(factory, around=around).build


def resolve_object(given: Any, options: dict[str, Any], name: str = "") -> tuple[str, Any, dict[str, Any]]:
    """Resolve an object, a class or a function as `resolve_environment` does."""
    if isinstance(given, gymnasium.vector.VectorEnv):
        raise ForageError(many_environments(given))
    if isinstance(given, gymnasium.Env):
        name = object_id(given)
        if alien := sorted(options.keys() - set(OURS)):
            raise ForageError(
                f"This {name} is an object, with its own {alien[0]}; beside an object {', '.join(OURS)} are options."
            )
        return resolve_object(Copies(given), options, name)
    if isinstance(given, type) and issubclass(given, Environment):
        given, options = given(**options), {}
    if isinstance(given, type) and issubclass(given, HostEnvironment):
        given, options = functools.partial(given, **options), {}
    if options and (isinstance(given, Environment | HostFactory) or not callable(given) or refuses(given, options)):
        raise ForageError(
            "Options of an environment go with its id, its class or a function that makes one; an object already has "
            "its own."
        )
    if isinstance(given, HostFactory):
        return given.id, given.build, {"id": given.id, "options": to_plain(given.id, given.options)}
    if isinstance(given, Environment):
        check_all_declared(given, type(given).__name__)
        return type(given).__name__, for_agents(given), {"object": repr(type(given))}
    if callable(given):
        name = name or name_of_maker(given)
        if takes_a_number(given):
            return name, with_check(given, name, options), {"object": repr(given)}
        return name, HostFactory(name, options, given).build, {"object": repr(given)}
    prompts = ", whose entries would be prompts if they were dictionaries" if isinstance(given, list | tuple) else ""
    raise ForageError(
        f"An environment is an id such as CartPole-v1, a forage Environment, a gymnasium.Env, its class, or a function "
        f"that makes one or, from a number of environments, a HostEnvironment; not a {type(given).__name__}{prompts}."
    )


class Copies:
    """Make copies of a user's environment, which itself is left unchanged.

    A copy has the numbers that the object has now, and its wrappers. Its chance is that of the seed given to `reset`.
    """

    def __init__(self, given: gymnasium.Env[Any, Any]):
        self.given = given

    def __call__(self) -> gymnasium.Env[Any, Any]:
        try:
            return copy.deepcopy(self.given)
        except Exception as error:
            id, cls = id_of(self.given), type(self.given.unwrapped).__name__
            give = f"'{id}' or lambda: gymnasium.make('{id.partition(':')[2]}')" if id else f"lambda: {cls}(...)"
            raise ForageError(
                f"This {cls} cannot be copied ({error}), and a run makes several environments of its own; give {give}."
            ) from error

    def __repr__(self) -> str:
        return repr(self.given)


def object_id(given: gymnasium.Env[Any, Any]) -> str:
    """Return the id that makes such an object, or its class's name. Atari's ids make preprocessed games here."""
    id = id_of(given)
    return type(given.unwrapped).__name__ if id is None or is_atari(id.partition(":")[2]) else id


def id_of(given: Any) -> str | None:
    """Return the id that an environment was made by, as Forage names it; `None` if there is none, or wrappers."""
    spec = getattr(given, "spec", None)
    return f"gymnasium:{spec.id}" if spec is not None and not spec.additional_wrappers else None


def many_environments(given: gymnasium.vector.VectorEnv[Any, Any, Any]) -> str:
    """Return advice against a vector environment, as training and evaluation choose the number of environments."""
    id, cls = id_of(given), type(given.unwrapped).__name__
    one = f", or one of them: '{id}'" if id else ""
    made = f"gymnasium.make_vec('{id.partition(':')[2]}', n, vectorization_mode='sync', ...)" if id else f"{cls}(...)"
    return (
        f"This {cls} is a fixed number of environments, and a run makes as many as num_envs of its agent says; give a "
        f"function of that number that makes them, lambda n: {made}{one}."
    )


def refuses(function: Any, options: dict[str, Any]) -> bool:
    """Return whether a function of a number of environments does not take some options; `info` is Forage's own."""
    return takes_a_number(function) and not options.keys() <= {"info", *parameter_names(function)}


def name_of_maker(function: Any) -> str:
    """Return the name of an environment made by a function or a class."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return "environment" if name == "<lambda>" else name


def with_check(build: Callable[..., Any], name: str, options: dict[str, Any]) -> Callable[[int], HostEnvironment]:
    """Return the same function with a check of its result."""
    return functools.partial(build_counted, build, name, options)


def build_counted(build: Callable[..., Any], name: str, options: dict[str, Any], num_envs: int) -> HostEnvironment:
    return build_batch(build, name, num_envs, options)


def environment_spec(name: str, environment: Any) -> Spec:
    if isinstance(environment, Environment):
        return spec_of(environment, name)
    batch = environment(1)
    batch.close()
    return dataclasses.replace(batch.spec, name=name)


def wrap_environment(environment: Environment, given: Sequence[str]) -> Environment:
    """Put the named wrappers around an environment, the first innermost.

    Each is `name`, `name:value:value` (its options in order) or `name:option=value`, in any mixture:
    `time-limit:200`, `masked:0,2`, `delay:observation-delay=2`.
    Raise `ForageError` for an unknown name or option, and for a wrapper that does not fit the environment.
    """
    for words in given:
        name, _, _ = words.partition(":")
        cls = registry.wrapper_class(name)
        environment = cls(environment, **wrapper_options(words))
    return environment


def wrapper_options(words: str) -> dict[str, Any]:
    """Return the options that `name:value:option=value` gives, typed by the wrapper's fields."""
    name, *values = words.split(":")
    fields = registry.wrapper_fields(registry.wrapper_class(name))
    known = {field.name: field for field in fields}
    result: dict[str, Any] = {}
    for number, text in enumerate(values):
        option, given, value = text.partition("=")
        option = option.replace("-", "_")
        if not given:
            if number >= len(fields):
                raise ForageError(
                    f"{name} has {len(fields)} option{'' if len(fields) == 1 else 's'}, and {words} gives {len(values)}"
                    f". Available: {', '.join(known)}."
                )
            option, value = fields[number].name, text
        if option not in known:
            raise ForageError(f"{name} has no option {hyphens(option)!r}{nearest(option, map(hyphens, known))}")
        if option in result:
            raise ForageError(f"{words} gives {hyphens(option)} twice; give it once.")
        result[option] = options.parse(f"wrap {name}:{option}", value, known[option].type)
    missing = [field for field in fields if field.required and field.name not in result]
    if missing:
        shown = missing[0].name.replace("_", "-")
        raise ForageError(f"{name} needs {shown}, as in --wrap {name}:VALUE; forage show {name} explains it.")
    return result


def wrap_innermost(environment: Environment, given: Sequence[str]) -> Environment:
    """Put wrappers directly around the environment, within all wrappers that it has, to change the world itself.

    Observations and actions must keep their spaces. Raise `ForageError` if a wrapper changes them.
    """
    from forage.environments.wrappers.actions import FlatActions
    from forage.environments.wrappers.base import Wrapper

    if isinstance(environment, Wrapper) and not isinstance(environment, FlatActions):
        import equinox

        inside = wrap_innermost(environment.environment, given)
        return equinox.tree_at(lambda tree: tree.environment, environment, inside)
    wrapped = wrap_environment(environment, given)
    for space in ("observation_space", "action_space"):
        if getattr(wrapped, space) != getattr(environment, space):
            raise ForageError(
                f"{given[-1]} changes what is seen or done, and a trained agent can only be played in what it knows; "
                f"action-noise, observation-noise or delay, for example, leave both as they are."
            )
    return wrapped
