"""How many files does a command go through, and how often does it come back into one?

    python benchmarks/entries.py                       the table
    python benchmarks/entries.py --list "train(ppo)"   the entries of one subject, in order; * marks a return
    python benchmarks/entries.py --files "train(ppo)"  how often each of its files is entered, and from how many

A reader who follows a command through the source opens another file where a function of one calls a function of
another. This is counted while the command runs (`sys.setprofile`):

- An entry is a pair of a calling file and a called function of another file. Each pair counts once, however often the
  call is made. Only files of `forage` and `forage_papers` count. A call that comes through another library, such as
  JAX's transformations, counts as one of the file that called that library.
- A file counts when an entry leads into it.
- A return is an entry into a file that was entered before.

Imports do not count: what runs is the body of a module, and no function is called. Everything else does: methods,
properties, nested functions, lambdas.

Trainings count from the command line to the first gradient, when JAX has differentiated a loss for the first time; an
evaluation counts whole. Programs are traced in threads of their own, so each thread that a command starts is waited for
before the command goes on: the count is the same each time, as if all ran in the main thread. What a subject needs,
such as a data set or a run, is made before and not counted; nothing that was compiled before is used.

The script uses the command line alone, and counts any version of Forage.
"""

from __future__ import annotations

import concurrent.futures
import importlib.util
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter, defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

PACKAGES = ("forage", "forage_papers")
QUICK = "--seeds 1 --evaluation-episodes 1 --quiet"


class Subject(NamedTuple):
    """A command that is counted, and the commands that make what it needs."""

    command: str
    before: tuple[str, ...] = ()
    to_gradient: bool = True


MAKE_RUN = f"train ppo CartPole-v1 --steps 4096 {QUICK} --directory run"
MAKE_DATA = "data record run --steps 512 --actions random --output data.npz --quiet"
SUBJECTS: dict[str, Subject] = {
    "train(ppo)": Subject(f"train ppo CartPole-v1 --steps 4096 {QUICK}"),
    "train(data)": Subject(f"train iql CartPole-v1 --data data.npz --steps 10 {QUICK}", (MAKE_RUN, MAKE_DATA)),
    "evaluate": Subject("evaluate run --episodes 1 --quiet", (MAKE_RUN,), to_gradient=False),
    "grpo": Subject(f"train grpo text:addition --num-envs 8 --steps 8 {QUICK}"),
}


class Entry(NamedTuple):
    """A call from one file into another."""

    caller: str  # the calling file; empty where a command or a thread begins
    file: str  # the file that is entered
    function: str


COUNT = "--count-in-this-process"
DIFFERENTIATED = ("value_and_grad_f", "grad_f")
"""Functions of `jax/_src/api.py` that return a gradient."""


