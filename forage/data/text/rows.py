"""Rows of text by their kind: the kinds of TRL 1.16, with the same columns.

| kind | columns | learned from by |
|---|---|---|
| `messages` | `messages`, or `conversations` | supervised fine-tuning |
| `text` | `text` | supervised fine-tuning |
| `completion` | `prompt`, `completion` | supervised fine-tuning |
| `preference` | `chosen`, `rejected`, with `prompt` or without: the beginning of both | preferences, rewards |
| `label` | `prompt`, `completion`, `label` | preferences without pairs |
| `scored` | `prompt`, `completion`, `reward` | rewards of recorded answers |
| `steps` | `prompt`, `completions`, `labels` | rewards of steps |
| `prompt` | `prompt` | agents that write their own answers |

`prompt`, `completion`, `chosen` and `rejected` are texts, or messages. `tools` and `chat_template_kwargs` go to the
chat template; all other columns are kept as they are.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from forage.core.types import ForageError
from forage.data.text.source import RawRow, raw_rows

KINDS: dict[str, tuple[str, ...]] = {
    "label": ("prompt", "completion", "label"),
    "steps": ("prompt", "completions", "labels"),
    "scored": ("prompt", "completion", "reward"),
    "preference": ("chosen", "rejected"),
    "completion": ("prompt", "completion"),
    "messages": ("messages",),
    "text": ("text",),
    "prompt": ("prompt",),
}
"""The columns of each kind, the kind with the most first."""
ROLES = ("system", "developer", "user", "assistant", "tool")
FORMER_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant"}
"""Roles of messages with `from` and `value`, by those of today."""
TOLD = 5  # faults that one error names
LABELS = {"true": True, "1": True, "false": False, "0": False}
Messages = list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class TextRows:
    """The rows of one kind of a file of text."""

    kind: str  # one of `KINDS`
    rows: list[dict[str, Any]]
    places: list[str]  # of each row, as a message names it: line 12
    source: str  # of messages: the file's path

    @property
    def others(self) -> list[str]:
        """Return the names of the columns that the kind does not need, in the order of the first row."""
        own = {*KINDS[self.kind], "prompt", "tools", "chat_template_kwargs"}
        return [name for name in self.rows[0] if name not in own]

    @property
    def conversational(self) -> bool:
        """Return whether the texts of the kind are messages."""
        return self.kind == "messages" or (
            self.kind != "text" and isinstance(self.rows[0][texts_of(self.kind)[0]], list)
        )


def read_rows(
    source: str | os.PathLike[str] | Iterable[Mapping[str, Any]], kinds: Sequence[str], reader: str = "This run"
) -> TextRows:
    """Read all rows of a file, a directory or a list, of the first of these kinds whose columns the first row has.

    Args:
        source: A path as `forage.data.text.source` reads it, or the rows themselves.
        kinds: Names in `KINDS`, in order of preference.
        reader: The beginning of a sentence that refuses another kind.

    Raise `ForageError` with the first few faults, each with its place.
    """
    if isinstance(source, str | os.PathLike):
        name, raw = str(source), list(raw_rows(Path(source).expanduser()))
    else:
        name, raw = "The data", [RawRow(f"row {i}", row_fields(row)) for i, row in enumerate(source)]
    if not raw:
        raise ForageError(f"{name} has no rows.")
    first = next((row.fields for row in raw if not isinstance(row.fields, str)), None)
    kind = None if first is None else kind_of_row(first, kinds)
    if first is not None and kind is None:
        raise wrong_kind(name, first, kinds, reader)
    rows: list[dict[str, Any]] = []
    faults = []
    form: type | None = None  # of the first row's texts, which is that of all
    for place, fields in raw:
        if isinstance(fields, str):
            faults.append(f"{place} {fields}")
            continue
        assert kind is not None
        row, fault = check_row(fields, kind)
        if not fault and kind != "messages" and kind != "text":
            found = type(row[texts_of(kind)[0]])
            form = form or found
            fault = "" if found is form else f"has {WORDS[found]}, and the first row {WORDS[form]}"
        if fault:
            faults.append(f"{place} {fault}")
        else:
            rows.append(row)
    if faults:
        more = f"; and {len(faults) - TOLD:,} more" if len(faults) > TOLD else ""
        many = f"{len(faults):,} rows that cannot be read" if len(faults) > 1 else "a row that cannot be read"
        raise ForageError(f"{name} has {many}: {'; '.join(faults[:TOLD])}{more}. Mend or remove them.")
    assert kind is not None
    return TextRows(kind, rows, [row.place for row in raw], name)


WORDS = {str: "a text", list: "messages"}


def write_rows(path: str | os.PathLike[str], rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as JSONL, and return the path."""
    found = Path(path).expanduser()
    found.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return found


