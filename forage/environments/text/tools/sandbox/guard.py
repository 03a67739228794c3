"""Run an untrusted program in a confined process, and report the promises that held.

The system confines the process, in layers that an ordinary user may ask for. Python itself confines nothing:

- `limits`: memory, processor time, open files, sizes of files (`setrlimit`); time on the clock and output (the guard).
- `seccomp`: the system calls of `system_calls.py` and no others. No process, thread or other program is started, no
  socket is opened, no signal reaches another process.
- `landlock`: files of the standard library are read, and no others; nothing is written outside the place for it.
- `namespaces`: a file system of its own, with the standard library, the folders that lead to it and nothing else.
  In addition to Landlock it hides that other files exist, and limits the number and the size of written files.

`limits` and `seccomp` always hold, and at least one of `landlock` and `namespaces`; on systems without them (macOS,
Windows, Linux before 5.13 without user namespaces, and processors other than x86-64 and 64-bit Arm) there is no
sandbox, and an error explains it. `Guarantee.record()` names the layers that held, for the files of a run, and each
process proves them again before its program begins.

A program can read: the files of Python's standard library, as it imports from them, and so the path of Python's
installation; its input; the clock; the numbers of its own and its parent's process. Without `namespaces` it can also
ask whether a file exists, its size and its owner (`os.stat`), but not open it. It sees no environment variable, no
installed package and no library of the system, so modules that need a library from outside Python (`ssl`, `sqlite3`,
often `zlib`) cannot be imported. Not promised: that it cannot tell how busy the machine is, or that a fault in the
kernel or the processor lets nothing out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import marshal
import os
import platform
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from forage.core.errors import ForageError
from forage.environments.text.tools.sandbox import system_calls

INSIDE = Path(__file__).parent / "inside.py"
SETUP = 30.0  # seconds that starting Python and confining it may take on a busy machine
LONGER = 5  # times its `wall` that a program gets at most on a busy machine
CHOICES = (("namespaces", "landlock"), ("landlock",), ("namespaces",))  # the first that works is used

PROMISES = {
    "limits": "time, processor time, memory, output, open files and sizes of files end at their limits",
    "seccomp": "no other process or thread, no program, no socket, no signal to another process",
    "landlock": "reads the standard library alone, writes nothing outside its own folder",
    "namespaces": "sees no other files at all, and writes so many files and bytes in memory that goes with it",
}


@dataclasses.dataclass(frozen=True)
class Guarantee:
    """The layers that hold for programs on this machine."""

    system: str  # such as "Linux 6.8.0 x86_64"
    python: str  # the version that runs the programs
    layers: tuple[str, ...]  # names of `PROMISES`
    missing: str = ""  # why the others do not hold

    def record(self) -> dict[str, Any]:
        """Return the guarantee as plain values for a run's files, with a sentence for each layer."""
        promises = {layer: PROMISES[layer] for layer in self.layers}
        return {**dataclasses.asdict(self), "layers": list(self.layers), "promises": promises}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a program."""

    text: str  # what it wrote on standard output and standard error, up to the limit
    ended: str  # "finished", "failed" (by an error of its own), "time", "cpu", "output" or "killed" (by a signal)
    code: int  # its exit code; less than 0: the signal that ended it
    seconds: float  # on the clock, from when the program began


@dataclasses.dataclass(frozen=True)
class Sandbox:
    """A place for programs, with its limits."""

    wall: float = 5.0  # seconds on the clock, from when it begins, less those of waiting for a busy processor
    cpu: int = 2  # seconds of processor time, which starting Python counts in
    memory: int = 256 << 20  # bytes of address space, Python's own 30 million among them
    output: int = 10_000  # bytes of output, after which the program is stopped
    files: int = 0  # files and folders that may be there at once in the private folder; 0: there is no such folder
    space: int = 1 << 20  # bytes in all those files together
    open_files: int = 32  # at once, the three standard ones among them

    def __post_init__(self) -> None:
        """Check the limits."""
        smallest = {"wall": 0.05, "cpu": 1, "memory": 64 << 20, "output": 1, "files": 0, "space": 4096, "open_files": 8}
        for name, least in smallest.items():
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not (whole or (name == "wall" and isinstance(value, float))) or not least <= value < 1 << 40:
                kind = "a number" if name == "wall" else "a whole number"
                raise ForageError(f"A sandbox's {name} is {kind} of at least {least}, not {value!r}.")

    def layers(self) -> tuple[str, ...]:
        """Return the layers in force; raise ForageError if there are too few, or no limit of the private folder."""
        layers = guarantee().layers
        if self.files and "namespaces" not in layers:
            raise ForageError(
                "A program may write files only where they can be counted, by user namespaces, which this system does "
                "not allow: files=0 works."
            )
        return layers

    def run(self, program: str, given: str = "") -> Outcome:
        """Return the outcome of a program with `given` on its standard input."""
        return execute(self, self.layers(), program, given)


@functools.cache
def guarantee() -> Guarantee:
    """Return the layers in force here, found by trying; raise ForageError if they are too few."""
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in system_calls.MACHINES:
        raise ForageError(
            f"Programs can be confined only on Linux on x86-64 or 64-bit Arm, and this is {platform.system()} on "
            f"{machine}: leave the Python tool out, or run Forage in a Linux container or WSL 2."
        )
    reasons: list[str] = []
    for choice in CHOICES:
        layers = ("limits", "seccomp", *choice)
        try:
            execute(Sandbox(), layers, "pass", "")
        except ForageError as error:
            reasons.append(str(error))
        else:
            system = f"{platform.system()} {platform.release()} {machine}"
            return Guarantee(system, platform.python_version(), layers, " ".join(reasons))
    raise ForageError(
        f"Programs cannot be confined here, as the system refuses both Landlock and user namespaces, or seccomp; leave "
        f"the Python tool out, or run Forage on Linux 5.13 or newer. {reasons[-1]}"
    )


def execute(sandbox: Sandbox, layers: tuple[str, ...], program: str, given: str) -> Outcome:
    """Run a program under exactly these layers, or raise ForageError before it begins."""
    read, write = os.pipe()
    wish = {
        **{name: getattr(sandbox, name) for name in ("cpu", "memory", "files", "space", "open_files")},
        **system_calls.calls(platform.machine()),
        "layers": list(layers),
        "parent": os.getpid(),
        "report": write,
        "program": program.encode("utf-8", "replace").decode(),
    }
    packed = marshal.dumps(wish, 4)
    request = len(packed).to_bytes(8, "little") + packed + given.encode("utf-8", "replace")
    command = [os.path.realpath(sys.executable), "-s", "-P", "-S", "-B", "-X", "utf8", str(INSIDE)]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PYTHONHASHSEED": "0"},
            pass_fds=(write,),
            start_new_session=True,
        )
    except OSError as error:
        os.close(read)
        raise ForageError(f"Python could not be started for a program: {error}.") from None
    finally:
        os.close(write)
    try:
        return attend(process, read, request, sandbox)
    finally:
        os.close(read)
        end_process(process)


def end_process(process: subprocess.Popen[bytes]) -> int:
    """End a process and its group without asking it, and return its exit code."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return code


