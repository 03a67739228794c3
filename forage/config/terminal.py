"""Text in as many columns as the terminal has. Loads no large module."""

from __future__ import annotations

import shutil
import textwrap


def columns() -> int:
    """Return the number of columns to fill: the terminal's, 120 at most."""
    return min(120, shutil.get_terminal_size((100, 24)).columns)


def filled(left: str, text: str) -> str:
    """Return text in whole words, wrapped to the terminal, with `left` before its first line."""
    return textwrap.fill(
        text, columns(), initial_indent=left + " ", subsequent_indent=" " * (len(left) + 1), break_on_hyphens=False
    )
