"""Runs in a notebook: their HTML as the value of a cell, and progress that stays in place."""

from __future__ import annotations

import base64
import html
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from forage.runs.display import Progress, duration, finite_values, pace, shown_return

if TYPE_CHECKING:
    from forage.runs.run import Run


def in_notebook() -> bool:
    """Return whether this runs in a notebook's kernel, without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def run_html(run: Run) -> str:
    """Return a run in HTML: its title, its scores, and its curve as an embedded picture."""
    lines = [f"<b>{html.escape(run.title)}</b>, {len(run.config['seeds'])} seeds, {html.escape(run._state)}"]
    lines += [html.escape(line) for line in run._results]
    lines.append(f"<code>{html.escape(str(run.directory))}</code>")
    picture = run.directory / "curve.png"
    image = ""
    if picture.exists():
        data = base64.b64encode(picture.read_bytes()).decode()
        image = f'<img alt="learning curve" style="max-width: 640px" src="data:image/png;base64,{data}">'
    return f"<div>{'<br>'.join(lines)}<br>{image}</div>"


class Notebook(Progress):
    """A display in the cell's output: a bar, the return so far and its interval, speed and time left."""

    def __init__(self) -> None:
        self.title, self.total, self.handle = "", 1, None
        self.history: list[float] = []

    def start(self, title: str, lines: list[str], total: int) -> None:
        self.title, self.total = title, total
        print(*(f"  {line}" for line in lines), sep="\n", flush=True)
        self._show([title, "compiling ..."], 0)

    def update(self, row: dict[str, Any], seconds_left: float) -> None:
        steps = f"{row['steps']:,} / {self.total:,} steps, {pace(row)}, {duration(seconds_left)} left"
        said = shown_return(row["return"], self.settings) if len(finite_values(row["return"])) else ""
        sample = row["sample"].splitlines() if "sample" in row else []
        self._show([self.title, steps, f"{said} {self.curve()}".strip(), *sample], row["steps"])

    def row(self, row: dict[str, Any]) -> None:
        values = finite_values(row["return"])
        self.history.append(float(np.mean(values)) if len(values) else float("nan"))

    def curve(self) -> str:
        """Return the mean returns so far, as a line of text."""
        from forage.evaluation.plots import sparkline

        return sparkline(self.history, 40) if len(self.history) > 1 else ""

    def note(self, text: str) -> None:
        print(text, flush=True)

    def finish(self, result: dict[str, Any], lines: list[str]) -> None:
        print(*lines, sep="\n", flush=True)

    def _show(self, lines: list[str], steps: int) -> None:
        from IPython.display import HTML, display

        bar = f'<progress value="{steps}" max="{self.total}" style="width: 24em"></progress>'
        title, *rest = (html.escape(line) for line in lines if line)
        page = HTML("<br>".join([f"<b>{title}</b>", bar, *rest]))
        if self.handle is None:
            self.handle = display(page, display_id=True)
        else:
            self.handle.update(page)
