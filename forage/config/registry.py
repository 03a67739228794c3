"""Parts by name, for `forage list`, options and configuration files.

A part is named by its port's table here, or by `module:Class` when it is a user's own. No part is imported before it is
named.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from forage.config import former, part_options, values
from forage.config.options import WINGS
from forage.core import trust
from forage.core.elsewhere import method_elsewhere
from forage.core.errors import ForageError, nearest
from forage.core.plain import python_numbers


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
    "forage.nn.language.scorer:PretrainedScorer",
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
        if not part_options.is_a(cls, base):
            raise ForageError(f"{name} is not of the port {port}; a subclass of forage.core.ports.{base} works.")
        return cls
    if name.endswith(".py"):
        raise ForageError(f"{name} is a file; name the class or function in it too, as in {name}:name.")
    former.check_part(name, parts(port))
    hint = elsewhere_hint(name) or nearest(name, parts(port))
    hint = f"; forage list {'agents' if port == 'agent' else port} shows them." if hint == "." else hint
    raise ForageError(f"Unknown {port}{'' if port == 'agent' else ' part'} {name!r}{hint}")


def elsewhere_hint(name: str) -> str | None:
    """Describe Forage's replacement for a method of other libraries: the core's words, or those of a package."""
    from forage.config import packages

    here = method_elsewhere(name)
    return here or (f": here it is {part}." if (part := packages.name_here(name)) else None)


def own_class(target: str) -> type:
    """Return the class that `module:Class` or `file.py:Class` names."""
    ours = target.startswith("forage.")
    if ours and (now := trust.reading.get()) and not is_table_part(target):
        raise ForageError(f"{now.where} names {target}, which is none of Forage's parts.")
    if ours or is_table_part(target):
        return load(current_target(target))
    from forage.core.loading import load_class

    return load_class(target)


def current_target(target: str) -> str:
    """Return today's `module:Class` of a part that only other parts contain, by a former one; others as they are."""
    if target in INNER or name_of_target(target) is not None:
        return target
    from forage.config import packages

    return packages.inner_targets().get(target, target)


def is_table_part(target: str) -> bool:
    """Return whether `module:Class` is of Forage's own parts, so that a stored run may name it."""
    if target in INNER or name_of_target(target) is not None:
        return True
    from forage.config import packages

    return target in packages.inner_targets()


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


def wrapper_fields(cls: type) -> list[part_options.Field]:
    """Return the options of a wrapper: its fields without the wrapped environment."""
    return [field for field in part_options.fields(cls) if field.name not in ("environment", "inside")]


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

        known = {field.name: field for field in part_options.fields(self.cls)}
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
    """Find a part by its name. Raise `ForageError` if there is none.

    A directory is a reward model among rewards.
    """
    if port == "rewards" and target_of(port, name) is None and os.path.isdir(name):
        return PartChoice(port, "scorer", part_class(port, "scorer"), {**(options or {}), "judge": name})
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
