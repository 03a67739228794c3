"""Families of problems: worked solutions are right, wrong answers are wrong, and levels get harder."""

import itertools
import json
from datetime import date, timedelta

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.environments.text import FAMILIES, sets
from forage.environments.text.families.satisfiability import true
from forage.environments.text.families.sorting import join_numbers
from forage.environments.text.opening import family
from forage.environments.text.problems import Verdict

SEEDS = 50
SLOW = {"sql", "regex", "logic-grid", "sudoku", "paths"}  # whose problems take milliseconds: fewer of them in the gate
COUNTS = [(name, 8 if name in SLOW else SEEDS) for name in FAMILIES]
THOROUGH = [pytest.param(name, SEEDS, marks=pytest.mark.thorough) for name in sorted(SLOW)]


def test_the_table_holds_each_family_under_its_name():
    assert len(FAMILIES) >= 16
    for name in FAMILIES:
        found = family(name)
        assert found.name == name and found.bounded and len(found.levels) >= 5
        assert len(set(found.levels)) == len(found.levels)


@pytest.mark.parametrize(("name", "seeds"), [*COUNTS, *THOROUGH])
def test_solutions_are_right_and_levels_get_harder(name, seeds):
    found, sizes = family(name), []
    for level in range(len(found.levels)):
        problems = [sets.problem_at(found, level, seed, 0) for seed in range(seeds)]
        for problem in problems:
            solution = found.solution(problem)
            assert found.verify(problem, solution) == Verdict(True, 1.0), solution
            assert solution.endswith(f" <answer>{problem.answer}</answer>") and len(solution) < 3000
            # What a run saves is the same problem.
            assert found.verify(problem._replace(data=json.loads(json.dumps(problem.data))), solution).truth == 1
        assert len({problem.prompt for problem in problems}) > seeds / 3
        sizes.append(np.mean([found.size(problem) for problem in problems]))
    assert all(easier < harder for easier, harder in itertools.pairwise(sizes)), sizes


def numbers(problem):
    return [
        str(int(problem.answer) + 1),
        str(int(problem.answer) - 1),
        f"{problem.answer}0" if problem.answer != "0" else "1",
    ]


def words(problem):
    answer = problem.answer
    other = "b" if answer[0] == "a" else "a"
    return [other + answer[1:], answer + "a", *([answer[:-1]] if len(answer) > 1 else [])]


def in_base(problem):
    return [problem.answer + "0", "1" + problem.answer, problem.answer[:-1]]


def calendar(problem):
    if problem.data["level"] == 3:
        return numbers(problem)
    if problem.data["level"] == 2:
        return [str(date.fromisoformat(problem.answer) + timedelta(days)) for days in (-1, 1)]
    return [day for day in ("Monday", "Tuesday", "Sunday") if day != problem.answer]


def lists(problem):
    values = [int(word) for word in problem.answer.split()]
    swapped = [values[-1], *values[1:-1], values[0]]
    return [
        join_numbers(values[1:]),
        join_numbers([*values, 5]),
        *([join_numbers(swapped)] if swapped != values else []),
    ]


def brackets(problem):
    return [problem.answer + ")", ("]" if problem.answer[0] == ")" else ")") + problem.answer[1:]]


def countdown(problem):
    target = problem.data["target"]
    return [str(target), f"{problem.answer} + 0", f"{problem.answer} + 1 - 1", f"({problem.answer}) / 1 / (1 - 1)"]


def regex(problem):
    return [".*", problem.data["inside"][0], "z+"]


def sql(problem):
    # The rows shown, written out as constants, are right there and nowhere else.
    columns = [
        ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in row)
        for row in problem.data["rows"][0]
    ]
    constant = f"SELECT {columns[0]}" if len(columns) == 1 else "SELECT age FROM people WHERE age < 0"
    return [constant, "SELECT name, name FROM people", "SELECT COUNT(*), 1, 2 FROM people"]


def paths(problem):
    path = problem.answer.split("-")
    return ["-".join(path[::-1]), "-".join([path[0], path[-1]]), "-".join([path[0], path[1], path[0], *path[1:]])]


def walking(problem):
    x, y = map(int, problem.answer.split(","))
    return [f"{x + 1},{y}", f"{x},{y - 1}"]


def guessing(problem):
    first, last = problem.data["range"]
    return [str(first - 1), str(last + 1), str((first + last) * 3)]


def logic_grid(problem):
    rows = [row.split(": ") for row in problem.answer.split("; ")]
    names, held = [row[0] for row in rows], [row[1] for row in rows]
    return ["; ".join(f"{name}: {what}" for name, what in zip(names, [*held[1:], held[0]], strict=True))]


