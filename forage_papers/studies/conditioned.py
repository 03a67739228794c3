"""Conditional alignment: prompts with the reward of their answers, and prompts that ask for a reward."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forage.core.types import ForageError
from forage.data.text.rows import read_rows, write_rows
from forage.environments.text.families.addition import Addition
from forage.environments.text.problems import Problem

TEMPLATE = "{input} <rm_score>: {reward} "
"""A prompt with the reward of its answer."""

Rows = str | os.PathLike[str] | Iterable[Mapping[str, Any]]


def with_reward(prompt: Any, reward: float, template: str = TEMPLATE) -> str:
    """Return a prompt with the reward of its answer behind it, to two decimals."""
    if not isinstance(prompt, str):
        raise ForageError("A reward is written behind a prompt that is a text, and these are messages; give texts.")
    return template.replace("{reward}", f"{reward:.2f}").replace("{input}", prompt)


def write_conditioned(
    data: Rows, path: str | os.PathLike[str], *, normalise: bool = False, template: str = TEMPLATE
) -> Path:
    """Write recorded answers as rows of `prompt` and `completion`, with the reward in each prompt; return the path.

    `data`: rows with `prompt`, `completion` and `reward`, or a file of them. With `normalise` rewards are brought to
    mean 0 and deviation 1 first. `forage train sft --data PATH` learns from the rows, and is then asked with a high
    reward, such as the largest of them (`write_wishes`).

    Source: Hu, Tao, Yang, Zhou (2023), "Aligning Language Models with Offline Learning from Human Feedback", arXiv
    2308.12050 (conditional alignment), as in the first author's program (OpenRLHF: `openrlhf/utils/processor.py`,
    `conditional_sft_processor`), whose template this is. There a reward model judges the answers; here the writer of
    the rows did. How high a reward is asked for in the paper could not be looked up.

        >>> write_conditioned("scored.jsonl", "conditioned.jsonl")  # doctest: +SKIP
    """
    check_template(template)
    rows = read_rows(data, ("scored",), "Conditioning").rows
    reward = np.array([float(row["reward"]) for row in rows])
    if normalise:
        spread = float(reward.std(ddof=1)) if len(reward) > 1 else 0.0
        if not spread:
            raise ForageError("All rewards are alike, so that they cannot be brought to a deviation of 1.")
        reward = (reward - reward.mean()) / spread
    return write_rows(
        path,
        [
            {"prompt": with_reward(row["prompt"], one, template), "completion": row["completion"]}
            for row, one in zip(rows, reward.tolist(), strict=True)
        ],
    )


def write_wishes(data: Rows, path: str | os.PathLike[str], reward: float, *, template: str = TEMPLATE) -> Path:
    """Write prompts that ask for a reward, with all other columns as they are; return the path."""
    check_template(template)
    if not math.isfinite(reward):
        raise ForageError(f"A reward to ask for is a number, and not {reward}.")
    rows = read_rows(data, ("prompt",), "Asking").rows
    return write_rows(path, [{**row, "prompt": with_reward(row["prompt"], reward, template)} for row in rows])


def check_template(template: str) -> None:
    """Raise `ForageError` unless a template has places for the prompt and the reward."""
    if "{input}" not in template or "{reward}" not in template:
        raise ForageError(f"The template {template!r} lacks {{input}} or {{reward}}; give it both.")


class AskedAddition(Addition):
    """Sums with prompts that ask for a right answer, of the reward 1."""

    name = "addition-asked"

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        problem = super().make(generator, difficulty)
        return problem._replace(prompt=with_reward(problem.prompt, 1.0))
