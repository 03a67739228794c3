"""Worked texts of Countdown that show habits of reasoning, to prime a model with before reinforcement learning.

Gandhi, Chakravarthy, Singh, Lile, Goodman (2025), "Cognitive Behaviors that Enable Self-Improving Reasoners, or, Four
Habits of Highly Effective STaRs", arXiv 2503.01307, fine-tune a model on texts that show backtracking alone or with one
of verification, subgoals and backward chaining, all four, or no reasoning, also with wrong answers alone, and then
reinforce all of them alike. Their texts are a large model's (`generate_cot_datasets` of the authors' program); here a
program writes them from a problem's known solution, so that each shows the wanted habits and no other, as
`forage.evaluation.habits` counts them.

    from forage_papers.studies.priming import write_traces
    write_traces("traces.jsonl", "all")          # then: forage train sft --data traces.jsonl
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import numpy as np

from forage.core.errors import ForageError, nearest
from forage.data.text.rows import write_rows
from forage.environments.text import expressions
from forage.environments.text.families.countdown import Countdown
from forage.environments.text.form import PROMPT_END
from forage.environments.text.problems import Problem
from forage.environments.text.sets import problem_at

PRIMES: dict[str, tuple[str, ...]] = {
    "all": ("backtracking", "verification", "subgoals", "backward"),
    "backtracking": ("backtracking",),
    "backtracking-verification": ("backtracking", "verification"),
    "backtracking-subgoals": ("backtracking", "subgoals"),
    "backtracking-backward": ("backtracking", "backward"),
    "none": (),
}
"""The habits of the texts by the name of a data set, as in the paper; `none`: the answer without reasoning."""
INVERSE = {"+": "-", "-": "+", "*": "/", "/": "*"}
ATTEMPTS = 100  # draws of a wrong way, of which one in a few reaches the target


def write_traces(
    path: str | os.PathLike[str],
    prime: str = "all",
    *,
    count: int = 1000,
    wrong: bool = False,
    level: int = 2,
    seed: int = 0,
) -> Path:
    """Write rows of `prompt` and `completion` as JSONL, and return the path.

    `prime`: a data set of `PRIMES`. `wrong`: all answers are wrong, and the habits are the same. `level`: of Countdown.
    Problems are those of training, beginning with number `seed` times a million.
    """
    if prime not in PRIMES:
        raise ForageError(f"There are no texts {prime!r} to prime with{nearest(prime, PRIMES)}")
    if count < 1:
        raise ForageError(f"Texts to prime with are 1 or more, not {count}.")
    family, rows = Countdown(), []
    for number in range(count):
        problem = problem_at(family, level, 0, seed * 1_000_000 + number)
        generator = np.random.default_rng([seed, number])
        rows.append(
            {"prompt": problem.prompt + PROMPT_END, "completion": trace(problem, PRIMES[prime], generator, wrong)}
        )
    return write_rows(path, rows)


def trace(problem: Problem, habits: Collection[str], generator: np.random.Generator, wrong: bool = False) -> str:
    """Return a text that shows some habits, and then an answer, right or `wrong`."""
    target, right = problem.data["target"], expressions.parse_expression(problem.answer)
    assert right is not None
    answer = wrong_way(problem, generator) if wrong else right
    *_, (operator, left, other, _) = expressions.operations(right)
    said: list[str] = []
    if "subgoals" in habits:
        said.append(f"First, I need {left}, as a subgoal.")
    if "backward" in habits:
        said.append(f"Working backwards, {target} {INVERSE[operator]} {other} = {left}.")
    if "backtracking" in habits:
        failed = wrong_way(problem, generator)
        said.append(f"{write_steps(failed)}.")
        if "verification" in habits:
            said.append(f"The result is not {target}.")
        said.append("I will try another way.")
    if habits:
        said.append(f"{write_steps(answer)}.")
    if "verification" in habits:
        said.append("The result does not match the target." if wrong else f"The result is {target}.")
    return " ".join([*said, f"<answer>{expressions.write_expression(answer)}</answer>"])


def write_steps(tree: expressions.Tree) -> str:
    """Return each operation with its result."""
    return ", ".join(f"{left} {sign} {right} = {result}" for sign, left, right, result in expressions.operations(tree))


def wrong_way(problem: Problem, generator: np.random.Generator) -> expressions.Tree:
    """Return an expression of all numbers, each once, that does not reach the target on its way."""
    for _ in range(ATTEMPTS):
        numbers = [int(number) for number in generator.permutation(problem.data["numbers"])]
        tree: expressions.Tree = numbers[0]
        value = numbers[0]
        for number in numbers[1:]:
            sign = str(generator.choice([*"+*", *("-" if value >= number else "")]))
            tree, value = (sign, tree, number), int(expressions.apply(sign, value, number) or 0)
        if all(result != problem.data["target"] for *_, result in expressions.operations(tree)):
            return tree
    raise ForageError(f"Every way to combine the numbers of {problem.prompt!r} that was tried reaches the target.")
