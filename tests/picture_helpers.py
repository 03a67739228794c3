"""Pictures of runs that tests do not look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock


def render_once(draw: Callable[[Any], Path]) -> Callable[[Any], Path]:
    """Return a function that draws a run's curve as `draw` does, and renders the first picture alone.

    The figure of each run is made. But to lay it out and to render it takes half the time of a small run, so that later
    runs of the process get a copy of the first picture.
    """
    from matplotlib.figure import Figure

    render, first = Figure.savefig, []

    def copy_picture(figure: Figure, path: Path) -> None:
        if first:
            path.write_bytes(first[0])
        else:
            render(figure, path)
            first.append(path.read_bytes())

    def draw_run(run: Any) -> Path:
        with mock.patch.object(Figure, "savefig", copy_picture):
            return draw(run)

    return draw_run
