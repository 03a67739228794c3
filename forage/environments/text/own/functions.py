"""Reward functions of a person's own, called as TRL calls them.

A function gets keywords alone: `prompts`, `completions` and `completion_ids`, each column of the rows, `trainer_state`,
`log_extra` and `log_metric`, those that it names or, with `**kwargs`, all of them. It returns a number, or None, for
each answer. It may be `async`.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import traceback
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from forage.core.errors import ForageError
from forage.core.loading import load_named, short
from forage.environments.text.guard import plain_scalar

GIVEN = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
"""The arguments of a reward function, besides the columns of the rows."""
LONGEST = 2000  # characters of a value that a function logs beside an answer

Rewards = list[float | None]


class Outcome(NamedTuple):
    """The result of a function for a batch of answers: its rewards, or the reason for none."""

    rewards: Rewards = []
    raised: str = ""  # the function raised; another batch may do
    wrong: str = ""  # a sentence on what it returned, which no other batch mends


class Reply(NamedTuple):
    """The results of functions for a batch of answers."""

    outcomes: list[tuple[Any, ...]]  # of each function, as `Outcome`
    extras: dict[str, list[str]]  # what was logged beside the answers, by column
    metrics: dict[str, float]  # numbers that were logged


class Traits(NamedTuple):
    """The traits of a function that its caller needs."""

    waits: bool  # it is asynchronous
    looks: bool  # it names the environments' objects
    fault: str  # a sentence on why it cannot be called; empty if it can


class RewardFunctions:
    """Reward functions by name, `file.py:name` or `module:name`, or as objects."""

    def __init__(self, targets: Sequence[str], objects: Mapping[str, Callable[..., Any]] | None = None):
        self.targets = tuple(targets)
        self.functions = [(objects or {}).get(target) or load_function(target) for target in self.targets]
        self.loop: asyncio.AbstractEventLoop | None = None

    def traits(self, columns: Iterable[str]) -> list[tuple[Any, ...]]:
        """Return the `Traits` of each function, for rows with these columns."""
        known = [*GIVEN, *columns]
        return [
            tuple(
                Traits(
                    is_asynchronous(function),
                    "environments" in (parameters(function) or ()),
                    find_fault(target, function, known),
                )
            )
            for target, function in zip(self.targets, self.functions, strict=True)
        ]

    def __call__(self, what: str, *arguments: Any) -> tuple[Any, ...]:
        """Answer a question: `traits` or `score`, and its arguments."""
        return tuple(self.traits(*arguments) if what == "traits" else self.score(*arguments))

    def score(self, which: Sequence[int], batch: Mapping[str, list[Any]], state: Mapping[str, Any]) -> Reply:
        """Return the results of some functions for a batch of answers; those that are asynchronous run together.

        `batch`: the arguments with an entry an answer. `state`: the fields of `trainer_state`.
        """
        count = len(batch["completions"])
        extras: dict[str, list[str]] = {}
        metrics: dict[str, list[float]] = {}

        def log_extra(column: str, values: list[Any]) -> None:
            if len(values) != count:
                raise ValueError(f"log_extra({column!r}, ...) has {len(values)} values for {count} answers")
            extras[str(column)] = [str(value)[:LONGEST] for value in values]

        def log_metric(name: str, value: float) -> None:
            metrics.setdefault(str(name), []).append(float(value))

        given = dict(batch) | {
            "trainer_state": types.SimpleNamespace(**state),
            "log_extra": log_extra,
            "log_metric": log_metric,
        }
        outcomes: dict[int, Outcome] = {}
        waiting: dict[int, Any] = {}
        for index in which:
            try:
                found = self.functions[index](**select_keywords(self.functions[index], given))
            except (Exception, SystemExit) as error:
                outcomes[index] = Outcome(raised=self.words(index, error))
                continue
            if inspect.isawaitable(found):
                waiting[index] = found
            else:
                outcomes[index] = self.outcome(index, found, count)
        for index, found in zip(waiting, self.gather(list(waiting.values())), strict=True):
            failed = isinstance(found, BaseException)
            outcomes[index] = Outcome(raised=self.words(index, found)) if failed else self.outcome(index, found, count)
        means = {name: math.fsum(values) / len(values) for name, values in metrics.items()}
        return Reply([tuple(outcomes[index]) for index in which], extras, means)

    def gather(self, waiting: list[Any]) -> list[Any]:
        """Return the results, or the errors, of functions that wait, which run side by side in one event loop."""
        if not waiting:
            return []
        if self.loop is None:
            self.loop = asyncio.new_event_loop()

        async def gather_all() -> list[Any]:
            return await asyncio.gather(*waiting, return_exceptions=True)

        return self.loop.run_until_complete(gather_all())

    def outcome(self, index: int, found: Any, count: int) -> Outcome:
        """Return the rewards of a function as plain numbers, or a sentence on their fault."""
        rewards = read_rewards(found, count)
        if isinstance(rewards, list):
            return Outcome(rewards)
        return Outcome(wrong=f"The reward function {short(self.targets[index])} returned {rewards}")

    def words(self, index: int, error: BaseException) -> str:
        """Return the error of a function in words, with its line in the function's file."""
        code = getattr(inspect.unwrap(self.functions[index]), "__code__", None)
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if code and frame.filename == code.co_filename
        ]
        where = f" (line {lines[-1]})" if lines else ""
        return f"raised {type(error).__name__}: {error!s:.200}{where}"


