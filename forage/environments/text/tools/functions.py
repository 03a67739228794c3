"""A person's own functions and objects as tools of a policy."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import pickle
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from forage.core.errors import ForageError
from forage.core.loading import load_named
from forage.environments.text.process import Process, ProcessPool, Silent
from forage.environments.text.tools.schemas import function_schema, signature_of
from forage.environments.text.tools.tool import Answer, Tool

SECONDS = 10.0  # that a call may take, unless the function has an attribute of this name in small letters


class FunctionTool:
    """A function as a tool. Its schema comes from annotations and docstring, its answer is its result as a text.

    `invoke` has arguments by name. `call` has a text: the value of the one argument that is needed, or all as JSON.
    """

    def __init__(self, function: Callable[..., Any], compute: Callable[[Mapping[str, Any]], tuple[str, bool]]):
        """`compute`: returns the result for arguments, as a text, and whether it is an error."""
        self.schema = function_schema(function)
        self.name: str = self.schema["function"]["name"]
        self.signature, self.compute = signature_of(function), compute
        self.properties: dict[str, Any] = self.schema["function"]["parameters"]["properties"]
        needed = self.schema["function"]["parameters"].get("required") or list(self.properties)
        self.main: str | None = needed[0] if len(needed) == 1 else None
        words = "" if len(self.properties) == 1 and self.main else f" Its text is JSON of {', '.join(self.properties)}"
        words += f", or {self.main} alone." if words and self.main else "." if words else ""
        self.description: str = f"{self.schema['function']['description']}{words}"

    def call(self, text: str) -> Answer:
        """Return the answer to a text."""
        arguments = self.read_text(text)
        if arguments is None:
            return Answer(f"The text of {self.name} is JSON of its arguments, {', '.join(self.properties)}.", True, 0.0)
        return self.invoke(arguments)

    def read_text(self, text: str) -> dict[str, Any] | None:
        """Return the arguments that a text gives; `None` if it gives none."""
        arguments: Any = None
        with suppress(ValueError, RecursionError):
            arguments = json.loads(text)
        if isinstance(arguments, dict) and arguments.keys() <= self.properties.keys():
            return arguments
        is_text = self.main is not None and self.properties[self.main].get("type") == "string"
        if self.main is None or (arguments is None and not is_text):
            return None
        return {self.main: text.strip() if is_text else arguments}

    def invoke(self, arguments: Any) -> Answer:
        """Return the answer to arguments by name."""
        start = time.perf_counter()
        if not isinstance(arguments, Mapping):
            return Answer(f"The arguments of {self.name} are an object of names and values.", True, 0.0)
        try:
            self.signature.bind(**arguments)
        except TypeError as error:
            return Answer(f"{self.name} cannot be called so: {error}.", True, 0.0)
        text, failed = self.compute(arguments)
        return Answer(text, failed, time.perf_counter() - start)


class SeparateTool(FunctionTool):
    """A function of a person's own file, called in processes of its own, within a time limit."""

    waits = True

    def __init__(self, target: str, function: Callable[..., Any]):
        self.target = target
        self.seconds = float(getattr(function, "seconds", SECONDS))
        if not self.seconds > 0:
            raise ForageError(f"The tool {target} has {self.seconds:g} seconds for a call, and needs more than 0.")
        super().__init__(function, self.ask)
        self.pool = ProcessPool(functools.partial(make_process, target))

    def ask(self, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the text of the function's result in its own process, and whether it is an error."""
        try:
            late = f"The tool {self.name} gave no answer within {self.seconds:g} seconds."
            return self.pool.ask((dict(arguments),), self.seconds, late)
        except Silent as silent:
            return str(silent), True

    def record(self) -> dict[str, Any]:
        """Return the function's place for the files of a run."""
        return {"target": self.target, "seconds": self.seconds}

    def close(self) -> None:
        """End the processes."""
        self.pool.close()


class ByName:
    """A function that another process imports when it reads this."""

    def __init__(self, target: str):
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return load_named, (self.target,)


def make_process(target: str) -> Process:
    """Start a process that calls a function of a person's own file."""
    function: Any = ByName(target)
    packed = pickle.dumps(functools.partial(compute, function))
    return Process(packed, f"The tool {target}", f"runs {target}")


def compute(function: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the result of a function, which may be asynchronous, as a text, and whether it is an error."""
    try:
        result = function(**arguments)
        if inspect.isawaitable(result):
            result = asyncio.run(await_result(result))
        return str(result), False
    except ForageError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}", True


async def await_result(result: Any) -> Any:
    """Return the result of an awaitable."""
    return await result


def own_tool(target: str) -> Tool:
    """Return a person's function, or an object of a person's class, as a tool. Raise `ForageError` for other values."""
    found = load_named(target)
    if not isinstance(found, type):
        return SeparateTool(target, found)
    try:
        made = found()
    except TypeError as error:
        raise ForageError(
            f"The tool {target} could not be made ({error}); its class is made without arguments."
        ) from None
    if not isinstance(made, Tool):
        raise ForageError(
            f"{target} is no tool: a tool is a function with annotations and a docstring, or a class with a name, a "
            f"description and call(text)."
        )
    return made
