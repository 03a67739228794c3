"""Builds the experiment of a row: checks its keys, finds its functions and makes its parts."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from forage.config import registry
from forage.core.errors import ForageError, nearest
from forage.runs import training
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, PriorRun, Rule, Scale, SecondMeasure
from forage.studies.claims.rows import SHARED, Row, arms_of, place_error, seeds_of

TEXTS = ("title", "authors", "source", "statement", "treatment", "measured")
NEEDED = (*TEXTS, "year", "environment", "measure", "arms", "laptop", "smoke", "paper", "needs")
OPTIONAL = ("baselines", "also", "rule", "judge", "judged_by", "note", "parts", "every_arm", "lacks", "reach")
SMOKE_SEEDS = (1000, 1001)


def build_claim(row: Row) -> Claim:
    """Return the claim of a row. Raise `ForageError` naming its file, the claim and the key that is wrong."""
    try:
        return claim_of(row)
    except Wrong as error:
        raise place_error(row, str(error)) from None


class Wrong(Exception):
    """A key of a row that is not right, in a sentence."""


def claim_of(row: Row) -> Claim:
    """Return the claim of a row. Raise `Wrong` for a key that is not right."""
    table = row.table
    if "named" in table:
        used = {one for one in find_named(table) if one not in table["named"]}
        raise Wrong(f"there is no value named {min(used)!r}{nearest(min(used), table['named'])}")
    check_keys(table, NEEDED, OPTIONAL, "")
    for key in TEXTS:
        check_kind(table[key], str, key, "text")
    judge = find_function(row, table["judge"], "judge") if "judge" in table else None
    arms = {label: make_arm(row, label, words) for label, words in arms_of(table).items()}
    if not arms:
        raise Wrong("arms has no arm; name at least a treatment and a baseline.")
    if table["treatment"] not in arms and judge is None:
        raise Wrong(f"treatment {table['treatment']!r} is no arm{nearest(table['treatment'], arms)}")
    baselines = tuple(table.get("baselines", [label for label in arms if label != table["treatment"]]))
    if not baselines:
        raise Wrong(f"baselines is empty; add an arm that {table['treatment']!r} is compared with.")
    for label in baselines:
        if label not in arms:
            raise Wrong(f"baseline {label!r} is no arm{nearest(label, arms)}")
    return Claim(
        **{key: table[key] for key in ("title", "authors", "year", "statement", "treatment", "measured")},
        arxiv=table["source"],
        environment=make_environment(row, table["environment"], "environment"),
        arms=arms,
        baselines=baselines,
        measure=make_measure(row, table["measure"], "measure"),
        laptop=make_scale(table["laptop"], "laptop", SEEDS),
        smoke=make_scale(table["smoke"], "smoke", SMOKE_SEEDS),
        paper=make_paper(table, arms),
        also=tuple(make_also(row, one) for one in table.get("also", ())),
        rule=Rule(**check_table(table.get("rule", {}), (), Rule._fields, "rule")),
        note=table.get("note", ""),
        judge=judge,
        judged_by=table.get("judged_by", ""),
        reach=make_reach(table.get("reach")),
    )


def check_keys(table: Mapping[str, Any], needed: Iterable[str], optional: Iterable[str], where: str) -> None:
    """Raise `Wrong` for a key that a table of a row does not have, or lacks."""
    known = (*needed, *optional)
    at = f"{where}." if where else ""
    for key in table:
        if key not in known:
            raise Wrong(f"unknown key {at}{key}{nearest(key, known)}")
    for key in needed:
        if key not in table:
            raise Wrong(f"{at}{key} is missing.")


def check_table(table: Any, needed: Iterable[str], optional: Iterable[str], where: str) -> dict[str, Any]:
    """Return a table of a row whose keys are right. Raise `Wrong` for others."""
    check_kind(table, Mapping, where, "a table")
    check_keys(table, needed, optional, where)
    return dict(table)


def check_kind(value: Any, kind: type, where: str, words: str) -> None:
    """Raise `Wrong` for a value of another type."""
    if not isinstance(value, kind):
        raise Wrong(f"{where} has to be {words}, not {value!r}.")


def make_scale(table: Any, where: str, default: tuple[int, ...]) -> Scale:
    """Return the steps and seeds of a scale."""
    given = check_table(table, ("steps",), ("seeds",), where)
    try:
        return Scale(given["steps"], seeds_of(given.get("seeds"), default))
    except ValueError:
        raise Wrong(f"{where}.seeds has to be a range such as '1000-1009' or a list of numbers.") from None


def make_reach(value: Any) -> tuple[float, float] | None:
    """Return the lowest and the highest measure of learning; `None` if they are unknown."""
    if value is None:
        return None
    if not (isinstance(value, list) and len(value) == 2 and all(type(one) in (int, float) for one in value)):
        raise Wrong(f"reach has to be two numbers, such as [-1200.0, -150.0], not {value!r}.")
    if value[0] == value[1]:
        raise Wrong(f"reach is {value[0]:g} for an arm that learns nothing and for one that has learned; they differ.")
    return float(value[0]), float(value[1])


def find_named(value: Any) -> Iterator[str]:
    """Yield the names of the named values that a value uses."""
    if isinstance(value, Mapping):
        if value.keys() == {"named"} and isinstance(value["named"], str):
            yield value["named"]
        for one in value.values():
            yield from find_named(one)
    elif isinstance(value, list):
        for one in value:
            yield from find_named(one)


def make_paper(table: Mapping[str, Any], arms: Mapping[str, Arm]) -> Paper:
    """Return the paper's own setting."""
    given = check_table(table["paper"], ("environment", "steps", "seeds"), ("options", "arms"), "paper")
    for label in given.get("arms", {}):
        if label not in arms:
            raise Wrong(f"paper.arms has {label!r}, which is no arm{nearest(label, arms)}")
    return Paper(**with_tuples(given), needs=table["needs"], lacks=table.get("lacks", ""))


