"""Parts by name, for `forage list`, options and configuration files.

A part is named by its port's table here, or by `module:Class` when it is a user's own. No part is imported before it is
named.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import io
import textwrap
import tokenize
import typing
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from forage.config import former, values
from forage.config.options import WINGS
from forage.core import trust
from forage.core.elsewhere import method_elsewhere
from forage.core.errors import ForageError, nearest
from forage.core.plain import python_numbers
from forage.core.settings import Setting


def table(wing: str) -> dict[str, str]:
    """Return `module:Class` of every part of a wing, by name, as its `__init__` lists them."""
    package = f"forage.{wing}"
    return {name: f"{package}.{target}" for name, target in importlib.import_module(package).PARTS.items()}


PORTS: dict[str, dict[str, str]] = {port: table(wing) for port, wing in WINGS.items()}
"""The core's parts by port and name. `parts` adds those of other packages."""


def parts(port: str) -> dict[str, str]:
    """Return `module:Class` of every part of a port by name: the core's, then those of installed packages."""
    from forage.config import packages

    return PORTS[port] | packages.names().parts[port]


def tables() -> dict[str, dict[str, str]]:
    """Return `parts` of every port."""
    return {port: parts(port) for port in PORTS}


def target_of(port: str, name: str) -> str | None:
    """Return `module:Class` of a part by its name; None if no part has it. The core's names come first."""
    if name in PORTS[port]:
        return PORTS[port][name]
    if ":" in name:
        return None
    from forage.config import packages

    if targets := packages.names().disputed.get(name):
        raise ForageError(f"{name!r} is the name of more than one part; name one in full: {' or '.join(targets)}.")
    return packages.names().parts[port].get(name)


INNER = {
    "forage.core.frozen:FrozenPolicy",
    "forage.data.demonstrations:Demonstrations",
    "forage.nn.language.pretrained:PretrainedModel",
    "forage.starts.cells:Cells",
    *(
        f"forage.tasks.distributions:{name}"
        for name in ("Constant", "Uniform", "LogUniform", "Normal", "Choice", "Linear")
    ),
}
"""`module:Class` of parts that only other parts contain, which no port names."""

WRAPPERS: dict[str, str] = {
    "frame-stack": "forage.environments.wrappers.images:FrameStack",
    "time-limit": "forage.environments.wrappers.time:TimeLimit",
    "time-aware": "forage.environments.wrappers.time:TimeAware",
    "action-repeat": "forage.environments.wrappers.time:ActionRepeat",
    "sticky-actions": "forage.environments.wrappers.actions:StickyActions",
    "delay": "forage.environments.wrappers.actions:Delay",
    "rescale-action": "forage.environments.wrappers.actions:RescaleAction",
    "resize": "forage.environments.wrappers.images:Resize",
    "grey": "forage.environments.wrappers.images:Grey",
    "masked": "forage.environments.wrappers.selection:SelectEntries",
    "noisy-tv": "forage.environments.wrappers.noisy_tv:NoisyTV",
    "context-visible": "forage.environments.wrappers.selection:ContextVisible",
    "motion": "forage.environments.wrappers.motion:Motion",
    "action-noise": "forage.environments.wrappers.randomness.action:ActionNoise",
    "reward-noise": "forage.environments.wrappers.randomness.reward:RewardNoise",
    "observation-noise": "forage.environments.wrappers.randomness.observation:ObservationNoise",
    "missing": "forage.environments.wrappers.randomness.missing:Missing",
    "drift": "forage.environments.wrappers.randomness.drift:Drift",
}
"""Wrappers of environments, by name."""


def load(target: str) -> type:
    """Return the class that `module:Class` names."""
    module_name, _, class_name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ForageError(f"Cannot import {module_name} to get {class_name}: {error}.") from error
    except BaseException as error:
        if module_name.startswith("forage."):
            raise
        from forage.core.loading import refusal

        raise refusal(module_name, error) from error
    if (found := getattr(module, class_name, None)) is None:
        raise ForageError(f"Module {module_name} has no class {class_name}.")
    return found


def part_class(port: str, name: str) -> type:
    """Return the class of a part, by its name at `port` or as `module:Class` or `file.py:Class`."""
    if target := target_of(port, name):
        return load(target)
    if ":" in name:
        cls = own_class(name)
        base = port.capitalize()
        if not is_a(cls, base):
            raise ForageError(f"{name} is not of the port {port}; a subclass of forage.core.ports.{base} works.")
        return cls
    former.check_part(name, parts(port))
    hint = method_elsewhere(name) or nearest(name, parts(port))
    hint = f"; forage list {'agents' if port == 'agent' else port} shows them." if hint == "." else hint
    raise ForageError(f"Unknown {port}{'' if port == 'agent' else ' part'} {name!r}{hint}")


