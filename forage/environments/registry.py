"""From ids to environments: the catalogue's tables, and users' own classes. Imports only the named module."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.util
import inspect
import multiprocessing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from forage.core.errors import did_you_mean
from forage.core.ranges import check_all_declared
from forage.core.types import ForageError, Spec
from forage.environments.catalogue import NATIVE, SIZED, SUITES, Suite, native_entry, native_id

if TYPE_CHECKING:
    from forage.core.host import HostEnvironment
    from forage.core.ports import Environment
    from forage.environments.entry import Entry


class ListRow(NamedTuple):
    """One row of `forage list`."""

    id: str
    kind: str  # native, the suite's prefix, or your own
    description: str


@dataclasses.dataclass(frozen=True)
class HostFactory:
    """A recipe of an environment stepped on the host, not yet made. It can be pickled for other processes.

    `options` are by name. An option of the environment's own constructor is passed to it; any other may be an option of
    Forage (`max_episode_steps` is both). For a name in both, `forage.NAME` and `own.NAME` distinguish the two.
    """

    id: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    maker: Callable[..., Any] | None = None  # makes one gymnasium.Env, where that is a Python object and not the id
    around: tuple[tuple[str, Mapping[str, Any]], ...] = ()  # wrappers by name with their options, first innermost

    def build(self, num_envs: int) -> HostEnvironment:
        """Make `num_envs` of it. Raise `ForageError` if it or a library that it needs is missing."""
        try:
            return self._build(num_envs)
        except SystemExit as error:
            if getattr(multiprocessing.current_process(), "_inheriting", False):
                raise  # of a script without a main guard, as `adapters/gymnasium/calls.py` has it
            from forage.core.host import Quit

            raise Quit(self.id, "its making", error.code) from error

    def _build(self, num_envs: int) -> HostEnvironment:
        prefix, _, rest = self.id.partition(":")
        if self.maker is not None:
            if is_vector(self.maker):
                return self._vector(self.maker, num_envs)
            cls, target = _load(SUITES["gymnasium"].target), self.maker
        elif prefix in SUITES:
            cls, target = _load(SUITES[prefix].target), rest
        else:
            from forage.core.host import HostEnvironment
            from forage.core.loading import Own
            from forage.environments.batches import build_batch, takes_a_number

            own = _own_class(self.id)
            if is_text(own):
                return dataclasses.replace(self, id=f"text:{self.id}").build(num_envs)
            if is_vector(own):
                return self._vector(own, num_envs)
            if takes_a_number(own):
                self._refuse_around(own)
                return build_batch(own, self.id, num_envs, self.options)
            if isinstance(own, type) and issubclass(own, HostEnvironment):
                self._refuse_around(own)
                if "num_envs" in self.options:
                    raise ForageError(f"{self.id} is made with as many environments as the agent's num_envs says.")
                return _call(self.id, own, {"num_envs": num_envs}, self.options)
            cls, target = _load(SUITES["gymnasium"].target), Own.from_target(self.id)
        given: dict[str, Any] = {"target": target, "num_envs": num_envs, "name": self.id}
        if self.around:
            self._refuse_around(cls)
            given["around"] = self.around
        divided = self._divide_options(cls, target, given)
        if prefix == "text":
            _check_options(self.id, cls, divided)
        return _call(self.id, cls, given, divided)

    def _vector(self, cls: Any, num_envs: int) -> HostEnvironment:
        """Make `num_envs` of a person's own VectorEnv."""
        from forage.environments.adapters.gymnasium.vector import VectorEnvironment, make_vector

        self._refuse_around(VectorEnvironment)
        if "num_envs" in self.options:
            raise ForageError(f"{self.id} is made with as many environments as the agent's num_envs says.")
        given = {name.removeprefix("own."): value for name, value in self.options.items() if name.startswith("own.")}
        ours = {name.removeprefix("forage."): v for name, v in self.options.items() if not name.startswith("own.")}
        return make_vector(self.id, cls, num_envs, ours.pop("info", ()), **given, **ours)

    def _refuse_around(self, cls: Any) -> None:
        """Raise `ForageError` for wrappers around an environment of another library than Gymnasium."""
        gymnasium_kind = isinstance(cls, type) and issubclass(cls, _load(SUITES["gymnasium"].target))
        if self.around and not gymnasium_kind:
            raise ForageError(
                f"{self.id} is stepped on the host by a library of its own, and wrappers by name go around native "
                f"environments and Gymnasium's; wrap it in its own library instead."
            )

    def _constructor_options(self, cls: Any, target: Any) -> set[str]:
        """Return the options that the environment's constructor names. Raise `ForageError` if it is not there."""
        try:
            return cls.options_of(target)
        except ForageError:
            raise
        except Exception as error:  # what an import raises where a package is missing has no common type
            from forage.environments.adapters.gymnasium.make import failure

            raise failure(self.id, target, error, {}) from error

    def _divide_options(self, cls: Any, target: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options in the adapter's form: the environment's own are in `own` if a name may be ambiguous."""
        ours: dict[str, Any] = {}
        own: dict[str, Any] = {}
        named = self._constructor_options(cls, target) if self.options and hasattr(cls, "options_of") else None
        for option, value in self.options.items():
            whose, dot, name = option.partition(".")
            if dot and whose == "forage":
                ours[name] = value
            elif dot and whose == "own":
                own[name] = value
            elif named is None and option in given:
                raise ForageError(f"{self.id} has no option {option}.")
            elif named is not None and (option in named or option in given or option == "own"):
                own[option] = value
                if option == "max_episode_steps":
                    ours[option] = value
            else:
                ours[option] = value
        return ours | ({"own": own} if own else {})

    def spec(self) -> Spec:
        """Return the `Spec` of the environment, from a copy that is made and closed again."""
        environment = self.build(1)
        environment.close()
        return environment.spec


def make(id: str, /, **options: Any) -> Environment | HostFactory:
    """Return the environment that `id` names, with fields or options replaced.

    `CartPole-v1` (native, see `list_environments`), `gymnax:CartPole-v1` (another JAX library's) and
    `package.module:Class` or `path/to/file.py:Class` of a `forage.core.ports.Environment` give an `Environment`.
    `gymnasium:HalfCheetah-v5`, `envpool:Pong-v5`, a class that is a `gymnasium.Env`, a `VectorEnv` or a
    `HostEnvironment`, and a function that makes one of these, give a `HostFactory`. Case does not matter in ids of our
    own. Options may have any name.

    Raise `ForageError` for unknown ids and options, with the nearest ones.
    """
    if not isinstance(id, str):
        raise ForageError(f"An environment's id is a text such as CartPole-v1, not a {type(id).__name__}.")
    name = canonical_id(id)
    if native_id(name):
        if SIZED.fullmatch(name) and "size" in options:
            raise ForageError(f"{name} has its size in its name; DeepSea-{options['size']} is the other one.")
        return _make_native(name, native_entry(name), options)
    prefix, _, rest = name.partition(":")
    if prefix in SUITES:
        if SUITES[prefix].host:
            return HostFactory(name, options)
        return _call(name, _load(SUITES[prefix].target), {"target": rest}, options)
    cls = _own_class(name)
    from forage.core.ports import Environment

    if isinstance(cls, type) and issubclass(cls, Environment):
        _check_options(name, cls, options)
        made = _call(name, cls, {}, options)
        check_all_declared(made, name)
        return made
    return HostFactory(name, options)


def canonical_id(id: str) -> str:
    """Return the id in its proper spelling (`minatar:Breakout` for `MINATAR:breakout`); `ForageError` if unknown."""
    if native := native_id(id):
        return native
    prefix, colon, rest = id.partition(":")
    if not colon or prefix.lower() in {name.partition(":")[0].lower() for name in NATIVE if ":" in name}:
        raise _unknown_id(id)
    prefixes = {name.lower(): name for name in SUITES}
    if prefix.lower() not in prefixes:
        if prefix and any(name.startswith(prefix.lower()) for name in prefixes) and not find_module(prefix):
            raise _unknown_id(id)
        return id
    prefix = prefixes[prefix.lower()]
    return f"{prefix}:{_suite_id(id, prefix, rest)}"


def spec_of(environment: Environment, name: str) -> Spec:
    """Return the `Spec` of a native environment."""
    return Spec(
        name=name,
        observation_space=environment.observation_space,
        action_space=environment.action_space,
        reward_names=environment.reward_names,
        num_agents=environment.num_agents,
        horizon=environment.horizon,
        info_names=environment.info_names,
    )


def maker_of(id: str) -> tuple[Any, dict[str, Any]] | None:
    """Return the function that makes a native environment and its options with their values; `None` if a
    class does.
    """
    name = canonical_id(id)
    maker = _load(NATIVE[name].target) if name in NATIVE else None
    if not inspect.isfunction(maker):
        return None
    return maker, {key: p.default for key, p in inspect.signature(maker).parameters.items()} | dict(NATIVE[name].fields)


def list_environments(libraries: bool = True) -> list[ListRow]:
    """Return every environment known to `make`, by kind: native, each library's, and the form of names for others.

    Installed libraries are imported to list their environments.
    """
    rows = [ListRow(name, "native", entry.description) for name, entry in NATIVE.items()]
    for prefix, suite in SUITES.items():
        if libraries and installed(suite):
            names = _names(suite).ids()
            rows += [ListRow(f"{prefix}:{id}", prefix, description) for id, description in names.items()]
    rows.append(
        ListRow("<module>:<Class>", "your own", "A forage Environment or gymnasium.Env, also path/to/file.py:Class.")
    )
    return rows


def installed(suite: Suite) -> bool:
    """Return whether the suite's library can be imported here."""
    return importlib.util.find_spec(suite.library) is not None


def find_module(name: str) -> bool:
    """Return whether a module of this name exists, in this folder or among the installed ones."""
    return importlib.util.find_spec(name) is not None or Path(name).with_suffix(".py").exists()


def _make_native(name: str, entry: Entry, options: Mapping[str, Any]) -> Environment:
    cls = _load(entry.target)
    _check_options(name, cls, options)
    environment = _call(name, cls, entry.fields, options)
    check_all_declared(environment, name)
    if entry.keep:
        return _load("wrappers:SelectEntries")(environment, entry.keep)
    return environment


def _check_options(name: str, cls: type[Any], options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(cls).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for option in options:
        if option not in parameters and takes_all:
            continue
        if option not in parameters:
            hint = did_you_mean(difflib.get_close_matches(option, parameters, n=3, cutoff=0.4))
            raise ForageError(
                f"{name} has no option {option!r}" + (hint or f"; it has {', '.join(parameters) or 'none'}.")
            )
        usual, value, wanted = parameters[option].default, options[option], str(parameters[option].annotation)
        no_number = value is None or isinstance(value, str | list | tuple | dict)
        if isinstance(usual, bool) and (no_number or (isinstance(value, int | float) and value not in (0, 1))):
            raise ForageError(f"{option} of {name} is true or false, such as {str(usual).lower()}, not {value!r}.")
        if isinstance(usual, int | float) and no_number and not (isinstance(value, str) and "str" in wanted):
            raise ForageError(f"{option} of {name} is a number, such as {usual}, not {value!r}.")
        if wanted == "int" and isinstance(value, float) and value != int(value):
            raise ForageError(f"{option} of {name} is a whole number, such as {usual}, not {value!r}.")
        if wanted == "str" and isinstance(value, bool | int | float):
            raise ForageError(f"{option} of {name} is a text, not {value!r}.")


def complete_options(id: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an environment with those that a run fixes when it starts, such as a template's date."""
    prefix = id.partition(":")[0]
    if not options or not (prefix == "text" or (":" in id and prefix not in SUITES and is_text(_own_class(id)))):
        return dict(options)
    return _names(SUITES["text"]).complete_options(options)


def _call(name: str, cls: Any, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    try:
        return cls(**{**given, **options})
    except (TypeError, ValueError) as error:
        said = ", ".join(f"{key}={value!r}" for key, value in options.items()) or "no options"
        raise ForageError(f"{name} could not be made with {said}: {str(error).rstrip('.')}.") from error


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(f"forage.environments.{module}"), name)


def _names(suite: Suite) -> Any:
    return importlib.import_module(f"forage.environments.{suite.names_module}")


def _own_class(id: str) -> Any:
    """Return the class or the function that `module:name` or `file.py:name` names."""
    import gymnasium

    from forage.core.host import HostEnvironment
    from forage.core.loading import load_class
    from forage.core.ports import Environment

    cls = load_class(id, functions=True)
    known = (Environment, gymnasium.Env, gymnasium.vector.VectorEnv, HostEnvironment)
    if isinstance(cls, type) and not issubclass(cls, known) and not is_text(cls):
        raise ForageError(
            f"{id} is not an environment; a subclass of forage.core.ports.Environment, gymnasium.Env, "
            f"gymnasium.vector.VectorEnv or forage.core.host.HostEnvironment works, and for text "
            f"forage.environments.text.problems.Family, a game with begin and reply, or a class with reset whose other "
            f"methods are tools."
        )
    return cls


def is_text(cls: Any) -> bool:
    """Return whether a value is a class of text: problems, a game, or methods that are tools."""
    from forage.environments.text.opening import kind_of

    return kind_of(cls) is not None


def is_vector(made_by: Any) -> bool:
    """Return whether a value is a class of `gymnasium.vector.VectorEnv`."""
    import gymnasium

    return isinstance(made_by, type) and issubclass(made_by, gymnasium.vector.VectorEnv)


def _suite_id(id: str, prefix: str, rest: str) -> str:
    """Return the library's own spelling of an id. Raise `ForageError` if the library or the id is missing."""
    suite = SUITES[prefix]
    if not installed(suite):
        raise ForageError(f"{id} needs an extra: pip install 'forage-rl[{suite.extra}]'.")
    names = _names(suite)
    if hasattr(names, "canonical"):
        try:
            return names.canonical(rest)
        except ForageError as error:
            if suite.extra or ":" in rest:  # its library, or a module that was named, has said what it has
                raise
            raise _unknown_id(id, [f"{prefix}:{name}" for name in names.ids()]) from error
    spelled = {name.lower(): name for name in names.ids()}
    if rest.lower() not in spelled:
        raise _unknown_id(id, [f"{prefix}:{name}" for name in names.ids()])
    return spelled[rest.lower()]


def _unknown_id(id: str, more: list[str] | None = None) -> ForageError:
    """Return the error with the nearest ids among Forage's, Gymnasium's and `more`."""
    ours = [name for name in (*NATIVE, "DeepSea-10") if name != "DeepSea-N"]
    ours += [f"gymnasium:{known}" for known in _names(SUITES["gymnasium"]).ids()]
    wanted, path = id.lower(), Path(id.partition(":")[2] or id)
    if path.suffix == ".py":
        return ForageError(f"{id} names a file; name the class in it too, as in {id}:Name.")
    if wanted.startswith("text:") and path.is_file():
        return ForageError(f"{path} is no file of rows; they are read from .jsonl, .json, .csv, .parquet and .arrow.")
    if wanted.startswith("ale/"):  # Gymnasium's spelling of Atari's games
        game = id[len("ale/") :].rpartition("-v")[0] or id[len("ale/") :]
        return ForageError(f"Unknown environment {id!r}. Did you mean 'ale:{game}' or 'gymnasium:{id}'?")
    scores = {}
    for name in (*(more or ()), *ours):
        lower = name.lower()
        # A prefix that was left out or wrong must not hide the name behind it.
        bare = lower.partition(":")[2] or lower
        bare = bare.removeprefix("ale/")
        ratio = difflib.SequenceMatcher(None, wanted.partition(":")[2] or wanted, bare).ratio()
        scores[name] = max(ratio, difflib.SequenceMatcher(None, wanted, lower).ratio())
    near = [name for name in sorted(scores, key=lambda name: -scores[name]) if scores[name] >= 0.6][:4]
    near = [name for name in near if name.lower().partition(":")[2] == wanted] or near  # only its prefix was left out
    return ForageError(f"Unknown environment {id!r}{did_you_mean(near) or '; forage list environments shows all.'}")
