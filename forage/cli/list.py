"""`forage list`: print what there is. Imports only what is asked for."""

from __future__ import annotations

from forage.cli.arguments import nothing_left
from forage.config import options, registry
from forage.core.errors import ForageError, nearest


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage list` ask for."""
    nothing_left(words, "list", [])
    list_parts(positional[0] if positional else None)


def list_parts(wanted: str | None) -> None:
    """Print all parts and environments, or those that are `wanted`."""
    kinds = {"agents": "agent", **{port: port for port in registry.PORTS}}
    kinds |= {"wrappers": "wrappers", "environments": "environments"}
    if wanted is not None and wanted not in kinds:
        raise ForageError(
            f"forage list shows agents, environments, wrappers or a port, not {wanted!r}{nearest(wanted, kinds)}"
        )
    for port, table in registry.PORTS.items():
        if wanted is None or kinds[wanted] == port:
            print(f"{port}")
            for name in table:
                doc = (registry.part_class(port, name).__doc__ or "").strip().splitlines()[0]
                print(f"  {name:20} {doc}")
    if wanted in (None, "wrappers"):
        print("wrappers")
        for name in registry.WRAPPERS:
            doc = (registry.wrapper_class(name).__doc__ or "").strip().splitlines()[0]
            print(f"  {name:20} {doc}")
    if wanted in (None, "environments"):
        from forage.environments import list_environments
        from forage.environments.catalogue import SUITES
        from forage.environments.registry import installed

        print("environments")
        for row in list_environments(libraries=wanted is not None):
            print(f"  {row.id:34} {row.description}")
        for prefix, suite in SUITES.items():
            if not installed(suite):
                print(f"  {prefix + ':<id>':34} needs pip install 'forage-rl[{suite.extra}]'. {suite.description}")
            elif wanted is None:
                print(f"  {prefix + ':<id>':34} {suite.description} Such as {prefix}:{suite.example}.")
        if wanted is None:
            print("forage list environments shows each of those, too.")
