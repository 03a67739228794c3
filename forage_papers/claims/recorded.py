"""Recorded sums of mixed quality for claims: careless ones with rewards, pairs, and right ones by several hands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from forage.environments.text.families.addition import Addition
from forage.environments.text.form import PROMPT_END
from forage.environments.text.problems import Problem
from forage.environments.text.sets import problem_at
from forage.studies.claims.played import FOLDER
from forage.studies.claims.prepared import train_agent
from forage_papers.claims.language import careless_model, careless_sum
from forage_papers.claims.taught import store_rows
from forage_papers.studies.conditioned import with_reward
from forage_papers.studies.redistill import write_answers


def recorded_sums(count: int = 2000, forgotten: float = 0.7) -> str:
    """Return a file of worked sums of two and three digits with carries forgotten, and their rewards."""
    file = FOLDER / f"recorded-{forgotten}-{count}.jsonl"
    if not file.exists():
        generator, rows = np.random.default_rng(1), []
        for problem in draw_sums(count, (1, 2)):
            text = careless_sum(problem.data["left"], problem.data["right"], generator, forgotten)
            reward = Addition().verify(problem, text).truth
            rows.append({"prompt": problem.prompt + PROMPT_END, "completion": text, "reward": reward})
        store_rows(file, rows)
    return str(file)


def sums_with_rewards(count: int = 2000, forgotten: float = 0.7) -> str:
    """Return a file of recorded sums whose prompts say their rewards."""
    file = FOLDER / f"conditioned-{forgotten}-{count}.jsonl"
    if not file.exists():
        rows = [json.loads(line) for line in Path(recorded_sums(count, forgotten)).read_text().splitlines()]
        for row in rows:
            row["prompt"] = with_reward(row["prompt"].removesuffix(PROMPT_END), row.pop("reward")) + PROMPT_END
        store_rows(file, rows)
    return str(file)


def paired_sums(count: int = 1000) -> str:
    """Return a file of sums of three and four digits: right ones as chosen, ones without carries as rejected."""
    file = FOLDER / f"pairs-of-sums-{count}.jsonl"
    if not file.exists():
        generator, rows = np.random.default_rng(1), []
        for problem in draw_sums(2 * count, (2, 3)):
            right = Addition().solution(problem)
            wrong = careless_sum(problem.data["left"], problem.data["right"], generator, 1.0)
            if Addition().verify(problem, wrong).truth < 1:
                rows.append({"prompt": problem.prompt + PROMPT_END, "chosen": right, "rejected": wrong})
        store_rows(file, rows[:count])
    return str(file)


def worked_sums(levels: tuple[int, ...] = (2, 3), count: int = 500, by_parts: bool = False) -> str:
    """Return a file of right sums, worked column by column, or by the parts of their numbers, as another hand would."""
    file = FOLDER / f"worked-{''.join(map(str, levels))}-{count}-{'parts' if by_parts else 'columns'}.jsonl"
    if not file.exists():
        write = sum_by_parts if by_parts else Addition().solution
        store_rows(
            file,
            [{"prompt": one.prompt + PROMPT_END, "completion": write(one)} for one in draw_sums(count, tuple(levels))],
        )
    return str(file)


def sum_by_parts(problem: Problem) -> str:
    """Work out a sum by hundreds, tens and ones, which are added at the end."""
    left, right = problem.data["left"], problem.data["right"]
    powers = [10**place for place in range(len(str(max(left, right))))][::-1]
    parts = [(left // power % 10 * power, right // power % 10 * power) for power in powers]
    sums = [f"{one}+{other}={one + other}" for one, other in parts]
    total, steps = sum(parts[0]), []
    for one, other in parts[1:]:
        steps.append(f"{total}+{one + other}={total + one + other}")
        total += one + other
    return f"{', '.join([*sums, *steps])}. <answer>{total}</answer>"


def redistilled_sums(steps: int = 3200, problems: int = 600) -> str:
    """Return a file of right sums of two and three digits by a careless model after GRPO."""
    options = {"num_envs": 64, "learning_rate": 3e-4, "model": careless_model()}
    run = train_agent(
        "grpo", "text:addition", steps, 9000, options, environment_options={"level": "1-2"}, evaluation_every=steps
    )
    file = FOLDER / f"redistilled-sums-{steps}-{problems}.jsonl"
    if not file.exists():
        write_answers(run, file, problems=problems)
    return str(file)


def draw_sums(count: int, levels: tuple[int, ...]) -> Iterator[Problem]:
    """Draw sums for training of these levels in turns, none of which a careless model has read of."""
    for number in range(count):
        yield problem_at(Addition(), levels[number % len(levels)], 0, 100_000 + number)