def own_class(target: str) -> type:
    """Return the class that `module:Class` or `file.py:Class` names."""
    if target.startswith("forage."):
        if (now := trust.reading.get()) and not is_table_part(target):
            raise ForageError(f"{now.where} names {target}, which is none of Forage's parts.")
        return load(target)
    if name_of_target(target) is not None:
        return load(target)
    from forage.core.loading import load_class

    return load_class(target)


def is_table_part(target: str) -> bool:
    """Return whether `module:Class` is of Forage's own parts, so that a stored run may name it."""
    return target in INNER or name_of_target(target) is not None


def name_of_target(target: str) -> str | None:
    """Return the name of the part that `module:Class` is; None if it has none."""
    tables = PORTS.values() if target.startswith("forage.") else map(parts, PORTS)
    return next((name for table in tables for name, known in table.items() if known == target), None)


def package_words(target: str) -> str:
    """Return ` (package)` after a part of another package; empty for one of the core."""
    from forage.config import packages

    package = packages.package_of(target.partition(":")[0])
    return f" ({package.title})" if package else ""


def wrapper_class(name: str) -> type:
    """Return the class of a wrapper, by its name."""
    check_wrapper(name)
    return load(WRAPPERS[name])


def check_wrapper(name: str) -> None:
    """Raise `ForageError` if there is no such wrapper, without importing anything."""
    if name not in WRAPPERS:
        hint = nearest(name, WRAPPERS)
        raise ForageError(f"Unknown wrapper {name!r}{'; forage list wrappers shows them.' if hint == '.' else hint}")


def wrapper_fields(cls: type) -> list[Field]:
    """Return the options of a wrapper: its fields without the wrapped environment."""
    return [field for field in fields(cls) if field.name not in ("environment", "inside")]


def part_name(part: Any) -> str:
    """Return the inverse of `part_class`, for any port."""
    target = f"{type(part).__module__}:{type(part).__qualname__}"
    known = name_of_target(target)
    if known is not None or target.startswith("forage."):
        return known or target
    from forage.core.loading import Own, target_name

    named = target_name(type(part))
    return Own.from_target(named).target if named else target


def short_name(part: Any) -> str:
    """Return a part's name as sentences say it: a person's own class without its file."""
    return part_name(part).rpartition(":")[2]


@typing.runtime_checkable
class Array(typing.Protocol):
    """An array of NumPy or JAX, known without importing either."""

    def tolist(self) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Field:
    """One hyper-parameter of a part."""

    name: str
    type: Any
    default: Any
    help: str

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING


def fields(cls: type) -> list[Field]:
    """Return the hyper-parameters of a part: its dataclass fields, each explained by the comment behind it.

    A name without a comment means what `MEANINGS` says, as in every other part.
    """
    comments: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            comments |= field_comments(base)
    hints = typing.get_type_hints(cls)
    result = []
    for field in dataclasses.fields(cls):
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        words = comments.get(field.name) or meaning_of(field.name, cls.__module__)
        result.append(Field(field.name, hints.get(field.name, Any), default, words))
    return result


MEANINGS = {
    # collecting
    "num_envs": "environments stepped side by side; more give each update more varied data",
    "rollout_length": "steps of each environment between two updates; more make larger and fewer updates",
    "updates_per_rollout": "updates after each rollout; more learn more from each step, at more computing",
    "learning_starts": "environment steps before the first update; more begin with more varied data",
    # learning
    "optimiser": "one of Optax by its name, such as adamw, sgd or lion, or module:function of the learning rate",
    "learning_rate": "step size of the optimiser; larger learns faster, and diverges sooner",
    "discount": "worth of a reward one step later; nearer 1 looks further ahead",
    "batch_size": "transitions, or sequences of them, in each update; more make steadier gradients, at more computing",
    "minibatch_size": "transitions in each gradient step; more make steadier and fewer steps",
    "minibatches": "equal parts that a rollout is cut into, each for a gradient step; more make more, noisier steps",
    "epochs": "passes over each rollout; more learn more from it, and fit it more closely",
    "max_gradient_norm": "longer gradients are cut to this length; smaller makes more cautious steps",
    "n_step": "rewards summed before a value is taken; more carry rewards back faster, with more noise",
    "double": "the network chooses the action that the target network values (double Q-learning), which overrates less",
    "dueling": "the network adds a state's value and each action's advantage, in streams of their own",
    # on-policy learning
    "gae_lambda": "decay of the weights of longer returns in advantages; nearer 1 has less bias and more variance",
    "clip": "how far a new policy's probability ratio is followed away from 1; larger allows larger policy steps",
    "clip_value": "values move by at most `clip` in an update, too",
    "entropy_coefficient": "weight of the policy's entropy in the loss; larger explores more",
    "value_coefficient": "weight of the value's loss beside the policy's; larger gives values more of the gradient",
    "normalise_advantage": "advantages of each minibatch are brought to mean 0 and deviation 1",
    "normalise_observation": "observations are brought to mean 0 and deviation 1, by those seen so far",
    # networks
    "hidden_sizes": "units of each hidden layer, for observations that are no images",
    "value_sizes": "units of each hidden layer of the value's own network; none: hidden_sizes",
    "activation": "function between layers: one of jax.nn by its name, or module:function",
    "layer_norm": "hidden layers are normalised before their activation; steadier where values grow",
    "encoder": "class of one's own that turns an observation into features, before the hidden layers: file.py:Class",
    "embedding_size": "numbers that an observation is turned into; more keep more of it, at more computing",
    # temperatures
    "initial_temperature": "weight of the policy's entropy at first; larger explores more",
    # rewards
    "inner": "the rewards within, which this part begins from",
    "weight": "weight of the bonus beside the reward; larger explores more",
}
"""Meanings of the hyper-parameters that many parts share, by name. A comment behind a part's own field goes before."""