def row_fields(row: Any) -> Mapping[str, Any] | str:
    return row if isinstance(row, Mapping) else f"is no dictionary but a {type(row).__name__}"


def texts_of(kind: str) -> tuple[str, ...]:
    """Return the columns of a kind that are texts or messages."""
    return tuple(name for name in KINDS[kind] if name not in ("label", "labels", "reward", "completions"))


def kind_of_row(fields: Mapping[str, Any], kinds: Sequence[str]) -> str | None:
    """Return the first of the kinds whose columns a row has; `None` if it is of none."""
    named = {"messages" if name == "conversations" else name for name in fields}
    return next((kind for kind in kinds if named.issuperset(KINDS[kind])), None)


def wrong_kind(name: str, fields: Mapping[str, Any], kinds: Sequence[str], reader: str) -> ForageError:
    """Return the error for a file of another kind, with the agents that learn from it."""
    wanted = " or ".join(" and ".join(KINDS[kind]) for kind in kinds)
    found = kind_of_row(fields, tuple(KINDS))
    learners = {
        "preference": "dpo, orpo or reward-model learn",
        "label": "kto learns",
        "scored": "reward-weighted, oreo and sft learn",
        "steps": "process-reward learns",
        "completion": "sft learns",
        "messages": "sft learns",
        "text": "sft learns",
        "prompt": "grpo learns",
    }
    hint = f"; {learners[found]} from such rows" if found is not None else ""
    have = ", ".join(map(str, fields)) or "no columns"
    return ForageError(f"{reader} learns from rows with {wanted}, and those of {name} have {have}{hint}.")


def check_row(fields: Mapping[str, Any], kind: str) -> tuple[dict[str, Any], str]:
    """Return a row in its proper form, and its first fault, empty if it has none."""
    row = dict(fields)
    if kind == "messages" and "messages" not in row and "conversations" in row:
        row["messages"] = row.pop("conversations")
    for name in KINDS[kind]:
        if row.get(name) is None:
            return row, f"has no {name}"
    if fault := check_template_columns(row):
        return row, fault
    implicit = kind == "preference" and row.get("prompt") is None
    if implicit:
        row.pop("prompt", None)
    names = (*texts_of(kind), *(("prompt",) if kind == "preference" and not implicit else ()))
    for name in names:
        row[name], fault = check_text(row[name], name, only_messages=name == "messages", only_text=name == "text")
        if fault:
            return row, fault
    forms = {type(row[name]) for name in names}
    if len(forms) > 1:
        mixed = ", ".join(f"{WORDS[type(row[name])]} as {name}" for name in names)
        return row, f"has {mixed}; all are texts or all are messages"
    return finish_row(row, kind, implicit)


def finish_row(row: dict[str, Any], kind: str, implicit: bool) -> tuple[dict[str, Any], str]:
    """Return a row after the checks of its kind, with the prompt of a preference that has none."""
    if kind == "preference":
        row = extract_prompt(row) if implicit else row
        if not row["chosen"] or not row["rejected"]:
            return row, "has a chosen and a rejected answer of which one begins the other, and no prompt"
        if row["chosen"] == row["rejected"]:
            return row, "has the same answer as chosen and as rejected"
    if kind == "label":
        given = row["label"]
        label = LABELS.get(str(given).lower()) if isinstance(given, str | int) else None
        if label is None:
            return row, f"has the label {given!r}, which is neither true nor false"
        row["label"] = label
    if kind == "scored":
        given = row["reward"]
        if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
            return row, f"has the reward {given!r}, which is no number"
    if kind == "steps":
        return row, check_steps(row)
    for name in ("completion", "chosen", "rejected", "messages"):
        given = row.get(name) if name in KINDS[kind] else None
        if isinstance(given, list) and not any(one["role"] == "assistant" for one in given):
            return row, f"has no message of the assistant in {name}"
    return row, ""


