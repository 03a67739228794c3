"""`forage list`: print agents, parts and environments. Imports only the modules that the answer needs."""

from __future__ import annotations

from forage.cli.arguments import nothing_left
from forage.config import options, packages, registry
from forage.config.help import declared
from forage.config.options import fill_columns
from forage.core.errors import ForageError, nearest

HELP = """\
forage list [KIND] [OPTIONS]

Without a kind, lists the names of parts, and the groups of environments. With a kind (agents, environments, wrappers,
or a port: tasks, starts, behaviour, rewards, memory), lists each name with a sentence.

  --all                  list every kind, each name with a sentence

Examples
  forage list
  forage list rewards
  forage list environments
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage list`."""
    whole = bool(words.pop("all", False))
    nothing_left(words, "list", ["all"])
    if len(positional) > 1:
        raise ForageError("forage list takes one kind: forage list rewards.")
    if positional or whole:
        list_parts(positional[0] if positional else None)
    else:
        list_names()


KINDS = {"agents": "agent", **{port: port for port in registry.PORTS}, "wrappers": "wrappers"}
KINDS |= {"environments": "environments"}
MOST = 21  # names of a kind, so that all kinds are on one screen


def list_names() -> None:
    """Print the first names of each kind, and the form of environments' names."""
    from forage.environments.catalogue import NATIVE, SUITES

    groups = {port: list(table) for port, table in registry.PORTS.items()} | {"wrappers": list(registry.WRAPPERS)}
    added = {package.title: part_counts(package) for package in packages.load_packages()}
    groups["environments"] = [name for name in NATIVE if ":" not in name]
    for name in NATIVE:
        prefix, colon, _ = name.partition(":")
        if colon and f"{prefix}:" not in groups["environments"][-1]:
            some = [one for one in NATIVE if one.startswith(f"{prefix}:")]
            groups["environments"].append(f"{name} and {len(some) - 1} more" if len(some) > 1 else name)
    groups["of libraries"] = [f"{prefix}:{suite.example or '<id>'}" for prefix, suite in SUITES.items()]
    for group, names in groups.items():
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        print(fill_columns(f"{group:13}", ", ".join(names[:MOST]) + more))
    for package, counts in added.items():
        print(fill_columns(f"{package:13}", f"{counts}, listed with their kind"))
    print("forage list KIND says what each is, forage list --all of every kind; forage show NAME explains one.")


def part_counts(package: packages.Package) -> str:
    """Count the parts that a package adds, by port; name them if they are few."""
    few = sum(map(len, package.parts.values())) <= MOST
    said = [(port, ", ".join(table) if few else str(len(table))) for port, table in package.parts.items() if table]
    return "; ".join(f"{port}: {names}" if few else f"{names} {port}" for port, names in said)


def list_parts(wanted: str | None) -> None:
    """Print all parts and environments, or those of the kind `wanted`, each with a sentence."""
    if wanted is not None and wanted not in KINDS:
        raise ForageError(f"Unknown kind {wanted!r}{nearest(wanted, KINDS)}")
    marked = False
    for port in (*registry.PORTS, "wrappers"):
        if wanted is None or KINDS[wanted] == port:
            print(port)
            for name, target in (registry.WRAPPERS if port == "wrappers" else registry.parts(port)).items():
                own = bool(declared.own_choices(target))
                marked |= own
                shown = f"{name} *" if own else name
                print(fill_columns(f"  {shown:20}", declared.summary(target) + registry.package_words(target)))
    if marked:
        print("* has numbers or rules that are Forage's and not its paper's; forage show NAME names them.")
    if wanted in (None, "environments"):
        from forage.environments import list_environments
        from forage.environments.catalogue import SUITES
        from forage.environments.registry import installed

        print("environments")
        for row in list_environments(libraries=wanted is not None):
            print(fill_columns(f"  {row.id:34}", row.description))
        for prefix, suite in SUITES.items():
            if not installed(suite):
                need = f"needs pip install 'forage-rl[{suite.extra}]'."
                print(fill_columns(f"  {prefix + ':<id>':34}", f"{need} {suite.description}"))
            elif wanted is None:
                example = f"Such as {prefix}:{suite.example}."
                print(fill_columns(f"  {prefix + ':<id>':34}", f"{suite.description} {example}"))
        if wanted is None:
            print("forage list environments shows each of those, too.")
