"""The training of a study's cells: one process after another, several at once, or tasks of a Ray cluster.

Each process walks over all cells, takes those whose lock is free, and waits for those of others. The system releases
the lock of a process that dies, and another one continues that cell from its checkpoint.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from forage.core import records
from forage.core.errors import ForageError, RunInterrupted
from forage.loop.cluster.actors import connect_ray
from forage.runs import training
from forage.runs.display import duration
from forage.runs.listing import is_done
from forage.runs.locking import DirectoryInUse, try_lock
from forage.runs.run import Run, write_json
from forage.studies.study.design import Cell, read_design

POLL = 1.0  # seconds between looks at the cells of other processes
LOCKS = "locks"
Note = Callable[[str], None]


class Work(NamedTuple):
    """The way in which one process trains cells."""

    display: str = "quiet"  # of each run
    anyway: bool = False  # continue runs of other code or versions
    note: Note = lambda text: None


def train_cells(cells: Sequence[Cell], directory: Path, work: Work) -> dict[str, str]:
    """Train all cells that no other process trains, and wait for the rest. Return the failed ones, with the reasons.

    A cell that fails is not tried again by a process that was there when it failed.
    """
    began = time.time()
    while True:
        failed = {cell.key: why for cell in cells if (why := failure(directory, cell, began))}
        left = [cell for cell in cells if cell.key not in failed and not is_complete(directory / cell.key)]
        if not left:
            return failed
        took = False
        for cell in left:
            with try_lock(lock_place(directory, cell)) as free:
                if free and not is_complete(directory / cell.key) and not failure(directory, cell, began):
                    took = train_one(cell, cells, directory, work) or took
        if not took:
            pause()


def pause() -> None:
    """Wait before the next look at cells of other processes."""
    time.sleep(POLL)


def train_one(cell: Cell, cells: Sequence[Cell], directory: Path, work: Work) -> bool:
    """Train or resume one of the cells; note its score, or store its failure. Return whether it was free."""
    started = time.monotonic()
    try:
        run = train_cell(cell, directory / cell.key, work)
    except RunInterrupted:
        raise
    except DirectoryInUse:  # forage resume, by hand
        return False
    except ForageError as error:
        write_json(lock_place(directory, cell) / "failed.json", {"at": time.time(), "why": str(error)})
        work.note(f"  {progress_text(cells, directory)} {cell}: {error}")
        return True
    progress, seconds = progress_text(cells, directory), time.monotonic() - started
    work.note(f"  {progress} {cell}: return {run.score} in {duration(seconds)}")
    return True


def train_cell(cell: Cell, place: Path, work: Work) -> Run:
    """Train the run of a cell, or resume it from its newest checkpoint."""
    if Run.begun(place):
        return training.resume(place, display=work.display, anyway=work.anyway)
    return training.start_run(cell.arguments() | {"directory": str(place), "display": work.display})


def is_complete(place: Path) -> bool:
    """Return whether the run of a cell has its final score."""
    if not (place / "evaluation.json").exists():
        return False
    return is_done(place, records.read_config(place), records.read_evaluation(place))


def failure(directory: Path, cell: Cell, since: float) -> str:
    """Return the reason why a cell failed after a time; empty if it did not."""
    path = lock_place(directory, cell) / "failed.json"
    if not path.exists():
        return ""
    found = records.read_record(path)
    return str(found.get("why", "")) if found.get("at", 0.0) >= since else ""


def lock_place(directory: Path, cell: Cell) -> Path:
    """Return the directory whose lock a process holds as it trains a cell."""
    return directory / LOCKS / cell.key.removeprefix("runs/").replace("/", "--")


def progress_text(cells: Sequence[Cell], directory: Path) -> str:
    """Return the number of complete cells and of all, such as `[3/30]`."""
    return f"[{sum(is_complete(directory / cell.key) for cell in cells)}/{len(cells)}]"


# Several processes


@contextmanager
def helpers(directory: Path, number: int, anyway: bool, note: Note) -> Iterator[None]:
    """Start other processes that train cells of a study. They end with their work, or with this process."""
    command = [
        sys.executable,
        "-m",
        "forage.studies.study.running",
        str(directory),
        str(os.getpid()),
        *("anyway" * anyway,),
    ]
    started = []
    for index in range(number):
        log = (directory / LOCKS / f"process-{index + 1}.log").open("w")
        with log:
            started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    try:
        yield
    except BaseException:
        end_processes(started)
        raise
    for index, process in enumerate(started):
        if code := process.wait():
            note(f"  Process {index + 1} of this study ended with code {code}; see {LOCKS}/process-{index + 1}.log.")


def end_processes(started: Iterable[subprocess.Popen[bytes]]) -> None:
    """Interrupt processes, so that they save their runs; kill those that do not end."""
    for process in started:
        process.terminate()
    for process in started:
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()
        process.wait()


def follow_parent(parent: int) -> None:
    """End this process once its parent is gone, as after a kill; the runs continue from their checkpoints."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def work_on(directory: str, anyway: bool = False) -> dict[str, str]:
    """Train cells of the study in a directory, as one of several processes. Return the failed ones."""
    training.use_compilation_cache()
    return train_cells(read_design(directory).cells(), Path(directory), Work(anyway=anyway))


def train_on_ray(directory: Path, number: int, anyway: bool) -> None:
    """Train the cells of a study in tasks of a Ray cluster, all of whose machines see the directory."""
    ray: Any = connect_ray()
    task = ray.remote(max_retries=0)(work_on)
    asked = [task.remote(str(directory.resolve()), anyway) for _ in range(number)]
    while asked:
        ready, asked = ray.wait(asked)
        try:
            ray.get(ready)
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ForageError(
                f"A task of the Ray cluster failed: {reason}; the same command continues the study."
            ) from None


def run_cells(cells: Sequence[Cell], directory: Path, jobs: int | str, work: Work) -> dict[str, str]:
    """Train all cells of a study, with this many processes. Return the failed ones, with the reasons.

    `jobs`: a number of processes on this machine, this one among them, or `ray:N`, tasks of a Ray cluster.
    """
    (directory / LOCKS).mkdir(parents=True, exist_ok=True)
    number, on_ray = parse_jobs(jobs)
    if on_ray:
        began = time.time()
        train_on_ray(directory, number, work.anyway)
        return {cell.key: why for cell in cells if (why := failure(directory, cell, began))}
    # Each process on a GPU would else take three quarters of its memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.75 / number:.3f}")
    with helpers(directory, number - 1, work.anyway, work.note):
        return train_cells(cells, directory, work)


def parse_jobs(jobs: int | str) -> tuple[int, bool]:
    """Return the number of processes, and whether they are tasks of a Ray cluster."""
    kind, colon, text = str(jobs).rpartition(":")
    if text.isdecimal() and int(text) >= 1 and (kind == "ray" or not colon):
        return int(text), kind == "ray"
    raise ForageError(f"Jobs are a number of processes, such as 4, or ray:4 for tasks of a Ray cluster; not {jobs!r}.")


def main() -> None:
    """Train cells as a process that another one started."""
    threading.Thread(target=follow_parent, args=(int(sys.argv[2]),), daemon=True).start()
    try:
        work_on(sys.argv[1], "anyway" in sys.argv[3:])
    except ForageError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
