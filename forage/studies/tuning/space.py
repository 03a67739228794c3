"""The search space: hyper-parameters by name, each with a range or choices."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from forage.config import part_options, registry
from forage.config.options import PORTS, parse
from forage.config.ranges import check_number
from forage.config.run_config import RunConfig
from forage.core.errors import nearest
from forage.core.types import ForageError

OUTSIDE = ("tasks", "starts")  # parts that are not the learner's


@dataclasses.dataclass(frozen=True)
class SearchRange:
    """One hyper-parameter, `name` of the agent's or `port.name`: from `low` to `high`, or one of `choices`."""

    name: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    choices: tuple[Any, ...] = ()

    @property
    def port(self) -> str:
        return self.name.rpartition(".")[0] or "agent"

    @property
    def field(self) -> str:
        return self.name.rpartition(".")[2]


def parse_range(text: str, setup: RunConfig) -> SearchRange:
    """`learning_rate=1e-4:1e-2:log`, `epochs=1,4,10`, `memory.exponent=0.3:0.9`.

    Raises `ForageError` if there is no such hyper-parameter, or it cannot have these values.
    """
    name, equals, values = text.partition("=")
    name = name.replace("-", "_")
    if not equals or not values:
        raise ForageError(f"--over takes NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=A,B,C; {text!r} is neither.")
    port = name.rpartition(".")[0] or "agent"
    if port not in ("agent", *PORTS):
        raise ForageError(f"Unknown port {port!r}{nearest(port, PORTS)}")
    part = getattr(setup, port)
    fields = {f.name: f for f in part_options.fields(type(part))}
    found = fields.get(name.rpartition(".")[2])
    if found is None:
        own = name.rpartition(".")[2]
        raise ForageError(f"{registry.part_name(part)} has no hyper-parameter {own!r}{nearest(own, fields)}")
    if ":" not in values:
        one = SearchRange(name, choices=tuple(parse(name, value, found.type) for value in values.split(",")))
        if len(set(one.choices)) < 2:
            raise ForageError(f"--over {name} needs two different values or more, not {values}.")
        ends: list[Any] = [value for value in one.choices if isinstance(value, int | float)]
    else:
        if found.type not in (int, float):
            raise ForageError(f"{name} is no number, so it takes choices, as in --over {name}=A,B.")
        low, high, *rest = values.split(":")
        if rest not in ([], ["log"]):
            raise ForageError(f"--over {name} takes LOW:HIGH or LOW:HIGH:log, not {values}.")
        ends = [parse(name, end, found.type) for end in (low, high)]
        one = SearchRange(name, *ends, log=bool(rest), whole=found.type is int)
        if not all(map(math.isfinite, ends)) or ends[0] >= ends[1] or (one.log and ends[0] <= 0):
            above = " and above 0" if one.log else ""
            raise ForageError(f"--over {name} takes a lower end below the upper one{above}, not {values}.")
    for end in ends:
        dataclasses.replace(part, **{one.field: end})  # which looks at itself, and may say more than its range
        check_number(type(part), one.field, end, registry.part_name(part))
    return one


def is_traced(setup: RunConfig, one: SearchRange) -> bool:
    """Return whether trials that differ in it can share a program: it is a number that no shape depends on.

    On the host, the seeds of a program share where episodes begin.
    """
    if one.port in OUTSIDE and not setup.native:
        return False
    part = getattr(setup, one.port)
    own = next(field for field in dataclasses.fields(part) if field.name == one.field)
    return isinstance(getattr(part, one.field), float) and not own.metadata.get("static", False)


def with_settings(setup: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """Return the setup with these hyper-parameters, named as in `SearchRange`."""
    parts: dict[str, Any] = {}
    for name, value in settings.items():
        port, _, field = name.rpartition(".")
        port = port or "agent"
        parts[port] = dataclasses.replace(parts.get(port, getattr(setup, port)), **{field: value})
    return dataclasses.replace(setup, **parts)
