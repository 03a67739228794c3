"""Writes docs/sandbox.md: attempts to escape, exhaust or stall the sandbox, and what happened to each.

python docs/make/sandbox.py

Runs every attempt on this machine, and those on files again with Landlock alone and with namespaces alone. Takes a
minute, or more on a busy machine.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from unittest import mock

from forage.environments.text.tools.sandbox import guard

sys.path.append(str(Path(__file__).parents[2] / "tests" / "environments" / "text"))
from attempts import ATTEMPTS, ON_FILES, Attempt, Bait, Happened, attempt

PAGE = Path(__file__).parents[1] / "sandbox.md"
DOES = {
    "limits": "`setrlimit`, and a guard with a clock that counts output",
    "seccomp": "a filter in the kernel, which allows the system calls of a list and denies all others",
    "landlock": "the kernel's access control for users without rights, Linux 5.13 or newer",
    "namespaces": "a user and a mount namespace, where the system lets ordinary users have them",
}
HEAD = """# The sandbox

The tool `python` runs programs that a policy wrote and nobody has read. Each is a fresh process, confined by the system
before the program begins; Python itself confines nothing. Which layers hold is found by trying, kept in the files of a
run (`Toolbox.record()`), and proved anew by each process: where one of them fails, the program does not begin.

| layer | by | so that a program |
|---|---|---|
{layers}

`limits`, `seccomp` and one of `landlock` and `namespaces` hold, or there is no sandbox: on macOS, Windows, other
processors than x86-64 and 64-bit Arm, and kernels that refuse all of it, the tool says so in one sentence when it is
made. Containers and Ubuntu 24.04 often refuse user namespaces and allow Landlock; a program then writes no files at
all, as nothing could count them, and a sandbox that is asked for files refuses.

A program can read Python's standard library, its input, the clock, and the numbers of its own process and its parent's.
Without `namespaces` it can also ask whether a file exists, and how large it is, but not open it. It sees no environment
variable, no installed package and no other library of the system, so `ssl`, `sqlite3` and often `zlib` cannot be
imported. It starts no process and no thread. Not promised: that it cannot tell how busy the machine is, or that a fault
in the kernel or the processor lets nothing out. The calculator, SQL and search run in Forage's own process and have no
need of it: they compute, read and count under limits of their own.

Starting a process and confining it takes about 35 ms of a core's time, of which 15 are Python's start.

## What was tried

Outside stand a secret in a file, in the environment and in an open file, two servers, and a process to kill. {harmless}
of the attempts do harm to them when they are run without the sandbox, which a test sees. Here none of {number} did, on
{system} with Python {python} and the layers {held}.

| attempt | to | what happened |
|---|---|---|
{rows}

{alone}

On 64-bit Arm nothing was tried: the numbers of its system calls are those of the kernel's table.

This page is written by `python docs/make/sandbox.py`; `tests/environments/text/test_sandbox.py` asks the same.
"""


def run(layers: tuple[str, ...], chosen: list[Attempt]) -> list[tuple[Attempt, Happened]]:
    promise = dataclasses.replace(guard.guarantee(), layers=layers)
    done = []
    with mock.patch.object(guard, "guarantee", lambda: promise), Bait() as bait:
        for one in chosen:
            happened = attempt(one, bait)
            expected = happened.outcome.ended in one.ended.split("|") and re.search(one.shows, happened.outcome.text)
            if happened.harm or not expected:
                print(f"{', '.join(layers)}: {one.name}: {happened.harm or happened.outcome}")
            done.append((one, happened))
    return done


def main() -> int:
    promise = guard.guarantee()
    here = [one for one in ATTEMPTS if one.machine in ("", promise.system.split()[-1])]
    done = run(promise.layers, here)
    harm = [one for one, happened in done if happened.harm]
    if harm:
        return 1
    alone = []
    for layer in ("landlock", "namespaces"):
        if layer in promise.layers:
            folder = layer == "namespaces"
            chosen = [one for one in here if one.name in ON_FILES and (folder or not one.sandbox.files)]
            results = run(("limits", "seccomp", layer), chosen)
            harmed = [one.name for one, happened in results if happened.harm]
            alone.append(
                f"`{layer}`: {len(results) - len(harmed)} of {len(results)}" + f" ({', '.join(harmed)})" * bool(harmed)
            )
    words = {
        "layers": "\n".join(f"| `{name}` | {DOES[name]} | {guard.PROMISES[name]} |" for name in guard.PROMISES),
        "harmless": sum(one.harmless for one in ATTEMPTS),
        "number": len(done),
        "system": promise.system.split("-")[0],
        "python": promise.python,
        "held": ", ".join(promise.layers),
        "rows": "\n".join(f"| {one.name} | {one.does} | {happened.summary()} |" for one, happened in done),
        "alone": "With one of the last two layers alone, so many of the attempts on files did no harm: "
        f"{'; '.join(alone)}.",
    }
    PAGE.write_text(HEAD.format(**words))
    return 0


if __name__ == "__main__":
    sys.exit(main())
