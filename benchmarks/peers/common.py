"""What every peer's script shares: how it is called and what it prints. Runs in each peer's own environment,
so it imports the standard library only.

A script is called as `python SCRIPT ROW '{json settings}'`. The harness adds `phase` and `seed` to the settings.
Its last line on standard output is one JSON object:

- `seconds_import`: from the start of the process until everything is imported; null when run by hand.
- `seconds_compile`: tracing and compilation, ahead of time; null where a library compiles as it goes.
- `seconds_steady`, `steps`, `updates`: the timed section, compilation excluded, and what happened inside it, over
  all seeds.
- `steps_per_second`, `updates_per_second`: their quotients.
- `steps_per_core_second`: steps by the time that all cores together worked for this process in the timed section; only
  where a script measures it. In rows of language a step is a token.
- `seconds_outside`: evaluation and, in the steady phase, the untimed first call: no part of a whole process's time.
- `total_steps`: environment steps learned from in one training run (of each seed).
- `final_return`: for each seed, the mean undiscounted return of evaluation episodes after training.
- `episodes`: steps and return at the end of each training episode; only where a script keeps them.
- `curve`, `evaluations`, `evaluation`, `seconds`: steps and return of training episodes and of evaluations, the last
  evaluation, and the seconds of training and evaluations; only where `evaluation_every` asks for them.
- `versions`: of the packages that matter.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

STARTED = "BENCHMARK_STARTED"
"""Environment variable with which the harness hands down the wall-clock time at which it started the process."""


def seconds_since_start() -> float | None:
    """Seconds since the harness started this process; call it when the imports are done."""
    started = os.environ.get(STARTED)
    return None if started is None else time.time() - float(started)


def arguments() -> tuple[str, dict[str, Any]]:
    """Returns the row's name and its settings."""
    if len(sys.argv) != 3:
        sys.exit(f"usage: python {sys.argv[0]} ROW '{{json settings}}'")
    settings = json.loads(sys.argv[2])
    settings.setdefault("phase", "steady")
    settings.setdefault("seed", 0)
    settings.setdefault("num_seeds", 1)
    return sys.argv[1], settings


def keep_to(cores: int) -> None:
    """Keeps this process to so many cores, where the system can do so; call it before what counts them is imported."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))


def report(
    *,
    seconds_import: float | None,
    seconds_compile: float | None,
    seconds_steady: float,
    seconds_outside: float,
    steps: int,
    updates: int,
    total_steps: int,
    final_return: Sequence[float],
    packages: Sequence[str],
    episodes: Sequence[tuple[int, float]] | None = None,
    core_seconds: float | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Prints the result line."""
    result = {
        "seconds_import": seconds_import,
        "seconds_compile": seconds_compile,
        "seconds_steady": seconds_steady,
        "seconds_outside": seconds_outside,
        "steps": steps,
        "updates": updates,
        "total_steps": total_steps,
        "steps_per_second": steps / seconds_steady,
        "updates_per_second": updates / seconds_steady,
        "final_return": [float(value) for value in final_return],
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }
    if episodes is not None:
        result["episodes"] = episodes
    if core_seconds is not None:
        result["steps_per_core_second"] = steps / core_seconds
    print(json.dumps(result | dict(more or {})), flush=True)
