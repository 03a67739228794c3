"""Runs that learn from recorded text: their memory and agent, from the words of a run."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from forage.config import registry
from forage.config.registry import PartChoice
from forage.core.errors import ForageError
from forage.core.ports import Agent
from forage.data.text.rows import KINDS, kind_of_row
from forage.data.text.source import is_text_data, raw_rows
from forage.memory.texts import TextSet
from forage.nn.language.peft import tokenizer_name
from forage.nn.language.pretrained import PretrainedModel

SUGGESTED = {
    "preference": "dpo",
    "label": "kto",
    "scored": "sft",
    "steps": "process-reward",
    "messages": "sft",
    "completion": "sft",
    "text": "sft",
}
"""The default agent for each kind of rows."""


class TextRun(NamedTuple):
    """The parts of a run that learns from recorded text."""

    agent: Any
    agent_options: Any
    memory: TextSet
    why: str = ""  # this agent, if none was named


def choose_text(
    agent: Any,
    options: Mapping[str, Any] | Callable[[PartChoice], Mapping[str, Any]],
    loose: Mapping[str, Any],
    data: str | os.PathLike[str] | None,
    held_out: float,
    held_file: str = "",
) -> TextRun | None:
    """Return agent and memory of a run that learns from recorded text; `None` if its data are no text.

    `options` and `loose`: as in `resolve`. Raise `ForageError` for an agent that does not learn from text.
    """
    if data is None:
        return None
    path, why = Path(data).expanduser(), ""
    if agent is None:
        if not is_text_data(path):
            return None
        agent, why = suggest_for(path)
    choice = registry.choose_part("agent", agent) if isinstance(agent, str) else agent
    kind = choice.cls if isinstance(choice, PartChoice) else type(choice)
    if not getattr(kind, "texts", ()):
        if is_text_data(path):
            name = choice.name if isinstance(choice, PartChoice) else kind.__name__
            first = next((row.fields for row in raw_rows(path) if not isinstance(row.fields, str)), {})
            if kind_of_row(first, tuple(KINDS)) == "prompt":
                raise ForageError(
                    f"{data} has prompts, to which {name} writes the answers itself; they are an environment, "
                    f"text:FILE or in Python the rows, with --rewards."
                )
            raise ForageError(
                f"{name} does not learn from recorded text, which {data} holds; sft learns from texts and messages, "
                f"dpo from chosen and rejected answers."
            )
        return None
    if isinstance(choice, PartChoice):
        options = options(choice) if callable(options) else options
        made = choice.with_options({**options, **loose}).build_part()
        name = choice.name
    else:
        made, name = choice, registry.part_name(choice)
    own = {name: getattr(made, name) for name in ("only_answers", "packing") if hasattr(made, name)}
    memory = TextSet(
        os.fspath(data),
        held_out=held_out,
        kinds=",".join(made.texts),
        reader=name,
        tokenizer=made.tokenizer or tokenizer_of(made.model),
        longest=made.longest,
        held_file=held_file,
        **own,
        **made.text_options,
    )
    return TextRun(choice, options, dataclasses.replace(memory, chat=memory.is_conversational), why)


def suggest_for(path: Path) -> tuple[str, str]:
    """Return the agent for a file of text, and the reason. Raise `ForageError` for rows of no kind."""
    first = next((row.fields for row in raw_rows(path) if not isinstance(row.fields, str)), {})
    kind = kind_of_row(first, tuple(KINDS))
    if kind not in SUGGESTED:
        raise ForageError(
            f"The rows of {path} have {', '.join(first) or 'no columns'}, from which no agent learns by itself; name "
            f"one, and see forage list agent."
        )
    return SUGGESTED[kind], f"the rows have {' and '.join(KINDS[kind])}"


def text_steps(memory: TextSet, agent: Agent) -> tuple[int, str]:
    """Return the number of updates in the agent's `passes` over recorded text, and the reason."""
    passes = getattr(agent, "passes", 1.0)
    learned, _ = memory.read_rows()
    return max(1, math.ceil(passes * len(learned) / agent.batch_size)), f"{passes:g} passes over {len(learned):,} rows"


def tokenizer_of(model: Any) -> str:
    """Return the tokenizer that belongs to a model: `forage`, a directory, or that of a run."""
    return tokenizer_name(model.source if isinstance(model, PretrainedModel) else str(model))
