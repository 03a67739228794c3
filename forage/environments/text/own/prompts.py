"""Prompts of a person's own, from the rows of a file: their answers, and calls of tools before, are judged by reward
functions.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from forage.core.errors import ForageError, warn
from forage.core.text.dialogue import Dialogue, add_words
from forage.data.text.rows import read_rows
from forage.data.text.source import SUFFIXES
from forage.environments.text.form import Context, Form
from forage.environments.text.games.game import EXECUTED
from forage.environments.text.sets import SPLITS
from forage.environments.text.tools.toolbox import Toolbox
from forage.environments.text.worlds import TOOL_TURNS, Start, World, WorldReply

NO_COLUMNS = ("prompt", "completion", "completion_ids")
"""Columns that reward functions do not get as such: they have the prompts and the completions."""


def is_file(target: str) -> bool:
    """Return whether the target of a text is a file or a directory of rows, and no name."""
    path = Path(target)
    if ".py:" in target:  # a class, however its folder is named
        return False
    return path.suffix.lower() in SUFFIXES or os.sep in target.partition(":")[0] or path.is_dir()


def full_path(target: str) -> str:
    """Return the whole path of a file of rows."""
    return str(Path(target).expanduser().resolve())


@dataclasses.dataclass(frozen=True)
class Prompts:
    """Rows with the contexts that their prompts are, those of each split."""

    rows: dict[str, list[dict[str, Any]]]
    contexts: dict[str, list[Context]]
    columns: tuple[str, ...]  # that reward functions may name
    left_out: int  # rows whose prompts are longer than the context
    told: str = ""  # words behind each prompt
    has_tools: bool = False  # tools that can be called, in place of those that a row names

    @property
    def longest(self) -> int:
        """Return the number of tokens of the longest prompt."""
        return max(len(one.tokens) for each in self.contexts.values() for one in each)

    @functools.cached_property
    def digest(self) -> str:
        """Return a hash of all rows, by which a resumed run sees that its file has changed."""
        return hashlib.sha256(json.dumps(self.rows, sort_keys=True, default=str).encode()).hexdigest()[:16]


def read_prompts(
    file: str, evaluation: str, share: float, form: Form, context: int, told: str = "", has_tools: bool = False
) -> Prompts:
    """Read the prompts to train on, and those that evaluation plays.

    Args:
        file: The rows, as `forage.data.text.source` reads them.
        evaluation: Further rows, for evaluation; empty: a share of the file's.
        share: The share of the prompts that is held out where there is no second file; 0: evaluation plays those that
            are trained on.
        form: How prompts become tokens.
        context: Tokens of a prompt, at most; longer ones are left out. 0: as many as there are.
        told: Words behind each prompt.
        has_tools: There are tools that can be called, which the template shows in place of those that a row names.
    """
    rows = {SPLITS[0]: rows_of(file)}
    if evaluation:
        rows[SPLITS[1]] = rows_of(evaluation)
    elif share:
        rows = split_rows(file, rows[SPLITS[0]], share)
    else:
        rows[SPLITS[1]] = rows[SPLITS[0]]
    contexts = {
        split: [open_prompt(form, first_text(row, told, has_tools)) for row in each] for split, each in rows.items()
    }
    left_out = 0
    if context:
        for split in SPLITS:
            lengths = [len(one.tokens) for one in contexts[split]]
            fit = [index for index, length in enumerate(lengths) if length <= context]
            left_out += len(lengths) - len(fit)
            if not fit:
                raise ForageError(
                    f"Every prompt of {evaluation or file} takes more than the context of {context} tokens; the "
                    f"shortest takes {min(lengths)}, so give a larger --env.context."
                )
            rows[split], contexts[split] = [rows[split][i] for i in fit], [contexts[split][i] for i in fit]
    named = dict.fromkeys(name for each in rows.values() for row in each for name in row if name not in NO_COLUMNS)
    return Prompts(rows, contexts, tuple(named), left_out, told, has_tools)


def is_conversational(file: str) -> bool:
    """Return whether the prompts of a file are messages."""
    return isinstance(rows_of(file)[0]["prompt"], list)


def rows_of(file: str) -> list[dict[str, Any]]:
    """Return the rows of a file. Raise `ForageError` if it has no prompts."""
    return read_rows(file, ("prompt",), "A policy").rows


def split_rows(file: str, rows: list[dict[str, Any]], share: float) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each split: those with the lowest hashes of their prompts are held out."""
    prompts = {prompt_hash(row) for row in rows}
    if len(prompts) < 2:
        raise ForageError(
            f"{file} has one prompt, so that none can be held out; name rows for evaluation with --evaluate text:FILE, "
            f"or evaluate on those that are trained on, with --env.held-out 0."
        )
    count = min(max(round(share * len(prompts)), 1), len(prompts) - 1)
    held = set(sorted(prompts)[:count])
    return {split: [row for row in rows if (prompt_hash(row) in held) == (split == SPLITS[1])] for split in SPLITS}


