"""Families by name."""

from __future__ import annotations

import copyreg
import importlib
from typing import Any

import numpy as np

from forage.core.errors import ForageError, nearest
from forage.core.loading import load_class
from forage.environments.text import FAMILIES
from forage.environments.text.games import GAMES
from forage.environments.text.named import call_own
from forage.environments.text.problems import Family, Problem, Verdict

GYM = "reasoning-gym:"


def family(name: str) -> Family:
    """Return the family of a name: a built-in one, `reasoning-gym:NAME`, or a user's own `file.py:Class`.

    Raises:
        ForageError: There is no such family, or its library is not installed.
    """
    if name.startswith(GYM):
        from forage.environments.text.reasoning_gym import ReasoningGym

        return ReasoningGym(name.removeprefix(GYM))
    if is_own(name):
        return own_family(name)
    if name not in FAMILIES:
        raise ForageError(f"There is no family of problems named {name!r}{nearest(name, FAMILIES)}")
    module, _, made = FAMILIES[name].partition(":")
    return getattr(importlib.import_module(f"forage.environments.text.families.{module}"), made)()


def mixed_families(name: str) -> list[str]:
    """Return the families of `addition+sorting`; empty for the name of a single one."""
    parts = name.split("+")
    known = all(part.lower() in (*FAMILIES, *GAMES) or part.startswith(GYM) or is_own(part) for part in parts)
    return parts if len(parts) > 1 and known else []


def is_own(name: str) -> bool:
    """Return whether a name is that of a person's own class: `file.py:Class` or `module:Class`."""
    return ":" in name and not name.startswith(GYM)


def kind_of(cls: Any) -> str | None:
    """Return the kind of text that a person's class is: family, game or methods; `None` for another class."""
    if not isinstance(cls, type):
        return None
    has = {name: callable(getattr(cls, name, None)) for name in ("begin", "reply", "reset", "step")}
    if issubclass(cls, Family):
        return "family"
    if has["step"]:
        return None  # an environment of another library
    return "game" if has["begin"] and has["reply"] else "methods" if has["reset"] else None


def own_family(name: str) -> Family:
    """Make a family of a person's own. Raise `ForageError` if it breaks a promise of `Family`."""
    cls = load_class(name)
    if not issubclass(cls, Family):
        raise ForageError(
            f"{name} is no family of problems; a subclass of forage.environments.text.problems.Family works."
        )
    if lacking := sorted(getattr(cls, "__abstractmethods__", ())):
        raise ForageError(f"{name} has no {lacking[0]}; a family has levels, measure, make, size and reason.")
    for what in ("name", "levels", "measure"):
        if not getattr(cls, what, None):
            raise ForageError(f"{name} has no {what}; a family has name, levels, measure, make, size and reason.")
    if isinstance(cls.levels, str):
        raise ForageError(
            f"{name} has as levels a text; they are a tuple, ({cls.levels!r},), of what each level means."
        )
    try:
        made = cls()
    except TypeError as error:
        raise ForageError(f"{name} could not be made ({error}); a family is made without arguments.") from error
    copyreg.pickle(cls, lambda _: (family, (name,)))  # another process, such as that of its verifier, finds it so
    for level in range(len(made.levels)):
        check_problem(name, made, level)
    return made


def check_problem(name: str, made: Family, level: int) -> None:
    """Raise `ForageError` if a problem of a level, or the verdict on its own solution, breaks the contract."""

    def attempt(what: str, call: Any) -> Any:
        return call_own(name, f"{what} at level {level}", call)

    problem = attempt("make", lambda: made.make(np.random.default_rng(0), level))
    texts = isinstance(problem, Problem) and isinstance(problem.prompt, str) and isinstance(problem.answer, str)
    if not texts or not problem.prompt:
        found = (
            f"prompt {problem.prompt!r} and answer {problem.answer!r}"
            if isinstance(problem, Problem)
            else repr(problem)
        )
        raise ForageError(
            f"{name} made {found} at level {level}; make returns Problem(prompt, answer, data), with texts."
        )
    size = attempt("size", lambda: made.size(problem))
    if not isinstance(size, int | float | np.number):
        raise ForageError(f"{name} has {size!r} as size of a problem at level {level}; it is a number.")
    solution = attempt("solution", lambda: made.solution(problem))
    verdict = attempt("verify", lambda: made.verify(problem, solution))
    if not isinstance(verdict, Verdict):
        raise ForageError(
            f"{name} judges a text by {verdict!r}; verify returns Verdict(format, truth), truth from 0 to 1."
        )
    if not verdict.format or float(verdict.truth) != 1:
        raise ForageError(
            f"{name} calls its own solution wrong at level {level}: {solution!r}, for {problem.prompt!r}; answers "
            f"that are no whole numbers need a read (and a judge) of their own."
        )
