"""Displays of a run in training: live, plain lines, JSON lines, or none."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from textwrap import indent
from typing import Any

import numpy as np

from forage.core import streams
from forage.core.errors import ForageError
from forage.core.plain import dumps
from forage.evaluation.plots import sparkline
from forage.evaluation.statistics import Ends, interquartile_mean, score


class Progress:
    """A display without output (`--quiet`), and the base class of the others."""

    settings = 1
    """The number of settings of a sweep. Lists over seeds have all seeds of one setting, then those of the next."""

    def start(self, title: str, lines: list[str], total: int) -> None:
        """Start the display. Called once, before the first step."""

    def update(self, row: dict[str, Any], seconds_left: float) -> None:
        """Show the newest numbers, each a list over seeds. Called about once a second.

        Unless the run learns from a data set, `newest` has the mean return of each seed's last episodes, and
        `quiet_since` the step since which no episode has ended, if that is long ago. If episodes are text, `sample` is
        the newest one.
        """

    def row(self, row: dict[str, Any]) -> None:
        """Show a point of the curve. Called at each of them."""

    def note(self, text: str) -> None:
        """Show a message to the user above the display."""

    def stop(self) -> None:
        """Stop the display. Called once, however the run ends."""

    def finish(self, result: dict[str, Any], lines: list[str]) -> None:
        """Show the result of a complete run. Called after `stop`."""


class Notes(Progress):
    """A display of the notes alone, on standard error: for scripts with output of their own."""

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Plain(Progress):
    """A line at every tenth of the run, and at least one a minute: for logs and pipes."""

    def __init__(self) -> None:
        self.total, self.shown, self.when = 1, -1, 0.0

    def start(self, title: str, lines: list[str], total: int) -> None:
        self.total, self.when = total, time.monotonic()
        print("\n  ".join([title, *lines]), flush=True)

    def row(self, row: dict[str, Any]) -> None:
        tenth = 10 * row["steps"] // self.total
        if tenth > self.shown or time.monotonic() - self.when > 60:
            self.shown, self.when = tenth, time.monotonic()
            print(f"  {row['steps']:>12,} steps   {summary(row, self.settings)}", flush=True)
            if "sample" in row:
                print(indent(row["sample"], " " * 21), flush=True)

    def note(self, text: str) -> None:
        print(text, flush=True)

    def finish(self, result: dict[str, Any], lines: list[str]) -> None:
        print("\n".join(lines), flush=True)


class Json(Progress):
    """One JSON object a line: each point of the curve, then the result."""

    def row(self, row: dict[str, Any]) -> None:
        print_json({"event": "row"} | {name: value for name, value in row.items() if name not in SHOWN})

    def note(self, text: str) -> None:
        print_json({"event": "note", "text": text})

    def finish(self, result: dict[str, Any], lines: list[str]) -> None:
        print_json({"event": "result", **result})


_out: list[Any] = []


def print_json(data: dict[str, Any]) -> None:
    """Print one line of JSON. Raise `OutputLost` if standard output takes no more."""
    out = _out[-1] if _out else None
    try:
        print(dumps(data), file=out, flush=True)
    except BrokenPipeError:
        streams.silence(out)
        raise
    except OSError as error:
        streams.silence(out)
        raise streams.OutputLost(f"{streams.describe_loss(error)}.") from error


@contextlib.contextmanager
def json_alone() -> Iterator[None]:
    """Reserve standard output for `print_json`; other prints, those of environments too, go to standard
    error.
    """
    out, kept = sys.stdout, None
    if out is sys.__stdout__:  # otherwise output is captured, as in tests, and only from this process
        kept = os.dup(1)
        out = os.fdopen(os.dup(1), "w")  # the copy that others hold stays open, and closes as they expect
        os.dup2(2, 1)
    _out.append(out)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _out.pop()
        if kept is not None:
            out.close()
            os.dup2(kept, 1)
            os.close(kept)


class Live(Progress):
    """A display that stays in place: the return so far and its interval, speed, time left and learning metrics."""

    def __init__(self, console: Any = None) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self.console = console or Console()
        self.live = RichLive(console=self.console, refresh_per_second=8, transient=False)
        self.title, self.total = "", 1
        self.history: list[float] = []

    def start(self, title: str, lines: list[str], total: int) -> None:
        from rich.text import Text

        self.title, self.total = title, total
        for line in lines:
            self.console.print(f"  {line}", style="dim", highlight=False, markup=False)
        self.live.start()
        self.live.update(Text.assemble((title, "bold"), "\n  compiling ..."))

    def update(self, row: dict[str, Any], seconds_left: float) -> None:
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        head = Table.grid(padding=(0, 2))
        head.add_row(
            ProgressBar(total=self.total, completed=row["steps"], width=30),
            f"{row['steps']:,} / {self.total:,} steps",
            pace(row),
            f"{duration(seconds_left)} left",
        )
        lines: list[Any] = [Text(self.title, style="bold"), Padding(head, (0, 0, 0, 2))]
        if "newest" in row:
            what, _, since = returns(row, self.settings).removeprefix("return ").partition("; ")
            lines.append(Text.assemble("  return  ", (what, "bold green"), f"   {since}   {self.curve()}"))
        shown = [
            f"{name.replace('_', ' ')} {np.mean(finite_values(row[name])):.3g}"
            for name in row
            if name not in NOT_METRICS and len(finite_values(row[name]))
        ]
        lines.append(Text("  " + "   ".join(shown[:6]), style="dim"))
        if "sample" in row:
            lines.append(Padding(Text(row["sample"]), (1, 0, 0, 2)))
        self.live.update(Group(*lines))

    def curve(self) -> str:
        return sparkline(self.history, 40) if len(self.history) > 1 else ""

    def row(self, row: dict[str, Any]) -> None:
        values = best_setting(row.get("newest", []), self.settings)
        self.history.append(float(np.mean(values)) if len(values) else float("nan"))

    def note(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False)

    def stop(self) -> None:
        self.live.stop()

    def finish(self, result: dict[str, Any], lines: list[str]) -> None:
        for line in lines:
            self.console.print(line, highlight=False, markup=False)


class Steady(Progress):
    """A display that drops its lines once standard output fails, with a notice, so that the run continues."""

    def __init__(self, inner: Progress):
        self.inner, self.over = inner, False

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the number of settings of the inner display too."""
        super().__setattr__(name, value)
        if name == "settings":
            self.inner.settings = value

    def _call(self, name: str, *given: Any) -> None:
        if self.over:
            return
        call = getattr(self.inner, name)
        try:
            try:
                call(*given)
            except UnicodeEncodeError:
                with streams.replacing_unknown(sys.stdout):
                    call(*given)
        except (OSError, ValueError, streams.OutputLost) as error:
            if isinstance(error, ValueError) and not getattr(sys.stdout, "closed", False):
                raise
            self.over = True
            why = str(error).rstrip(".") if isinstance(error, ForageError) else streams.describe_loss(error)
            streams.tell(f"{why}; the run goes on without its lines.")

    def start(self, title: str, lines: list[str], total: int) -> None:
        self._call("start", title, lines, total)

    def update(self, row: dict[str, Any], seconds_left: float) -> None:
        self._call("update", row, seconds_left)

    def row(self, row: dict[str, Any]) -> None:
        self._call("row", row)

    def note(self, text: str) -> None:
        if not self.over:
            self._call("note", text)
            return
        with contextlib.suppress(OSError, ValueError):  # a note is useful without the other lines
            print(text, file=sys.stderr, flush=True)

    def stop(self) -> None:
        self._call("stop")

    def finish(self, result: dict[str, Any], lines: list[str]) -> None:
        self._call("finish", result, lines)


