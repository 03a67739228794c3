"""Run a Python program that uses JAX, and measure the seconds of each phase of its start.

    python benchmarks/phases.py OUTPUT.json -m forage train ppo CartPole-v1
    python benchmarks/phases.py OUTPUT.json SCRIPT.py ARGUMENTS

JAX reports how long it traces, lowers and compiles each function. Only the outermost reports count, as a function is
traced within another one. Programs compile in several threads, so that their seconds may exceed the clock; `alone` is
the clock's time in which no program was traced, lowered or compiled, after JAX was imported.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import threading
import time
from pathlib import Path
from typing import Any

PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}

Span = tuple[float, float, str, str]
"""The begin and end of a phase, its name, and the function's."""


class Listener:
    """Keeps the outermost phases of each thread."""

    def __init__(self) -> None:
        self.spans: dict[int, list[Span]] = {}

    def __call__(self, event: str, duration: float, **about: Any) -> None:
        if event not in PHASES:
            return
        end = time.monotonic()
        kept = self.spans.setdefault(threading.get_ident(), [])
        while kept and kept[-1][0] >= end - duration - 1e-3:  # two clocks
            kept.pop()
        kept.append((end - duration, end, PHASES[event], str(about.get("fun_name", ""))))

    @property
    def all_spans(self) -> list[Span]:
        return [span for spans in list(self.spans.values()) for span in spans]


def summarise(spans: list[Span], imported: float, ended: float) -> dict[str, Any]:
    """Return the seconds of each phase and of each program, and those on the clock outside all phases."""
    phases: dict[str, float] = dict.fromkeys(PHASES.values(), 0.0)
    programs: dict[str, dict[str, float]] = {}
    for begin, end, phase, name in spans:
        phases[phase] += end - begin
        program = programs.setdefault(name.removeprefix("jit_").removeprefix("jit(").removesuffix(")"), {})
        program[phase] = program.get(phase, 0.0) + end - begin
    covered, until = 0.0, imported
    for begin, end, *_ in sorted(spans):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return {"phases": phases, "programs": programs, "alone": ended - imported - covered}


def main() -> None:
    """Run the program, and write the seconds at its end."""
    output, *program = sys.argv[1:]
    began = time.monotonic() - time.process_time()  # the interpreter's own start counts
    import jax

    imported, listener = time.monotonic(), Listener()
    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        if program[0] == "-m":
            sys.argv = program[1:]
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = program
            sys.path[0] = str(Path(program[0]).parent)
            runpy.run_path(program[0], run_name="__main__")
    except SystemExit as error:
        if error.code:
            raise
    finally:
        ended = time.monotonic()
        found = summarise(listener.all_spans, imported, ended)
        used = os.times()
        found |= {"import jax": imported - began, "clock": ended - began, "processor": used.user + used.system}
        Path(output).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
