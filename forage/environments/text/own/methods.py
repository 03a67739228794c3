"""A person's own environment of many turns: a class whose methods are tools (TRL's `environment_factory`).

`reset(**row)` begins an episode and returns the prompt, or `None` where the row has one. Its other public methods are
tools, `get_reward()` is the reward of the episode, and an attribute `done` that is true ends it early.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import numbers
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.errors import ForageError
from forage.core.loading import load_class
from forage.core.text.dialogue import Dialogue, add_words
from forage.data.text.source import raw_rows
from forage.environments.text.games.game import EXECUTED
from forage.environments.text.named import call_own, make_checked
from forage.environments.text.tools.functions import FunctionTool, await_result, compute
from forage.environments.text.tools.native import Native
from forage.environments.text.tools.toolbox import Toolbox
from forage.environments.text.worlds import Start, World, WorldReply

RESERVED = "reset", "get_reward"
Row = Mapping[str, Any]


class Methods(World):
    """An object whose methods the policy calls, until a text without a call, the last turn, or `done`.

    Python's and NumPy's global generators are seeded by the episode and the turn, so that episodes of one start are
    alike, whatever the object draws from them. One object plays all episodes of a conversation's place.
    """

    names, known = EXECUTED, False
    row: Row = {}  # type: ignore[assignment]  # the arguments of the present episode's reset

    def __init__(
        self,
        target: str,
        turns: int = 4,
        options: Mapping[str, Any] | None = None,
        rows: Sequence[Row] | str | None = None,
        instruct: bool = False,
        native: Native | None = None,
    ):
        self.target, self.turns, self.taken, self.instruct = target, turns, 0, instruct
        rows = reset_rows(rows)
        self.held_rows = [row for place, row in enumerate(rows) if place % 10 == 0]
        self.train_rows = [row for place, row in enumerate(rows) if place % 10] or self.held_rows
        self.rows_to_learn = len(self.train_rows)
        self.object = make_checked("environment", target, load_class(target), options or {})
        self.played = self.object
        self.pays = type(self.object).__name__ if hasattr(self.object, "get_reward") else ""
        self.toolbox: Toolbox = Toolbox(method_tools(target, self.object), native=native)
        self.start = Start(0, 0)

    def begin(self, start: Start) -> str | Dialogue:
        self.start, self.taken = start, 0
        self.row = row = self.row_of(start)
        with seed_generators(start.number, start.split == "held-out"):
            said = self.run("reset", **row)
        if said is not None and not isinstance(said, str):
            raise ForageError(f"{self.target} returned {said!r:.60} from reset; it returns the prompt, or None.")
        return self.describe(self.prompt(row.get("prompt"), said))

    def columns(self, level: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for row in (*self.train_rows, *self.held_rows) for name in row))

    def row_of(self, start: Start) -> Row:
        """Return the row of a start: each tenth is held out from training; none without rows."""
        found = self.held_rows if start.split == "held-out" else self.train_rows
        return found[start.number % len(found)] if found else {}

    def prompt(self, given: Any, said: str | None) -> str | Dialogue:
        """Return the prompt of a row, a text or messages, followed by the text that `reset` returned."""
        if not given:
            if not said:
                raise ForageError(f"{self.target} has no prompt: reset returns it, or a row has it in `prompt`.")
            return said
        if isinstance(given, str):
            return given + (said or "")
        asked = Dialogue.parse(given)
        return add_words(asked, said, "") if said else asked

    def describe(self, prompt: str | Dialogue) -> str | Dialogue:
        """Return a prompt with a description of the tools, if `instruct` is set and no chat template shows them."""
        told = self.instruct and self.toolbox.native is None
        return add_words(prompt, self.toolbox.description()) if told else prompt

    def reply(self, written: str) -> WorldReply:
        self.taken += 1
        with seed_generators(self.start.number, self.start.split == "held-out", self.taken):
            found = self.toolbox.reply(written)
            executed = {"executed": float(bool(found.answers) and not any(one.error for one in found.answers))}
            if found.answers and self.taken < self.turns and not getattr(self.object, "done", False):
                messages, results = found.messages, found.results
                return WorldReply(found.text, 0.0, False, told=executed, messages=messages, results=results)
            return WorldReply("", self.reward(), True, told=executed)

    def reward(self) -> float:
        """Return the reward of the episode, NaN for `None`; 0 for an object that leaves rewards to others."""
        if not self.pays:
            return 0.0
        found = self.run("get_reward")
        if found is None:
            return math.nan
        number = float(found) if isinstance(found, numbers.Real) else math.nan
        if not math.isfinite(number):
            raise ForageError(f"{self.target} returned {found!r:.60} from get_reward; it returns a finite number.")
        return number

    def run(self, method: str, **arguments: Any) -> Any:
        """Return the result of one of the object's own methods, which may be asynchronous."""

        def call() -> Any:
            result = getattr(self.object, method)(**arguments)
            return asyncio.run(await_result(result)) if inspect.isawaitable(result) else result

        return call_own(self.target, method, call)


def method_tools(target: str, made: Any) -> tuple[FunctionTool, ...]:
    """Return the public methods of an object as tools. Raise `ForageError` if it has none."""
    found = [
        (name, method)
        for name, method in inspect.getmembers(made, inspect.ismethod)
        if not name.startswith("_") and name not in RESERVED
    ]
    if not found:
        raise ForageError(
            f"{target} has no method that the policy could call; its public methods beside reset and get_reward are "
            f"the tools."
        )
    return tuple(FunctionTool(method, functools.partial(compute, method)) for _, method in found)


@contextmanager
def seed_generators(*entropy: int) -> Iterator[None]:
    """Seed the global generators of Python and NumPy, and restore them afterwards."""
    python, array = random.getstate(), np.random.get_state()
    seed = int(np.random.SeedSequence([int(one) for one in entropy]).generate_state(1)[0])
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(array)


def reset_rows(given: Sequence[Row] | str | None) -> tuple[Row, ...]:
    """Return rows as they are given, or those of a file or a data set's directory."""
    if not given:
        return ()
    if not isinstance(given, str):
        found = list(given)
        if any(not isinstance(row, Mapping) for row in found):
            raise ForageError(f'Rows are mappings, as in {{"prompt": ...}}, and {given!r:.60} has another value.')
        return tuple(found)
    found = []
    for row in raw_rows(Path(given)):
        if isinstance(row.fields, str):
            raise ForageError(f"{given}: {row.place} {row.fields}; a row is an object of arguments of reset.")
        found.append(row.fields)
    if not found:
        raise ForageError(f"{given} has no rows.")
    return tuple(found)