def check_steps(row: dict[str, Any]) -> str:
    """Return the fault of a row of steps with labels; make its labels true or false."""
    steps, labels = row["completions"], row["labels"]
    if not (isinstance(steps, list) and steps and all(isinstance(one, str) and one for one in steps)):
        return "has completions that are no list of texts"
    if not isinstance(labels, list) or len(labels) != len(steps):
        return f"has {len(steps)} completions and another number of labels"
    known = [LABELS.get(str(one).lower()) for one in labels]
    if None in known:
        return "has labels that are neither true nor false"
    row["labels"] = known
    return ""


def check_template_columns(row: dict[str, Any]) -> str:
    """Return the fault of the columns that go to the chat template; parse tools that are written as JSON."""
    tools, more = row.get("tools"), row.get("chat_template_kwargs")
    if isinstance(tools, str):
        try:
            row["tools"] = tools = json.loads(tools) if tools.strip() else None
        except ValueError:
            return "has tools that are no JSON"
    if tools is not None and not (isinstance(tools, list) and all(isinstance(one, Mapping) for one in tools)):
        return "has tools that are no list of schemas"
    if isinstance(more, str):
        try:
            row["chat_template_kwargs"] = more = json.loads(more) if more.strip() else None
        except ValueError:
            return "has chat_template_kwargs that are no JSON"
    if more is not None and not isinstance(more, Mapping):
        return "has chat_template_kwargs that are no dictionary"
    return ""


def check_text(value: Any, name: str, only_messages: bool, only_text: bool) -> tuple[Any, str]:
    """Return a text or messages in their proper form, and the fault, empty if there is none."""
    if isinstance(value, str) and not only_messages:
        return value, "" if value.strip() else f"has an empty {name}"
    if isinstance(value, list | tuple) and not only_text:
        return check_messages(value, name)
    wanted = "no text" if only_text else "no list of messages" if only_messages else "neither a text nor messages"
    return value, f"has {wanted} as {name}"


def check_messages(messages: Sequence[Any], name: str) -> tuple[Messages, str]:
    """Return messages with `role` and `content`, and the fault, empty if there is none."""
    if not messages:
        return [], f"has no message in {name}"
    found: Messages = []
    for message in messages:
        if not isinstance(message, Mapping):
            return found, f"has a message in {name} that is no dictionary"
        said = {key: value for key, value in message.items() if value is not None}
        if "role" not in said and "from" in said:
            said["role"], said["content"] = said.pop("from"), said.pop("value", "")
            said["role"] = FORMER_ROLES.get(said["role"], said["role"])
        if "role" not in said:
            return found, f"has a message without a role in {name}"
        if said["role"] not in ROLES:
            return found, f"has a message of the role {said['role']!r} in {name}; roles are {', '.join(ROLES)}"
        calls = bool(said.get("tool_calls"))
        content = said.get("content", "" if calls else None)
        parts = isinstance(content, list) and all(
            isinstance(one, Mapping) and one.get("type") == "text" and isinstance(one.get("text"), str)
            for one in content
        )
        if not (isinstance(content, str) or parts):
            return found, f"has a message of the {said['role']} in {name} whose content is no text"
        empty = not content.strip() if isinstance(content, str) else not content
        if empty and not calls and said["role"] in ("user", "assistant"):
            return found, f"has an empty message of the {said['role']} in {name}"
        found.append({**said, "content": content})
    return found, ""


def extract_prompt(row: dict[str, Any]) -> dict[str, Any]:
    """Return a preference with its prompt: the common beginning of chosen and rejected.

    Of texts a space before the first difference belongs to the answers, as in TRL's `extract_prompt`.
    """
    chosen, rejected = row["chosen"], row["rejected"]
    shorter = min(len(chosen), len(rejected))
    at = next((i for i in range(shorter) if chosen[i] != rejected[i]), shorter)
    if at and at < shorter and chosen[at - 1] == " ":
        at -= 1
    return {**row, "prompt": chosen[:at], "chosen": chosen[at:], "rejected": rejected[at:]}