def prompt_hash(row: dict[str, Any]) -> str:
    """Return a hash of the prompt of a row."""
    return hashlib.sha256(json.dumps(row["prompt"], sort_keys=True, default=str).encode()).hexdigest()


def first_text(row: dict[str, Any], told: str = "", has_tools: bool = False) -> str | Dialogue:
    """Return the prompt of a row: a text, or messages with the row's arguments of the chat template."""
    prompt: str | Dialogue = row["prompt"]
    if not isinstance(prompt, str):
        prompt = Dialogue.parse(prompt, None if has_tools else row.get("tools"), row.get("chat_template_kwargs"))
    return add_words(prompt, told) if told else prompt


def open_prompt(form: Form, prompt: str | Dialogue) -> Context:
    """Return the context of a prompt: a text as it stands, or by the chat template."""
    if form.chat or not isinstance(prompt, str):
        return form.begin(prompt)
    tokens, opens = tuple(form.tokenizer.encode(prompt)), form.tokenizer.opens
    return Context(tokens if tokens[: len(opens)] == opens else (*opens, *tokens))


class PromptWorld(World):
    """A prompt of a file and the answer to it, which reward functions judge, with or without tools to call before.

    A text that calls tools is answered while there is a turn left; any other text is the answer.
    """

    prompts: Prompts  # set once it is known how they become tokens

    def __init__(self, toolbox: Toolbox | None = None, turns: int = 0) -> None:
        self.toolbox, self.turns, self.taken = toolbox, turns or (TOOL_TURNS if toolbox else 1), 0
        self.names, self.waits = (EXECUTED, toolbox.waits) if toolbox else ((), False)
        self.values: dict[str, Any] = {}
        self.opened = Context(())

    def begin(self, start: Start) -> str | Dialogue:
        rows = self.prompts.rows[start.split]
        index, self.taken = start.number % len(rows), 0
        self.values, self.opened = rows[index], self.prompts.contexts[start.split][index]
        if self.toolbox is not None:
            self.toolbox.begin(start.number)
        return first_text(self.values, self.prompts.told, self.prompts.has_tools)

    def open(self, form: Form, prompt: str | Dialogue) -> Context:
        return self.opened

    def reply(self, written: str) -> WorldReply:
        if self.toolbox is None:
            return WorldReply("", 0.0, True)
        self.taken += 1
        if self.taken == self.turns:
            return WorldReply("", 0.0, True, told={"executed": float(not self.toolbox.has_calls(written))})
        found = self.toolbox.reply(written)
        executed = {"executed": float(not any(one.error for one in found.answers))}
        if not found.answers:
            return WorldReply("", 0.0, True, told=executed)
        return WorldReply(found.text, 0.0, False, told=executed, messages=found.messages, results=found.results)

    def reference(self) -> str:
        """Return the completion of the row, where it has one."""
        known = self.values.get("completion", "")
        return known if isinstance(known, str) else "".join(str(one.get("content", "")) for one in known)

    @property
    def row(self) -> dict[str, Any]:
        return self.values

    def columns(self, level: int) -> tuple[str, ...]:
        return self.prompts.columns

    def close(self) -> None:
        if self.toolbox is not None:
            self.toolbox.close()


def tell_left_out(name: str, prompts: Prompts, context: int) -> None:
    """Warn of prompts that were left out."""
    if prompts.left_out:
        count, are = (f"{prompts.left_out} prompts", "are") if prompts.left_out > 1 else ("A prompt", "is")
        warn(f"{count} of {name} {are} longer than the context of {context} tokens and {are} left out.")