def main() -> None:
    """Print the table, or the entries of one subject."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=SUBJECTS, metavar="SUBJECT", help="the entries of one subject, in order")
    parser.add_argument("--files", choices=SUBJECTS, metavar="SUBJECT", help="how often each of its files is entered")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="entries-") as folder:
        if asked := arguments.list or arguments.files:
            found = entries(SUBJECTS[asked], Path(folder))
            print(*(listed(found) if arguments.list else by_file(found)), sep="\n")
            return
        print(f"{'':12} {'files':>6} {'returns':>8} {'entries':>8}")
        for name, subject in SUBJECTS.items():
            files, returns = totals(found := entries(subject, Path(folder)))
            print(f"{name:12} {files:6} {returns:8} {len(found):8}", flush=True)


def entries(subject: Subject, folder: Path) -> list[Entry]:
    """Run a subject in a folder and return its entries, in order. What it needs is made once in a folder."""
    for command in subject.before:
        if not (made := folder / command.split()[-1 if "--directory" in command else -2]).exists():
            run([sys.executable, "-m", "forage", *command.split()], folder)
            assert made.exists()
    target = folder / "entries.json"
    child = [COUNT, str(target), str(int(subject.to_gradient)), *subject.command.split()]
    run([sys.executable, str(Path(__file__).resolve()), *child], folder, JAX_ENABLE_COMPILATION_CACHE="false")
    return [Entry(*entry) for entry in json.loads(target.read_text())]


def run(command: list[str], folder: Path, **more: str) -> None:
    """Run a command to its end, in a folder and with `more` environment variables; end the program if it fails."""
    cache = Path(tempfile.gettempdir()) / f"forage-entries-{os.getuid()}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": str(cache), **more}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}: {done.stderr.strip()}")


def count(target: Path, to_gradient: bool, words: list[str]) -> None:
    """Run `forage WORDS` in this process, write its entries to `target`, and exit."""
    counter = EntryCounter(target if to_gradient else None)
    wait_for_threads(counter)
    sys.argv = ["forage", *words]
    sys.path.pop(0)  # the folder of this script
    code: Any = 0
    threading.setprofile(counter)
    sys.setprofile(counter)
    try:
        runpy.run_module("forage", run_name="__main__", alter_sys=True)
    except SystemExit as stopped:
        code = stopped.code
    finally:
        sys.setprofile(None)
    if to_gradient:
        sys.exit("No gradient was reached.")
    counter.write(target)
    sys.exit(code)


class EntryCounter:
    """A profiler (`sys.setprofile`) that collects entries. With a `target` it writes them at a gradient, and exits."""

    def __init__(self, target: Path | None):
        self.target = target
        self.roots = {f"{Path(folder).resolve()}{os.sep}": name for name in PACKAGES for folder in folders(name)}
        self.files: dict[CodeType, str] = {}
        self.found: dict[Entry, None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "return" and self.target is not None and code.co_name in DIFFERENTIATED and is_of_jax(code):
            self.write(self.target)
            os._exit(0)
        if event != "call" or code.co_name == "<module>" or not (file := self.file(code)):
            return
        caller = frame.f_back
        while caller is not None and not self.file(caller.f_code):
            caller = caller.f_back
        came_from = "" if caller is None else self.file(caller.f_code)
        if came_from != file:
            self.found[Entry(came_from, file, code.co_qualname)] = None

    def file(self, code: CodeType) -> str:
        """Return a function's file, such as `forage/cli/train.py`; empty outside of the packages."""
        if code not in self.files:
            path = str(Path(code.co_filename).resolve())
            inside = [f"{name}/{path[len(root) :]}" for root, name in self.roots.items() if path.startswith(root)]
            self.files[code] = inside[0] if inside else ""
        return self.files[code]

    def write(self, target: Path) -> None:
        """Write the entries, in order."""
        target.write_text(json.dumps(list(self.found)))


def is_of_jax(code: CodeType) -> bool:
    """Return whether a function is of JAX's transformations."""
    return Path(code.co_filename).parts[-3:] == ("jax", "_src", "api.py")


def folders(package: str) -> list[str]:
    """Return the folders of a package, which is not imported for that; none if it is not installed."""
    found = importlib.util.find_spec(package)
    return list(found.submodule_search_locations or ()) if found else []


def wait_for_threads(counter: EntryCounter) -> None:
    """From now on, wait for each thread that a function of the packages runs in, until it ends or has nothing to do."""
    start, submit = threading.Thread.start, concurrent.futures.ThreadPoolExecutor.submit

    def is_counted(function: Any) -> bool:
        function = getattr(function, "func", function)
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        return code is not None and counter.file(code) != ""

    def start_and_wait(thread: Any) -> None:
        waits = is_counted(thread._target)
        start(thread)
        while waits and thread.is_alive():
            used = time.process_time()
            thread.join(2.0)
            if time.process_time() - used < 0.05:
                return

    def submit_and_wait(pool: Any, function: Any, /, *arguments: Any, **options: Any) -> Any:
        future = submit(pool, function, *arguments, **options)
        if is_counted(function):
            concurrent.futures.wait([future])
        return future

    threading.Thread.start = start_and_wait
    concurrent.futures.ThreadPoolExecutor.submit = submit_and_wait


def totals(found: list[Entry]) -> tuple[int, int]:
    """Return how many files the entries lead into, and how many of them are returns."""
    files = {entry.file for entry in found}
    return len(files), len(found) - len(files)


def listed(found: list[Entry]) -> list[str]:
    """Return a line for each entry; `*` marks a return."""
    lines, known = [], set()
    for caller, file, function in found:
        lines.append(f"{'*' if file in known else ' '} {caller or '(start)':45} {file}:{function}")
        known.add(file)
    return lines


def by_file(found: list[Entry]) -> list[str]:
    """Return a line for each file: the number of entries into it, and of files they come from; most entered first."""
    callers = defaultdict(set)
    for entry in found:
        callers[entry.file].add(entry.caller)
    ordered = Counter(entry.file for entry in found).most_common()
    return [f"{number:4} from {len(callers[file]):3}  {file}" for file, number in ordered]


if __name__ == "__main__":
    if sys.argv[1:2] == [COUNT]:
        count(Path(sys.argv[2]), sys.argv[3] == "1", sys.argv[4:])
    else:
        main()
