"""Helpers of tests of agents that learn from recorded text: a tiny model in a directory, and rows in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from resuming_helpers import weights

import forage
from forage.core.text.chat import CHATML, CHATML_TOKENS
from forage.core.text.own import BytePairs
from forage.nn.language.architecture import Architecture
from forage.nn.language.directory import with_tokens
from forage.nn.transformer import Transformer

WORDS = BytePairs(special=CHATML_TOKENS, template=CHATML)
TINY = Architecture(
    vocabulary=WORDS.vocabulary, width=8, layers=1, heads=2, key_heads=1, inner=16, length=64, family="llama"
)


def write_model(directory: Path, seed: int = 0) -> str:
    """Write a tiny random transformer with a byte tokenizer, and return the directory."""
    network = with_tokens(Transformer(jax.random.key(seed), TINY), end=WORDS.end, pad=WORDS.pad)
    network.save(str(directory))
    WORDS.save(directory)
    return str(directory)


def rows_of(kind: str, count: int = 12) -> list[dict[str, Any]]:
    """Return rows of a kind, each with other numbers."""
    rows = {
        "completion": lambda n: {"prompt": f"{n}+1=", "completion": str(n + 1)},
        "preference": lambda n: {"prompt": f"{n}+1=", "chosen": str(n + 1), "rejected": str(n + 2)},
        "scored": lambda n: {"prompt": f"{n}+1=", "completion": str(n + 1 + n % 2), "reward": 1.5 - n % 2},
        "steps": lambda n: {"prompt": f"{n}+1=", "completions": ["is", str(n)], "labels": [True, n % 2 == 0]},
        "label": lambda n: {"prompt": f"{n}+1=", "completion": str(n + 1 + n % 2), "label": n % 2 == 0},
    }
    return [rows[kind](n) for n in range(count)]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> str:
    """Write rows as JSONL, and return the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def check_recorded(name: str, kind: str, folder: Path, learns: bool = True) -> dict[str, Any]:
    """Check that a run learns, also where it is stopped and resumed; return the last point of its curve.

    After 8 updates of 4 rows the loss is below the first one, unless it `learns` too little for that, and the run that
    was stopped after 3 has the same weights.
    """
    given: dict[str, Any] = {
        "data": write_rows(folder / "rows.jsonl", rows_of(kind)),
        "model": write_model(folder / "model"),
        "learning_rate": 3e-3,
        "batch_size": 4,
        "seeds": [1],
        "display": "quiet",
    }
    whole = forage.train(name, steps=8, directory=folder / "whole", **given)
    forage.train(name, steps=3, directory=folder / "parts", **given)
    before = weights(folder / "parts")
    forage.resume(folder / "parts", steps=8, display="quiet")
    one, two = weights(folder / "whole"), weights(folder / "parts")
    assert [field for field in one if not np.array_equal(one[field], two[field])] == []
    assert any(not np.array_equal(before[field], two[field]) for field in before)
    first, last = whole.rows[0], whole.rows[-1]
    assert np.isfinite([last["loss"][0], last["validation/loss"][0]]).all()
    assert not learns or last["loss"][0] < first["loss"][0]
    return last
