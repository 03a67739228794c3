"""`forage show`: print what a part or a run is. Imports only what is asked for."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from forage.cli.arguments import nothing_left
from forage.config import options, registry
from forage.config.ranges import range_words
from forage.config.values import takes_schedule
from forage.core.errors import ForageError, nearest
from forage.core.ranges import declared
from forage.core.schedule import FORMS


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage show` ask for."""
    nothing_left(words, "show", [])
    if len(positional) != 1:
        raise ForageError("forage show takes the name of a part or a run's directory: forage show ppo.")
    show(positional[0])


def show(name: str) -> None:
    """Print what a run, a part, a wrapper or an environment is."""
    if (Path(name) / "config.json").exists():
        from forage.runs.description import described
        from forage.runs.run import Run

        print(*described(Run(name)), sep="\n")
        return
    if name in registry.WRAPPERS:
        show_wrapper(name)
        return
    found = [(port, table[name]) for port, table in registry.PORTS.items() if name in table] or own_part(name)
    if not found:
        show_environment(name)
        return
    port, target = found[0]
    cls = registry.own_class(target)
    module = sys.modules[cls.__module__]
    print(f"{name}: {port}\n")
    print((module.__doc__ or "").strip(), "\n")
    print("options")
    for field in registry.fields(cls):
        default = "required" if field.required else field.default
        shown = field.name.replace("_", "-")
        words = f"{field.help} ({allowed})" if (allowed := range_words(cls, field.name)) else field.help
        print(f"  --{shown if port == 'agent' else f'{port}.{shown}':28} {default!s:14} {words}")
    scheduled = [field.name.replace("_", "-") for field in registry.fields(cls) if takes_schedule(cls, field.name)]
    if scheduled:
        print(f"\nschedules (docs/networks.md) may stand for {', '.join(scheduled)}:")
        print("  " + "; ".join(form.partition(" or ")[0] for form in FORMS.values()))
    example = f"\nexample {cls.example}" if "example" in vars(cls) else ""
    print(f"{example}\nsource {target.replace(':', ' ')}")
    from forage.config.presets import PRESETS

    for preset in PRESETS:
        if preset.agent == name:
            print(f"preset {preset.environment}: {preset.words}; {preset.steps:,} steps ({preset.source})")


def own_part(name: str) -> list[tuple[str, str]]:
    """Return the port of a person's own part in a file, and its name; nothing for what is no part."""
    if ".py:" not in name:
        return []
    cls = registry.own_class(name)
    return [(port, name) for port in registry.PORTS if registry.is_a(cls, port.capitalize())]


def show_wrapper(name: str) -> None:
    cls = registry.wrapper_class(name)
    print(f"{name}: wrapper\n")
    print(inspect.cleandoc(cls.__doc__ or ""))
    fields = registry.wrapper_fields(cls)
    spelled = ":".join([name, *(field.name.replace("_", "-").upper() for field in fields)])
    print(f"\n--wrap {spelled}, or --wrap {name}:option=value\n\noptions")
    for field in fields:
        default = "required" if field.required else field.default
        print(f"  {field.name.replace('_', '-'):20} {default!s:14} {field.help}")
    print(f"\nexample {cls.example}\nsource {registry.WRAPPERS[name].replace(':', ' ')}")


def show_environment(name: str) -> None:
    from forage.config.environment import environment_spec, resolve_environment
    from forage.environments import make
    from forage.environments.registry import maker_of

    try:
        title, environment, _ = resolve_environment(name, {})
    except ForageError as error:
        names = [known for table in (*registry.PORTS.values(), registry.WRAPPERS) for known in table]
        hint = nearest(name, names)
        raise ForageError(
            f"There is no part called {name!r}{hint}" if hint.startswith("; did") else str(error)
        ) from None
    spec = environment_spec(title, environment)
    print(f"{title}: environment\n")
    made: Any = make(name)
    while hasattr(made, "environment"):
        made = made.environment
    if maker := maker_of(name):
        print(inspect.cleandoc(maker[0].__doc__ or ""), "\n")
        print(inspect.cleandoc(type(made).__doc__ or ""), "\n\noptions")
        for option, value in maker[1].items():
            print(f"  --env.{option:24} {value}")
    elif not callable(environment):
        print(inspect.cleandoc(type(made).__doc__ or ""), "\n\noptions")
        for field in registry.fields(type(made)):
            allowed = declared(type(made), field.name)
            words = f"{field.help} ({allowed.words()})" if allowed else field.help
            print(f"  --env.{field.name:24} {getattr(made, field.name)!s:14} {words.strip()}")
    print(f"\nobservation {spec.observation_space}\naction      {spec.action_space}")
    print(f"horizon     {spec.horizon or 'none'}")
