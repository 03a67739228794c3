"""Measures and data of claims about language."""

from __future__ import annotations

import json

import numpy as np

from forage.environments.text.families.addition import Addition
from forage.environments.text.families.countdown import Countdown
from forage.environments.text.sets import problem_at
from forage.runs.run import Run
from forage.studies.claims.played import FOLDER
from forage.studies.claims.prepared import train_agent
from forage_papers.studies.priming import trace, write_traces
from forage_papers.studies.redistill import write_answers


def share_solved(run: Run) -> list[float]:
    """Return the share of right answers in the evaluation after training."""
    assert run.evaluation is not None
    return [float(value) for value in run.evaluation["truth"]]


def traces(prime: str, wrong: bool = False, count: int = 1000) -> str:
    """Return a file of texts to prime with; write it if it is missing."""
    file = FOLDER / f"traces-{prime}-{'wrong' if wrong else 'right'}-{count}.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_traces(file, prime, count=count, wrong=wrong, level=1)
    return str(file)


def pairs(count: int = 1000) -> str:
    """Return a file of right and wrong answers to Countdown, as pairs; write it if it is missing."""
    file = FOLDER / f"pairs-{count}.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = []
        for number in range(count):
            problem, generator = problem_at(Countdown(), 1, 0, number), np.random.default_rng(number)
            chosen, rejected = (trace(problem, ("backtracking",), generator, wrong) for wrong in (False, True))
            rows.append({"prompt": problem.prompt, "chosen": chosen, "rejected": rejected})
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def redistil_answers(steps: int = 12_800, problems: int = 500) -> str:
    """Return a file of right answers of a policy after GRPO; train it and write the file if they are missing."""
    more = {"environment_options": {"level": "2-3"}}
    run = train_agent("grpo", "text:addition", steps, options={"num_envs": 64}, **more)
    file = FOLDER / f"redistilled-{steps}-{problems}.jsonl"
    if not file.exists():
        write_answers(run, file, problems=problems)
    return str(file)


def references(count: int = 500) -> str:
    """Return a file of worked answers to sums of three and four digits; write it if it is missing."""
    file = FOLDER / f"references-{count}.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        family, rows = Addition(), []
        for number in range(count):
            problem = problem_at(family, 2 + number % 2, 0, number // 2)
            rows.append({"prompt": problem.prompt, "completion": family.solution(problem)})
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def write_scored(count: int = 1000) -> str:
    """Return a file of right and wrong answers to Countdown with rewards; write it if it is missing."""
    file = FOLDER / f"scored-{count}.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = []
        for number in range(count):
            problem, wrong = problem_at(Countdown(), 1, 0, number // 2), number % 2 == 1
            text = trace(problem, ("backtracking",), np.random.default_rng(number), wrong)
            rows.append({"prompt": problem.prompt, "completion": text, "reward": float(not wrong)})
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)
