"""Rows of text that were given in Python, lists of dictionaries or data sets of Hugging Face's: files of a run.

A run reads them from files, as it would have read a person's: first from a temporary folder, and when it is resumed
from its own directory.
"""

from __future__ import annotations

import dataclasses
import os
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forage.config.run_config import RunConfig
from forage.core.errors import ForageError
from forage.core.plain import dumps

TEXT = "text:"
FILES = {"data": "rows.jsonl", "environment": "prompts.jsonl", "evaluate": "held-out.jsonl"}
"""The arguments of `train` that may be rows, and the file in a run's directory that keeps them."""
WORDS = {"data": "The data", "environment": "The list of prompts", "evaluate": "The list for evaluation"}


def read_argument(value: Any, name: str) -> list[Any] | None:
    """Return an argument as rows; `None` where it stands for another source.

    Rows are a list or a tuple, a generator, or a data set with columns, such as `datasets.Dataset`. Raise `ForageError`
    for several splits.
    """
    if isinstance(value, Mapping):
        splits = [split for split, one in value.items() if hasattr(one, "column_names")]
        if splits:
            raise ForageError(
                f"{name} has the splits {', '.join(map(str, splits))}; give one, as in data[{splits[0]!r}]."
            )
        return None
    if isinstance(value, list | tuple | types.GeneratorType):
        return list(value)
    if hasattr(value, "column_names"):
        return list(value.to_list() if hasattr(value, "to_list") else value)
    return None


def take_rows(said: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the arguments that are rows, by name. Names in a list, such as `["CartPole-v1"]`, are no prompts."""
    found = {name: said[name] for name in FILES if isinstance(said.get(name), list | tuple)}
    return {
        name: rows
        for name, rows in found.items()
        if name == "data" or not rows or any(isinstance(row, Mapping) for row in rows)
    }


def write_lines(rows: Sequence[Any], name: str) -> str:
    """Return rows as lines of JSON. Raise `ForageError` for a row that cannot be one."""
    try:
        return "".join(dumps(row, ensure_ascii=False) + "\n" for row in rows)
    except (TypeError, ValueError) as error:
        raise ForageError(f"{WORDS[name]} has rows that can be written as JSON, and one cannot: {error}.") from None


def name_files(said: Mapping[str, Any], rows: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return arguments with the names of files in a folder in place of rows."""
    found = dict(said)
    for name in rows:
        file = str(folder / FILES[name])
        plays = name == "environment" or (name == "evaluate" and said.get("data") is None)
        found[name] = f"{TEXT}{file}" if plays else file
    return found


def without_files(words: str, folder: Path) -> str:
    """Return a sentence that names the arguments in place of their files in a folder."""
    for name, file in FILES.items():
        words = words.replace(f"{TEXT}{folder / file}", WORDS[name]).replace(str(folder / file), WORDS[name])
    return words


def keep_rows(setup: RunConfig, lines: Mapping[str, str], directory: Path) -> RunConfig:
    """Write rows into a run's directory, and return its configuration with their files there."""
    memory, world = setup.memory, dict(setup.environment_config)
    for name, text in lines.items():
        file = directory.absolute() / FILES[name]
        file.write_text(text, encoding="utf-8")
        if name == "data":
            memory = memory.relocate(file)
        elif name == "environment":
            world["id"] = f"{TEXT}{file}"
        elif hasattr(memory, "held_file"):
            within: dict[str, Any] = {"held_file": os.fspath(file)}
            memory = dataclasses.replace(memory, **within)
        else:
            world["options"] = {**(world.get("options") or {}), "evaluate": os.fspath(file)}
    return dataclasses.replace(setup, memory=memory, environment_config=world)