class Waiting:
    """A progress message on standard error for a long command: one rewritten line on a terminal, else a few lines.

    >>> with Waiting() as tell:
    ...     tell("100 of 5,000 updates")  # no output yet: a short command is silent
    """

    def __init__(self, kind: str = "auto"):
        self.silent = kind in ("quiet", "json")
        self.live = streams.is_terminal(sys.stderr)
        self.every = 0.2 if self.live else 10.0  # seconds
        self.next = time.monotonic() + (1.0 if self.live else 10.0)

    def __enter__(self) -> Waiting:
        return self

    def __call__(self, said: str) -> None:
        if self.silent or time.monotonic() < self.next:
            return
        self.next = time.monotonic() + self.every
        self._print(f"\r{said}\033[K" if self.live else f"{said}\n")

    def __exit__(self, *error: object) -> None:
        """Clear the rewritten line."""
        if self.live and not self.silent:
            self._print("\r\033[K")

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the command matters more than its progress
            print(text, end="", file=sys.stderr, flush=True)


SHOWN = {"newest", "quiet_since", "sample", "within"}
"""Columns of a row that only displays use."""

NOT_METRICS = {"steps", "seconds", "steps_per_second", "return", "length", "episodes", "updates", *SHOWN}


def make_display(kind: str | Progress) -> Progress:
    """Return a display by its kind: `live`, `notebook`, `plain`, `json`, `notes`, `quiet`, or the user's own.

    `auto` is `notebook` in a notebook, `live` on a terminal, else `plain`.
    """
    from forage.runs.notebook import Notebook, in_notebook

    if isinstance(kind, Progress):
        return kind
    if kind == "auto":
        kind = "notebook" if in_notebook() else "live" if streams.is_terminal(sys.stdout) else "plain"
    kinds = {"live": Live, "notebook": Notebook, "plain": Plain, "json": Json, "notes": Notes, "quiet": Progress}
    if kind not in kinds:
        raise ForageError(f"A display is auto, {', '.join(kinds)}, not {kind!r}.")
    if kind == "notebook" and not in_notebook():
        raise ForageError("The display notebook is for a notebook's kernel; live is for a terminal.")
    return kinds[kind]()