def waiting_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the seconds that a process has been ready to run while others had the processors.

    It is 0 on systems that do not count it; there a busy machine stops a program sooner.
    """
    try:
        return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def attend(process: subprocess.Popen[bytes], report: int, request: bytes, sandbox: Sandbox) -> Outcome:
    """Hand over the request and collect the output until the program ends or a limit is reached."""
    assert process.stdin is not None and process.stdout is not None
    inward, outward = process.stdin.fileno(), process.stdout.fileno()
    heard, said, ended = b"", b"", ""
    began: float | None = None
    before = 0.0  # that it had waited when the program began
    deadline = time.monotonic() + SETUP

    def seconds_left() -> float:
        nonlocal deadline
        if began is not None and time.monotonic() >= deadline:
            deadline = began + min(sandbox.wall + waiting_seconds(process) - before, LONGER * sandbox.wall)
        return deadline - time.monotonic()

    with selectors.DefaultSelector() as waiting:
        for place in (inward, outward, report):
            os.set_blocking(place, False)
        waiting.register(inward, selectors.EVENT_WRITE)
        waiting.register(outward, selectors.EVENT_READ)
        waiting.register(report, selectors.EVENT_READ)
        while outward in waiting.get_map() and not ended:
            if (seconds := seconds_left()) <= 0:
                ended = "time"
                break
            for key, _ in waiting.select(seconds):
                if key.fd == inward:
                    try:
                        request = request[os.write(inward, request[:65536]) :]
                    except BrokenPipeError:
                        request = b""
                    if not request:
                        waiting.unregister(inward)
                        process.stdin.close()
                elif key.fd == report:
                    word = os.read(report, 4096)
                    heard += word
                    if not word:
                        waiting.unregister(report)
                    elif heard == b"ready":
                        began, before = time.monotonic(), waiting_seconds(process)
                        deadline = began + sandbox.wall
                else:
                    word = os.read(outward, 65536)
                    said += word
                    if not word:
                        waiting.unregister(outward)
                    elif len(said) > sandbox.output:
                        ended = "output"
    while not ended and began is not None and process.poll() is None:  # it has closed its output and goes on
        if (seconds := seconds_left()) <= 0:
            ended = "time"
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    seconds = time.monotonic() - (began or deadline)
    code = end_process(process)
    if began is None:
        reason = heard.decode(errors="replace").removeprefix("failed ") or said.decode(errors="replace").strip()
        raise ForageError(f"A program's process could not be confined ({reason[-200:] or 'it did not begin'}).")
    if not ended:
        ended = {0: "finished", -signal.SIGXCPU: "cpu"}.get(code, "failed" if code > 0 else "killed")
    return Outcome(said[: sandbox.output].decode(errors="replace"), ended, code, seconds)
