"""`forage show`: explain a part, an environment or a run. Imports only the modules that the answer needs."""

from __future__ import annotations

import inspect
from typing import Any

from forage.cli.arguments import nothing_left
from forage.config import options, packages, part_options, registry
from forage.config.options import fill_columns
from forage.config.packages import locate_run
from forage.core.errors import ForageError, nearest

HELP = """\
forage show NAME | RUN

Explains an agent, another part, a wrapper or an environment: its computation, its paper, its options with default and
range, an example, its presets and its claims. For a run: its score, its settings and its history.

Examples
  forage show ppo
  forage show rnd
  forage show CartPole-v1
  forage show my_parts.py:Mine
  forage show runs/NAME
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage show`."""
    nothing_left(words, "show", [])
    if len(positional) != 1:
        raise ForageError(
            "forage show takes the name of a part or an environment, or a run's directory: forage show ppo."
        )
    show(positional[0])


def show(name: str) -> None:
    """Print the description of a run, a part, a wrapper or an environment."""
    if (locate_run(name) / "config.json").exists():
        from forage.runs.run import Run
        from forage.runs.summary import describe_run

        print(*describe_run(Run(name)), sep="\n")
        return
    if name in registry.WRAPPERS:
        show_wrapper(name)
        return
    found = [(port, target) for port in registry.PORTS if (target := registry.target_of(port, name))] or own_part(name)
    if not found:
        show_environment(name)
        return
    from forage.config.help.describing import docstrings, option_lines, own_lines
    from forage.config.help.outlines import class_to_describe
    from forage.config.values import takes_schedule
    from forage.core.ranges import FORMS

    port, target = found[0]
    cls = class_to_describe(target) if registry.is_table_part(target) else registry.own_class(target)
    print(f"{name}: {port}\n")
    print(docstrings(cls), "\n")
    print("options")
    print(*option_lines(cls, "" if port == "agent" else f"{port}."), sep="\n")
    print(*own_lines(cls), sep="\n", end="")
    scheduled = [field.name.replace("_", "-") for field in part_options.fields(cls) if takes_schedule(cls, field.name)]
    if scheduled:
        print("", fill_columns("schedules", f"(docs/networks.md) may stand for {', '.join(scheduled)}:"), sep="\n")
        print("  " + "; ".join(form.partition(" or ")[0] for form in FORMS.values()))
    if needs := part_options.needs_words(cls):
        print("", fill_columns("needs", ", ".join(needs)), sep="\n")
    example = f"\nexample {cls.example}" if "example" in vars(cls) else ""
    print(f"{example}\nsource {target.replace(':', ' ')}{registry.package_words(target)}")
    package = packages.package_of(cls.__module__)
    if package and package.pages:
        print(f"page {package.pages.rstrip('/')}/{name}")
    show_claims(name)
    from forage.config.presets import presets_of

    for preset in presets_of(name):
        said = f"{preset.environment}: {preset.words}; {preset.steps:,} steps ({preset.source})"
        print(fill_columns("preset", said))


def show_claims(name: str) -> None:
    """Print the papers' claims about a part, each with the command that tests it."""
    from forage.studies.claims import of_part

    for claim, statement in of_part(name).items():
        print(fill_columns("claim ", statement), f"       forage claim {claim}", sep="\n")


def own_part(name: str) -> list[tuple[str, str]]:
    """Return the port and the name of a user's own part in a file; empty if it is no part."""
    if ".py:" not in name or name.startswith("text:"):
        return []
    cls = registry.own_class(name)
    return [(port, name) for port in registry.PORTS if part_options.is_a(cls, port.capitalize())]


def show_wrapper(name: str) -> None:
    from forage.config.help.describing import own_lines
    from forage.config.help.outlines import class_to_describe

    cls: Any = class_to_describe(registry.WRAPPERS[name])
    print(f"{name}: wrapper\n")
    print(inspect.cleandoc(cls.__doc__ or ""))
    fields = registry.wrapper_fields(cls)
    spelled = ":".join([name, *(field.name.replace("_", "-").upper() for field in fields)])
    print(f"\n--wrap {spelled}, or --wrap {name}:option=value\n\noptions")
    for field in fields:
        default = "required" if field.required else field.default
        print(f"  {field.name.replace('_', '-'):20} {default!s:14} {field.help}")
    print(*own_lines(cls), sep="\n", end="")
    print(f"\nexample {cls.example}\nsource {registry.WRAPPERS[name].replace(':', ' ')}")


def show_words(build: Any) -> None:
    """Print the description of a text environment, and an episode of its expert; print none for others."""
    batch = build(1)
    try:
        if batch.in_words:
            print(inspect.cleandoc(type(batch).__doc__ or ""), "an episode, as an expert plays it", sep="\n\n")
            print(*(f"  {line}" for line in str(batch.expert_episode()).splitlines()), "", "options", sep="\n")
    finally:
        batch.close()


def show_environment(name: str) -> None:
    from forage.config.environment import environment_spec, resolve_environment
    from forage.config.help.describing import environment_lines
    from forage.environments import make
    from forage.environments.catalogue import NATIVE
    from forage.environments.registry import maker_of

    try:
        title, environment, _ = resolve_environment(name, {})
    except ForageError as error:
        names = [known for table in (*registry.tables().values(), registry.WRAPPERS) for known in table]
        elsewhere = registry.elsewhere_hint(name)
        hint = elsewhere or nearest(name, [*names, *NATIVE])
        known = elsewhere is not None or hint.startswith(". Did")
        if ":" in name or (not known and "Did you mean" in str(error)):
            raise
        raise ForageError(
            f"Unknown part or environment {name!r}{hint if known else '; forage list shows all.'}"
        ) from None
    spec = environment_spec(title, environment)
    print(f"{title}: environment\n")
    made: Any = make(name)
    while hasattr(made, "environment"):
        made = made.environment
    maker = maker_of(name)
    if not callable(environment):
        said = [inspect.cleandoc(one.__doc__ or "") for one in ((maker[0],) if maker else ()) + (type(made),)]
        print(*said, "options", sep="\n\n")
    else:
        show_words(environment)
    print(*environment_lines(name), sep="\n")
    print(f"\nobservation {spec.observation_space}\naction      {spec.action_space}")
    print(f"horizon     {spec.horizon or 'none'}")
    print(f"\nexample forage train {title}")