def meaning_of(option: str, module: str) -> str:
    """Return the sentence that explains an option in all parts of a package; empty if there is none."""
    if option in MEANINGS:
        return MEANINGS[option]
    from forage.config import packages

    package = packages.package_of(module)
    return package.meanings.get(option, "") if package else ""


def setting_of(cls: type) -> Setting | None:
    """Return the row of a named setting; None for other classes."""
    return vars(cls).get("setting")


@functools.cache
def field_comments(cls: type) -> dict[str, str]:
    """Return the comment on each field of a class, with its continuation lines; empty without a source.

    Reading a source takes milliseconds, and the fields that agents share are looked up for each of them.
    A named setting has its meanings in its row.
    """
    if row := setting_of(cls):
        return dict(row.meanings)
    try:
        return parse_comments(inspect.getsource(cls))
    except (OSError, TypeError):
        return {}


def parse_comments(source: str) -> dict[str, str]:
    """Return the comment behind each field of the class that begins a text."""
    try:
        source = textwrap.dedent(source)
        body = ast.parse(source).body[0]
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, tokenize.TokenError):
        return {}
    notes = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    alone = {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip()
    }
    found = {}
    for node in body.body if isinstance(body, ast.ClassDef) else []:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        end = node.end_lineno or node.lineno
        words = [notes[line] for line in range(node.lineno, end + 1) if line in notes]
        while words and (end := end + 1) in alone:
            words.append(notes[end])
        found |= {node.target.id: " ".join(words)} if words else {}
    return found


def to_config(part: Any) -> dict[str, Any]:
    """Return a part as plain data: its name and its fields, parts within it likewise.

    Of what is no plain data, such as a function, only a description remains, and `from_config` says so.
    """

    def plain(value: Any) -> Any:
        if is_a(type(value), "Part"):
            return to_config(value)
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return [plain(item) for item in value]
        if isinstance(value, Array):
            return value.tolist()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        return values.plain(value)

    options = {f.name: plain(getattr(part, f.name)) for f in dataclasses.fields(part)}
    return {"part": part_name(part)} | origin_of(part) | options


ORIGIN = "from"
"""The key of a part's plain data that holds the package it is of; no option can have the name, a word of Python's."""


def origin_of(part: Any) -> dict[str, str]:
    """Return the package of a part by `ORIGIN`; an empty table for parts of Forage and of the user."""
    if type(part).__module__.startswith("forage."):
        return {}
    from forage.config import packages

    package = packages.package_of(type(part).__module__)
    return {} if package is None or package.own else {ORIGIN: package.title}


def current_name(config: dict[str, Any]) -> str:
    """Return the present name of a part that is stored as plain data; other packages keep their names."""
    return config["part"] if config.get(ORIGIN) else former.stored_name(config["part"])


def stored_target(config: dict[str, Any]) -> str | None:
    """Return `module:Class` of a part that is stored as plain data; None if no installed part has its name.

    A part of a package is looked up there, so that no other package and no newer part of Forage takes its place.
    """
    package, name = config.get(ORIGIN), current_name(config)
    if package and ":" not in name:
        from forage.config import packages

        return packages.target_in(str(package), name)
    known = next((table[name] for table in PORTS.values() if name in table), None)
    return known or next(filter(None, (target_of(port, name) for port in PORTS)), None)