def with_tuples(value: Any) -> Any:
    """Return a value with tuples for its lists."""
    if isinstance(value, Mapping):
        return {key: with_tuples(one) for key, one in value.items()}
    return tuple(map(with_tuples, value)) if isinstance(value, list) else value


# Functions


def find_function(row: Row, name: Any, where: str) -> Callable[..., Any]:
    """Return the function of this name. Raise `Wrong` if no module has it."""
    check_kind(name, str, where, "the name of a function")
    module, _, attribute = name.rpartition(":")
    if not module:
        found = (getattr(importlib.import_module(one), name, None) for one in SHARED)
        if callable(shared := next(filter(None, found), None)):
            return shared
        known = [
            key for one in SHARED for key, _ in inspect.getmembers(importlib.import_module(one), inspect.isfunction)
        ]
        raise Wrong(f"{where} names an unknown function {name!r}{nearest(name, known)}")
    for place in (f"{row.package}.{module}", module):
        try:
            loaded = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name and not f"{place}.".startswith(f"{error.name}."):
                raise Wrong(f"{where} names {name}, whose module needs {error.name}, which is not installed.") from None
            continue
        if callable(found := getattr(loaded, attribute, None)):
            return found
        known = [key for key, _ in inspect.getmembers(loaded, inspect.isfunction)]
        raise Wrong(f"{where} names {name}, and {place} has no function {attribute!r}{nearest(attribute, known)}")
    raise Wrong(f"{where} names {name}, and there is no module {module} in {row.package}, nor elsewhere.")


def make_measure(row: Row, said: Any, where: str) -> Any:
    """Return a measure: a function by its name, or the result of a call."""
    return make_value(row, said, where) if isinstance(said, Mapping) else find_function(row, said, where)


def make_also(row: Row, table: Any) -> SecondMeasure:
    """Return a second measure."""
    given = check_table(table, ("measure", "measured"), ("higher",), "also")
    return SecondMeasure(**given | {"measure": make_measure(row, given["measure"], "also.measure")})


# Values


def make_value(row: Row, said: Any, where: str) -> Any:
    """Return a row's value: a part, the result of a call, a function, a list, or plain as it is, lists as tuples."""
    if isinstance(said, list):
        return tuple(make_value(row, one, where) for one in said)
    if not isinstance(said, Mapping):
        return said
    if "part" in said:
        return make_part(row, said, where)
    if "call" in said:
        arguments = {key: make_value(row, one, f"{where}.{key}") for key, one in said.items() if key != "call"}
        called = find_function(row, said["call"], where)
        try:
            inspect.signature(called).bind(**arguments)
        except TypeError as error:
            raise Wrong(f"{where} calls {said['call']} with wrong arguments: {error}.") from None
        return called(**arguments)
    if "function" in said:
        check_table(said, ("function",), (), where)
        return find_function(row, said["function"], where)
    if "repeat" in said:
        check_table(said, ("repeat",), (), where)
        try:
            return tuple(make_value(row, one, where) for number, one in said["repeat"] for _ in range(number))
        except (TypeError, ValueError):
            raise Wrong(f"{where}.repeat has to be a list of pairs, each a number of times and a value.") from None
    return {key: make_value(row, one, f"{where}.{key}") for key, one in said.items()}


