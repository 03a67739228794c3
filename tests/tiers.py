"""Tiers of tests: those of `make test`, and those of `make thorough` alone.

`make test` must end soon on two cores of any machine, so it asks of most parts whether they do what their formula and
their reference say. What asks the same of more agents, levels, runners and arms, what trains until something is
learned, and whole files about what little else rests on, is marked `thorough`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

import pytest


def gate_cases(cases: Iterable[Any], gate: Iterable[Any]) -> list[Any]:
    """All cases of a parametrised test; those that are not in `gate` run in `make thorough` alone."""
    cases, gate = list(cases), list(gate)
    assert gate and all(case in cases for case in gate), "a misspelt case would leave the gate without a word"
    marked = []
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        marked.append(pytest.param(*values, marks=() if case in gate else pytest.mark.thorough))
    return marked


def first(number: int, cases: Iterable[Any]) -> list[Any]:
    """All cases of a parametrised test; those behind the first few run in `make thorough` alone."""
    cases = list(cases)
    assert 0 < number < len(cases), "all or none of the cases would be left out"
    return gate_cases(cases, cases[:number])


def repeat(test: Callable[..., Any], cases: Iterable[Any]) -> Any:
    """Return a parametrised test with other cases: a test of the core for the rows of a package of parts."""
    (table,) = (mark for mark in test.pytestmark if mark.name == "parametrize")
    copy = FunctionType(test.__code__, test.__globals__, test.__name__, test.__defaults__, test.__closure__)
    copy.__doc__, copy.__module__ = test.__doc__, test.__module__
    copy.pytestmark = [mark for mark in test.pytestmark if mark is not table]
    return pytest.mark.parametrize(table.args[0], list(cases))(copy)
