"""Texts by name: ids, and options as a run keeps them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forage.core.errors import ForageError, nearest
from forage.core.loading import full_target, load_named, target_name
from forage.core.text import named
from forage.core.text.tokenizer import Tokenizer
from forage.environments.text import FAMILIES, worlds
from forage.environments.text.games import GAMES
from forage.environments.text.opening import GYM, family, is_own, mixed_families
from forage.environments.text.own import prompts
from forage.environments.text.tools.native import Native, native_form


def find_native(name: str, tokenizer: Tokenizer, chat: bool, calls: str) -> Native | None:
    """Return the form of calls of the chat template, or `None` for Forage's own."""
    if calls not in ("", "template", "forage"):
        raise ForageError(f"The calls of {name} are in the form of the template or of forage, not {calls!r}.")
    found = native_form(tokenizer) if chat and calls != "forage" else None
    if calls == "template" and found is None:
        raise ForageError(
            f"The chat template of {name} writes no calls of tools that Forage reads, or none is used; "
            f"--env.calls forage works with any."
        )
    return found


def tool_target(tool: Any) -> str:
    """Return the name of a tool, or `file.py:function` of a person's function."""
    if isinstance(tool, str):
        return full_target(tool.strip())
    target = target_name(tool) if callable(tool) else None
    if target is None:
        raise ForageError(
            f"A tool is a name, or a function or class of a file, which other processes import, and {tool!r:.80} is "
            f"neither."
        )
    return full_target(target)


def today(tokenizer: Tokenizer) -> str | None:
    """Return the present date if a tokenizer's template may write it."""
    return datetime.date.today().isoformat() if "strftime_now" in (tokenizer.template or "") else None


def complete_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a run keeps them: functions by their names, and the date that a chat template writes."""
    found = dict(options)
    tools = found.get("tools") or ()
    tools = tools.split(",") if isinstance(tools, str) else tools
    targets = [tool_target(tool) for tool in tools]
    if targets != list(tools) or any(":" in target for target in targets):
        found["tools"] = targets
    for target in targets:
        if ":" in target:
            load_named(target)  # while it is known whose words they are
    if isinstance(rows := found.get("rows"), str):
        found["rows"] = str(Path(rows).expanduser().resolve())
    if found.get("chat") and not found.get("date"):
        date = today(named.tokenizer(found.get("tokenizer", named.FORAGE)))
        found |= {} if date is None else {"date": date}
    return found


def levels_of(name: str, level: int | str) -> tuple[int, int]:
    """Return the first and the last level of `0` or `0-3`."""
    first, _, last = str(level).partition("-")
    if not (first.isdigit() and (last or "0").isdigit() and int(first) <= int(last or first)):
        raise ForageError(f"The level of {name} is a whole number or two of them, as in 0-3, and not {level!r}.")
    return int(first), int(last or first)


def ids() -> dict[str, str]:
    """Return the families and games, with a description of each."""
    found = {name: (family(name).__doc__ or "").split("\n")[0] for name in FAMILIES}
    return found | {name: (type(worlds.games.make_game(name)).__doc__ or "").split("\n")[0] for name in GAMES}


def canonical(id: str) -> str:
    """Return an id in its proper spelling. Raise `ForageError` for an unknown id."""
    if id.lower().startswith(GYM) and not mixed_families(id):
        return id
    if prompts.is_file(id):
        return prompts.full_path(id)
    if parts := mixed_families(id):
        return "+".join(map(canonical, parts))
    if is_own(id):
        return full_target(id)
    if id.lower() not in {**FAMILIES, **GAMES}:
        raise ForageError(f"There is no text {id!r}{nearest(id.lower(), {**FAMILIES, **GAMES})}")
    return id.lower()