def make_part(row: Row, said: Mapping[str, Any], where: str) -> Any:
    """Return the part that a value describes."""
    name = said["part"]
    check_kind(name, str, f"{where}.part", "the name of a part")
    options = {key: make_value(row, one, f"{where}.{key}") for key, one in said.items() if key != "part"}
    port = next((port for port in registry.PORTS if registry.target_of(port, name)), None)
    try:
        if port is not None:
            return registry.build(port, name, options)
        if ":" in name:
            return registry.load(name)(**options)
    except (ForageError, TypeError, ImportError, AttributeError) as error:
        raise Wrong(f"{where}: {str(error).rstrip('.')}.") from None
    raise Wrong(
        f"{where} names an unknown part {name!r}{nearest(name, [n for t in registry.tables().values() for n in t])}"
    )


def is_late(said: Any) -> bool:
    """Return whether a value has a call in it, which may play or train: made only when an arm is trained."""
    if isinstance(said, Mapping):
        return "call" in said or any(map(is_late, said.values()))
    return isinstance(said, list) and any(map(is_late, said))


def make_environment(row: Row, said: Any, where: str) -> Any:
    """Return an environment's id, or a function that makes it."""
    if isinstance(said, str):
        return said
    check_kind(said, Mapping, where, "an id or a call")
    find_function(row, check_table(said, ("call",), said, where)["call"], where)
    return make_later(row, said, where)


def make_later(row: Row, said: Any, where: str) -> Callable[[], Any]:
    """Return a function that makes a value, and that raises `ForageError` if it is wrong."""

    def make() -> Any:
        try:
            return make_value(row, said, where)
        except Wrong as error:
            raise place_error(row, str(error)) from None

    return make


# Arms


def make_arm(row: Row, label: str, words: Mapping[str, Any]) -> Arm:
    """Return an arm of these words."""
    where = f'arms."{label}"'
    check_keys(words, ("agent",), ("options", "environment", "steps", "before", *arguments()), where)
    options, parts = split_words(row, words, where)
    own = make_environment(row, words["environment"], f"{where}.environment") if "environment" in words else None
    ahead = words.get("before")
    return Arm(
        words["agent"],
        options,
        parts,
        own,
        None if ahead is None else make_before(row, ahead, where),
        words.get("steps"),
    )


def make_before(row: Row, words: Any, where: str) -> PriorRun:
    """Return the run that comes before an arm."""
    where = f"{where}.before"
    check_table(words, ("agent", "steps"), ("options", *arguments()), where)
    options, parts = split_words(row, words, where)
    return PriorRun(words["agent"], words["steps"], options, parts)


@functools.cache
def arguments() -> tuple[str, ...]:
    """Return the arguments of `forage.train` that an arm may have beyond its own keys."""
    own = ("agent", "environment", "steps", "seeds", "directory", "display", "agent_options")
    names = inspect.signature(training.train).parameters
    return tuple(name for name in (*names, *registry.PORTS) if name not in own)


def split_words(row: Row, words: Mapping[str, Any], where: str) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Return the plain options of an agent, and a function that makes all other words when the arm is trained."""
    check_agent(words["agent"], where)
    options = words.get("options", {})
    check_kind(options, Mapping, f"{where}.options", "a table")
    plain = {key: make_value(row, one, f"{where}.options.{key}") for key, one in options.items() if not is_late(one)}
    late = {key: one for key, one in options.items() if is_late(one)}
    others = {
        key: one for key, one in words.items() if key not in ("agent", "options", "environment", "steps", "before")
    }
    others |= {"agent_options": late} if late else {}
    return plain, make_later(row, others, where)


def check_agent(name: Any, where: str) -> None:
    """Raise `Wrong` for an unknown agent."""
    check_kind(name, str, f"{where}.agent", "the name of an agent")
    if ":" not in name and registry.target_of("agent", name) is None:
        raise Wrong(f"{where} has an unknown agent {name!r}{nearest(name, registry.parts('agent'))}")