def satisfiability(problem):
    names = problem.data["names"]
    for values in itertools.product((False, True), repeat=len(names)):
        chosen = dict(zip(names, values, strict=True))
        if not all(true(clause, chosen) for clause in problem.data["clauses"]):
            return [" ".join(f"{name}={str(value).lower()}" for name, value in chosen.items())]
    raise AssertionError("every choice is right")


def sudoku(problem):
    place = problem.data["grid"].index(".")
    place += place // 4
    other = "1" if problem.answer[place] != "1" else "2"
    return [problem.answer[:place] + other + problem.answer[place + 1 :], "1234/3412/2143/4321", "1111/2222/3333/4444"]


WRONG = {
    **dict.fromkeys(("addition", "arithmetic", "equations", "counting", "programs"), numbers),
    **dict.fromkeys(("reversal", "edits", "cipher"), words),
    "bases": in_base,
    "calendar": calendar,
    "sorting": lists,
    "brackets": brackets,
    "countdown": countdown,
    "regex": regex,
    "sql": sql,
    "paths": paths,
    "walking": walking,
    "guessing": guessing,
    "logic-grid": logic_grid,
    "satisfiability": satisfiability,
    "sudoku": sudoku,
}


@pytest.mark.parametrize("name", FAMILIES)
def test_wrong_answers_are_wrong(name):
    found, formed = family(name), 0
    for level in range(len(found.levels)):
        for seed in range(4):
            problem = sets.problem_at(found, level, seed, 1)
            for wrong in WRONG[name](problem):
                if name == "sudoku" and wrong == problem.answer:
                    continue
                verdict = found.verify(problem, f"So it is <answer>{wrong}</answer>")
                assert verdict.truth == 0 and not verdict.failure, (problem, wrong)
                formed += verdict.format
            # The last answer counts, whatever stands before it.
            both = f"<answer>{problem.answer}</answer> or <answer>{WRONG[name](problem)[0]}</answer>"
            assert found.verify(problem, both).truth == 0
    assert formed >= 4 * len(found.levels)


NO_ANSWERS = [
    "",
    "42",
    "<answer>",
    "</answer>",
    "<answer></answer>",
    "<answer>  </answer>",
    "</answer>5<answer>",
    "<ANSWER>5</ANSWER>",
    f"<answer>{'7' * 5000}</answer>",
    f"<answer>{'(' * 900}</answer>",
    "<answer>\u0663</answer>",  # a digit, though not one of ours
    "<answer>5</answer",
    "<answer>\ud800</answer>",
    "<answer>\0</answer>",
    None,
    7,
]


@pytest.mark.parametrize("name", FAMILIES)
def test_no_text_is_an_error_and_none_of_these_is_an_answer(name):
    found = family(name)
    problem = sets.problem_at(found, 1, 0, 0)
    for text in NO_ANSWERS:
        if name != "regex" or text is None or text == 7 or "(" in text or "<answer>" not in text:
            assert found.verify(problem, text) == Verdict(False, 0.0), text
    generator = np.random.default_rng(0)
    signs = "0123456789abcxyzABC()[]{}<>/*+-.,;:=|?\\ '\"\n"
    for length in generator.integers(1, 60, 40):
        text = "".join(signs[int(place)] for place in generator.integers(len(signs), size=length))
        verdict = found.verify(problem, f"<answer>{text}</answer>")
        assert type(verdict.format) is bool and 0 <= verdict.truth <= verdict.format


def test_what_stands_between_the_tags_decides():
    found = family("addition")
    problem = found.make(np.random.default_rng(0), 2)
    assert found.verify(problem, f"<answer> {problem.answer}\n</answer> or so").truth == 1
    assert found.verify(problem, f"<answer>+{problem.answer}</answer>").truth == 1
    assert found.verify(problem, f"<answer><answer>{problem.answer}</answer>").truth == 1  # the last that opens
    for malformed in (f"{problem.answer}.0", f"{problem.answer} or 5", f"x={problem.answer}", "1,234", "0x1F", "1_000"):
        assert found.verify(problem, f"<answer>{malformed}</answer>") == Verdict(False, 0.0)


def test_unknown_families_and_levels_are_named():
    with pytest.raises(ForageError, match=r"no family of problems named 'countdwn'\. Did you mean 'countdown'"):
        family("countdwn")
    with pytest.raises(ForageError, match="addition has levels 0 to 7, not 8"):
        sets.problem_at(family("addition"), 8, 0, 0)
    for level in (-1, True, 1.0, "1"):
        with pytest.raises(ForageError, match="addition has levels 0 to 7"):
            sets.problem_at(family("addition"), level, 0, 0)