def make_steady(kind: str | Progress) -> Progress:
    """Return a display as `make_display` does that survives the loss of standard output; a user's own is unchanged."""
    from forage.runs.notebook import Notebook

    display = make_display(kind)
    return Steady(display) if type(display) in (Live, Notebook, Plain, Json, Notes) else display


def finite_values(values: Any) -> np.ndarray:
    """Return the finite numbers of a list that may hold `None` for missing values."""
    array = np.array([np.nan if v is None else v for v in np.atleast_1d(np.array(values, object))], float)
    return array[np.isfinite(array)]


def summary(row: dict[str, Any], settings: int = 1) -> str:
    """Return the return of the newest episodes and the speed, in a line."""
    return f"{returns(row, settings)}   {pace(row)}" if "newest" in row else pace(row)


def returns(row: dict[str, Any], settings: int = 1) -> str:
    """`return 483 [471, 490] (5 seeds); none has ended since step 90,000`."""
    since = row["quiet_since"]
    said = shown_return(row["newest"], settings, row.get("within")) if len(finite_values(row["newest"])) else ""
    if since is None:
        return said
    return f"{said}; none has ended since step {since:,}" if said else f"no episode has ended since step {since:,}"


def shown_return(values: Sequence[float | None], settings: int = 1, within: Ends | None = None) -> str:
    """Return `return 483 [471, 490] (5 seeds)`; of a sweep the best setting's, and that it was selected."""
    best = best_setting(values, settings)
    selected = f", the best of {settings} settings, selected by this score, which flatters it" if settings > 1 else ""
    return f"return {score(best, within=within)}{selected}"


def best_setting(values: Sequence[float | None], settings: int) -> np.ndarray:
    """Return the values of the best setting's seeds without the missing ones; empty if no setting has a value."""
    groups = [finite_values(group) for group in np.array_split(np.array(values, object), settings)]
    return max((group for group in groups if len(group)), key=interquartile_mean, default=np.zeros(0))


def pace(row: dict[str, Any]) -> str:
    """Return the steps a second over all seeds, or `compiled` for a chunk that compiled, which is not timed."""
    speed = row["steps_per_second"]
    return "compiled" if speed is None else f"{speed:,.0f} steps/s"


def duration(seconds: float) -> str:
    """`4 s`, `3 min 20 s`, `2 h 5 min`."""
    if not np.isfinite(seconds):
        return "?"
    minutes, seconds = divmod(int(seconds), 60)
    if minutes < 1:
        return f"{seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
