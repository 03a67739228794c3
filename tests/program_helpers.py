"""Compiled programs that a process keeps while its tests ask for them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def keep_last_programs(
    read: Callable[..., Any], write: Callable[..., Any], number: int = 64
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return `read` and `write` of JAX's cache on disk, with the last `number` programs of this process before it.

    Tests give JAX the same program again and again, each with a function of its own. To read it from the disk takes a
    third of the time that it takes to compile it, and small ones are not written there.
    """
    programs: dict[str, Any] = {}

    def read_program(name: str, key: str, *more: Any) -> Any:
        if key in programs:
            programs[key] = programs.pop(key)  # the last one again
            return programs[key], 0
        found = read(name, key, *more)
        if found[0] is not None:
            keep(key, found[0])
        return found

    def write_program(key: str, seconds: float, name: str, backend: Any, program: Any, callbacks: Any) -> None:
        if not callbacks:  # they are part of the program, but not of its key
            keep(key, program)
        write(key, seconds, name, backend, program, callbacks)

    def keep(key: str, program: Any) -> None:
        programs[key] = program
        if len(programs) > number:
            programs.pop(next(iter(programs)), None)

    return read_program, write_program