def load_function(target: str) -> Callable[..., Any]:
    """Load a reward function. Raise `ForageError` if there is none of that name."""
    function = load_named(target)
    if isinstance(function, type):
        name = target.rpartition(":")[2]
        raise ForageError(
            f"{short(target)} is a class, and a reward is a function or an object that is called; make the object in "
            f"the file, as in {name.lower()} = {name}(), and name that."
        )
    return function


def is_asynchronous(function: Any) -> bool:
    """Return whether a function, or an object that is called, is asynchronous."""
    return any(map(inspect.iscoroutinefunction, (function, getattr(type(function), "__call__", None))))  # noqa: B004


def parameters(function: Any) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of a function; None if it does not tell them."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


def find_fault(target: str, function: Any, known: Sequence[str]) -> str:
    """Return a sentence on why a function cannot be called with the `known` keywords; empty if it can."""
    told = parameters(function)
    if told is None:
        return ""
    for name, parameter in told.items():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            return f"{short(target)} takes {name} by its place, and a reward function is called by keywords."
        keyword = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if keyword and parameter.default is parameter.empty and name not in known:
            columns = [one for one in known if one not in (*GIVEN, "environments")]
            rows = f"the rows have {', '.join(columns)} beside the prompt" if columns else "the rows have prompts alone"
            return f"The reward function {short(target)} needs a column {name!r}, and {rows}."
    return ""


def select_keywords(function: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords that a function takes; all if it takes any."""
    told = parameters(function)
    if told is None or any(one.kind is one.VAR_KEYWORD for one in told.values()):
        return dict(given)
    return {name: value for name, value in given.items() if name in told}


def read_rewards(found: Any, count: int) -> Rewards | str:
    """Return the rewards of `count` answers as plain numbers, or the end of a sentence on a fault of them.

    Numbers that are not finite stay, as they are a fault of single answers.
    """
    should = f"; it returns one number, or None, for each of the {count} answers"
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        return f"{found!r:.80}{should}."
    try:
        each = [plain_scalar(one) for one in found]
    except TypeError:  # a single number of an array library
        return f"{found!r:.80}{should}."
    if len(each) != count:
        return f"{len(each)} reward{'' if len(each) == 1 else 's'}{should}."
    rewards: Rewards = []
    for one in each:
        if one is not None and not isinstance(one, bool | int | float):
            return f"{one!r:.80} as a reward{should}."
        rewards.append(None if one is None else float(one))
    return rewards
