"""Files of the row GRPO: a checkpoint, prompts and a reward function that Forage and TRL share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import cells
from headline_rows import LONGEST

ALONE = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "TOKENIZERS_PARALLELISM": "false"}
PROMPTS, HELD_OUT = 800, 200
LEVELS = (3,)  # of sums: of four digits, of which the base model gets few wholly right, and most digits
REWARD = '''"""The reward: the share of the sum's digits that the last number of an answer has, from the right."""

import re


def score(completions, answer, **others):
    found = [(re.findall(r"\\d+", said) or [""])[-1] for said in completions]
    return [
        sum(a == b for a, b in zip(reversed(last), reversed(right))) / max(len(last), len(right))
        for last, right in zip(found, answer, strict=True)
    ]
'''
CONTENT = cells.fingerprint([PROMPTS, HELD_OUT, LEVELS, REWARD])
"""What stands for the files; others are written anew."""


def make_files(folder: Path) -> None:
    """Write the base model in Hugging Face's files, prompts, other prompts and the reward function, unless there."""
    mark = folder / "content.txt"
    if mark.exists() and mark.read_text() == CONTENT:
        return
    from forage.core.text.named import FORAGE, tokenizer
    from forage.environments.text.families.addition import Addition
    from forage.environments.text.form import PROMPT_END
    from forage.environments.text.sets import problem_at
    from forage.nn.language.base import load_base
    from forage.nn.language.export import write_model

    shutil.rmtree(folder, ignore_errors=True)
    write_model(load_base(), tokenizer(FORAGE), folder / "base")
    # Without the end that it puts behind a whole text: TRL would put it behind prompts
    file = folder / "base" / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"post_processor": None}))
    family, rows = Addition(), {}
    for number in range(10 * (PROMPTS + HELD_OUT)):
        problem = problem_at(family, LEVELS[number % len(LEVELS)], 0, number)
        answer = str(problem.data["left"] + problem.data["right"])
        rows[problem.prompt + PROMPT_END] = answer  # each prompt once
    made = [{"prompt": prompt, "answer": answer} for prompt, answer in rows.items()][: PROMPTS + HELD_OUT]
    for name, part in (("prompts", made[:PROMPTS]), ("held-out", made[PROMPTS:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    (folder / "reward.py").write_text(REWARD)
    mark.write_text(CONTENT)


def ask_model(model: str, work: Path) -> dict[str, Any]:
    """Let Forage answer the held-out prompts with a model or run, at temperature 1, and return the mean reward."""
    words = ["evaluate", model, "text:grpo/held-out.jsonl", "--rewards", "grpo/reward.py:score", "--json"]
    words += ["--episodes", str(HELD_OUT), "--env.response", str(LONGEST), "--temperature", "1"]
    told = run_process([sys.executable, "-m", "forage", *words], work)
    return {"evaluation": json.loads(told)["reward"], "episodes": HELD_OUT}


def run_process(words: list[str], work: Path) -> str:
    """Return the output of a process; raise `RuntimeError` with its last lines where it fails."""
    done = subprocess.run(words, cwd=work, env=os.environ | ALONE, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("\n".join((done.stderr or done.stdout).strip().splitlines()[-15:]))
    return done.stdout
