"""Measures and data of claims about language."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np

from forage.core.text.named import FORAGE, tokenizer
from forage.environments.text.families.addition import Addition
from forage.environments.text.families.countdown import Countdown
from forage.environments.text.form import PROMPT_END
from forage.environments.text.sets import problem_at
from forage.nn.language.architecture import Architecture
from forage.nn.language.export import write_model
from forage.nn.transformer import Transformer
from forage.runs.run import Run
from forage.studies.claims.played import FOLDER
from forage.studies.claims.prepared import train_agent
from forage_papers.studies.priming import trace, write_traces
from forage_papers.studies.redistill import write_answers


def share_solved(run: Run) -> list[float]:
    """Return the share of right answers in the evaluation after training."""
    assert run.evaluation is not None
    return [float(value) for value in run.evaluation["truth"]]


def mean_solved(run: Run) -> list[float]:
    """Return the mean share of right answers over the evaluations during training, without the one before it."""
    rows = [json.loads(line) for line in (run.directory / "evaluations.jsonl").read_text().splitlines()]
    rows = rows[1:] or rows  # a smoke is evaluated at its beginning alone
    return [float(np.mean([row["truth"][number] for row in rows])) for number in range(len(rows[0]["truth"]))]


def mean_return(run: Run) -> list[float]:
    """Return the mean return over the evaluations during training, without the one before it."""
    rows = [json.loads(line) for line in (run.directory / "evaluations.jsonl").read_text().splitlines()]
    rows = rows[1:] or rows  # a smoke is evaluated at its beginning alone
    return [float(np.mean([row["return"][number] for row in rows])) for number in range(len(rows[0]["return"]))]


def careless_model(forgotten: float = 0.7, updates: int = 6000) -> str:
    """Return the run of a small model that was taught to forget most carries of sums; train it if it is missing.

    A transformer of 0.2 million parameters, three layers of width 64, learns from random weights to write worked sums
    of one to three digits in which each carry is `forgotten` with this probability. It finds columns and their sums
    without mistake, and answers a good third of sums of two and three digits right: what is left to learn from reward
    is to carry, which it does in three of ten columns.
    """
    start = FOLDER / "untaught"
    if not start.exists():
        shape = Architecture(vocabulary=512, width=64, layers=3, heads=4, key_heads=4, inner=192, length=256, tied=True)
        write_model(Transformer(jax.random.key(0), shape), tokenizer(FORAGE), start)
    return train_agent(
        "sft",
        "text:addition",
        updates,
        options={"model": str(start), "learning_rate": 2e-3},
        environment_options={"level": "1-2"},
        evaluation_every=updates,
        data=careless_sums(forgotten),
    )


def careless_sums(forgotten: float, count: int = 40_000) -> str:
    """Return a file of worked sums of one to three digits with carries forgotten; write it if it is missing."""
    file = FOLDER / f"careless-{forgotten}-{count}.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        family, generator, rows = Addition(), np.random.default_rng(0), []
        for number in range(count):
            problem = problem_at(family, number % 3, 0, number)
            text = careless_sum(problem.data["left"], problem.data["right"], generator, forgotten)
            rows.append({"prompt": problem.prompt + PROMPT_END, "completion": text})
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def careless_sum(left: int, right: int, generator: np.random.Generator, forgotten: float) -> str:
    """Work out a sum column by column from the right, and forget each carry with this probability."""
    columns: list[str] = []
    digits, carry = "", 0
    while left or right or not columns:
        total = left % 10 + right % 10 + carry
        columns.append(f"{left % 10}+{right % 10}{f'+{carry}' if carry else ''}={total}")
        left, right = left // 10, right // 10
        digits = f"{total % 10 if left or right else total}{digits}"
        carry = int(total >= 10 and generator.random() >= forgotten)
    return f"{', '.join(columns)}. <answer>{digits}</answer>"


def repeating_model(repeated: float = 0.3, updates: int = 6000) -> str:
    """Return the run of a careless model that also writes columns twice; train it if it is missing.

    As `careless_model`, with each column of its texts `repeated` with this probability, which makes answers longer and
    no less right.
    """
    return train_agent(
        "sft",
        "text:addition",
        updates,
        options={"model": str(Path(careless_model()).with_name("untaught")), "learning_rate": 2e-3},
        environment_options={"level": "1-2"},
        evaluation_every=updates,
        data=repeating_sums(careless_sums(0.7), repeated),
    )


def repeating_sums(sums: str, repeated: float) -> str:
    """Return a file of sums with columns repeated; write it if it is missing."""
    file = FOLDER / f"repeating-{repeated}-{Path(sums).name}"
    if not file.exists():
        generator = np.random.default_rng(0)
        rows = [json.loads(line) for line in Path(sums).read_text().splitlines()]
        for row in rows:
            row["completion"] = repeat_columns(row["completion"], generator, repeated)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def repeat_columns(text: str, generator: np.random.Generator, repeated: float) -> str:
    """Write each column of a worked sum again with this probability."""
    columns, answer = text.split(". ")
    twice = [[column] * (1 + int(generator.random() < repeated)) for column in columns.split(", ")]
    return f"{', '.join(column for both in twice for column in both)}. {answer}"


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
            rows.append({"prompt": problem.prompt + PROMPT_END, "chosen": chosen, "rejected": rejected})
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
            rows.append({"prompt": problem.prompt + PROMPT_END, "completion": family.solution(problem)})
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
            rows.append({"prompt": problem.prompt + PROMPT_END, "completion": text, "reward": float(not wrong)})
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)