def stored_name(config: dict[str, Any]) -> str:
    """Return the name by which `part_class` finds a part that is stored as plain data."""
    if (target := stored_target(config)) is None:
        return config["part"]
    return name_of_target(target) or target


def is_a(cls: type, name: str) -> bool:
    """Return whether a class is a `forage.core.ports.NAME`, found out without importing it."""
    return any(base.__name__ == name and base.__module__.startswith("forage.core.ports.") for base in cls.__mro__)


class PartChoice(NamedTuple):
    """A part that is named, with options, before it is built."""

    port: str
    name: str
    cls: type
    options: dict[str, Any]
    is_complete: bool = False  # it takes no defaults of the environment, as its options are those of a stored run

    def with_options(self, options: Mapping[str, Any]) -> PartChoice:
        """Return the same part with further options."""
        return self._replace(options=self.options | dict(options))

    def checked_options(self) -> dict[str, Any]:
        """Return the options with schedules and functions in place of the words for them.

        Raise `ForageError` for options that the part has not, needs, or cannot take.
        """
        from forage.config.ranges import check_kinds  # it loads JAX

        known = {field.name: field for field in fields(self.cls)}
        check_options(self.name, self.options, known)
        for key, value in self.options.items():
            former.check_value(key, value, self.name)
        found = values.resolve_words(self.cls, python_numbers(self.options)) if self.options else {}
        check_kinds(found, {key: field.type for key, field in known.items()}, self.name)
        missing = [key for key, field in known.items() if field.required and key not in found]
        if missing:
            shown = (
                missing[0].replace("_", "-") if self.port == "agent" else f"{self.port}.{missing[0].replace('_', '-')}"
            )
            raise ForageError(f"{self.name} needs --{shown} VALUE; forage show {self.name} explains it.")
        return found

    def build_part(self) -> Any:
        """Make the part."""
        return make_part(self.cls, self.checked_options())


def choose_part(port: str, name: str, options: Mapping[str, Any] | None = None) -> PartChoice:
    """Find a part by its name. Raise `ForageError` if there is none."""
    return PartChoice(port, name, part_class(port, name), dict(options or {}))


def check_options(name: str, options: Iterable[str], known: Collection[str]) -> None:
    """Raise `ForageError` for the first option that a part does not have."""
    if unknown := [key for key in options if key not in known]:
        former.check_option(unknown[0], known, name)
        raise ForageError(f"{name} has no option {unknown[0]!r}{nearest(unknown[0], known)}")


def build(port: str, name: str, options: dict[str, Any]) -> Any:
    """Make a part by name. Raise `ForageError` for options that it has not, needs, or cannot take."""
    return choose_part(port, name, options).build_part()


def make_part(cls: Any, options: dict[str, Any]) -> Any:
    """Make a part. Raise `ForageError` if a stored run has it send to an address that is not known here."""
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise ForageError(f"{cls.__name__} lacks {' and '.join(missing)}, which forage.core.ports says of its port.")
    part = cls(**options)
    reaches = {name: value for name in trust.REACHES if isinstance(value := getattr(part, name, None), str)}
    if reaches:
        trust.check_reach(part_name(part), reaches)
    return part


def from_config(config: dict[str, Any]) -> Any:
    """Return the inverse of `to_config`. Raise `PythonObject` for an object stored only as a description."""
    name, target = current_name(config), stored_target(config)
    if target is None and ":" not in name:
        raise ForageError(f"Unknown part {name!r}{nearest(name, [one for port in PORTS for one in parts(port)])}")
    cls = load(target) if target else own_class(name)
    if not hasattr(cls, "__dataclass_fields__"):
        raise ForageError(f"{name} is no part; a subclass of one in forage.core.ports works.")
    known = {f.name for f in dataclasses.fields(cls)}
    options = {}
    for key, value in former.with_today(config, known).items():
        if key in ("part", ORIGIN):
            continue
        if key not in known:
            raise ForageError(f"{name} has no option {key!r}{nearest(key, known)}")
        options[key] = rebuild_value(value, f"{name}'s {key}")
    if is_a(cls, "Part"):
        options = cls.translate_options(options)
    return make_part(cls, values.resolve_words(cls, options))


def rebuild_value(value: Any, what: str) -> Any:
    if isinstance(value, list):
        return tuple(rebuild_value(item, what) for item in value)
    if isinstance(value, dict) and "object" in value:
        raise PythonObject(f"{what} was a Python object, {value['object']}.")
    if isinstance(value, dict) and "schedule" in value:
        return value["schedule"]
    return from_config(value) if isinstance(value, dict) and "part" in value else value


class PythonObject(ForageError):
    """An error for a part that holds an object that a configuration file cannot."""
