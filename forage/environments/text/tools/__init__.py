"""Tools that a text policy calls over many turns, and the parser of its calls.

A tool is any object with a `name`, a `description` and `call(text) -> Answer` (`tool.py`), or a person's function with
annotations and a docstring (`functions.py`). A `Toolbox` (`toolbox.py`)
finds the calls in a policy's text, asks the tools, and returns the text of their answers.
"""

from __future__ import annotations

from typing import Any

from forage.environments.text.named import make_part
from forage.environments.text.tools.tool import Tool

TOOLS = {
    "calculator": "calculator:Calculator",
    "sql": "database:Database",
    "search": "search:Search",
    "python": "python:Python",
}
"""By name: the module below this folder, and the class."""


def make_tool(name: str, **options: Any) -> Tool:
    """Return a tool by its name, with options of its class, or a person's own as `file.py:function`.

    Raise ForageError if there is none of that name.
    """
    if ":" in name:
        from forage.environments.text.tools.functions import own_tool

        return own_tool(name)
    return make_part("tool", TOOLS, __name__, name, options)
