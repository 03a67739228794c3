"""Problems are the same for the same numbers, and none is in both splits."""

import subprocess
import sys

import numpy as np
import pytest
from small import environment

from forage.core.errors import ForageError
from forage.environments.text import FAMILIES, sets
from forage.environments.text.opening import family


@pytest.mark.parametrize("name", FAMILIES)
def test_splits_share_no_problem_and_problems_come_again(name):
    found = family(name)
    level = 0 if name != "calendar" else 1
    held = sets.problem_set(found, [level], 3, seed=1)
    train = [sets.problem_at(found, level, seed, index) for seed in (1, 2) for index in range(10)]
    assert held == sets.problem_set(found, [level], 3, seed=1)
    assert train[3] == sets.problem_at(found, level, 1, 3)
    assert {sets.split_of(found, problem) for problem in held} == {"held-out"}
    assert {sets.split_of(found, problem) for problem in train} == {"train"}
    assert not {found.identity(problem) for problem in held} & {found.identity(problem) for problem in train}
    assert len({found.identity(problem) for problem in held}) == 3


def test_another_process_makes_the_same_problems():
    code = (
        "from forage.environments.text import FAMILIES, sets\nfrom forage.environments.text.opening import family\n"
        "for name in FAMILIES: print(repr(sets.problem_at(family(name), 2, 5, 7)))"
    )
    hashes = {**environment(), "PYTHONHASHSEED": "17"}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=hashes, check=True)
    assert said.stdout.splitlines() == [repr(sets.problem_at(family(name), 2, 5, 7)) for name in FAMILIES]


def test_what_asks_the_same_is_in_the_same_split():
    found = family("countdown")
    problem = found.make(np.random.default_rng(0), 2)
    turned = problem._replace(prompt="otherwise", data={**problem.data, "numbers": problem.data["numbers"][::-1]})
    assert sets.problem_hash(found, problem) == sets.problem_hash(found, turned)
    # The same text of another family is another problem.
    assert sets.problem_hash(family("addition"), problem) != sets.problem_hash(family("arithmetic"), problem)


def test_the_share_is_that_of_all_problems():
    found = family("reversal")
    generator = np.random.default_rng(0)
    problems = [found.make(generator, 2) for _ in range(2000)]
    held = sum(sets.split_of(found, problem, 0.25) == "held-out" for problem in problems)
    assert abs(held / 2000 - 0.25) < 4 * (0.25 * 0.75 / 2000) ** 0.5


def test_sets_hold_each_level_equally_often():
    found = family("addition")
    problems = sets.problem_set(found, [1, 2, 4], 8)
    assert [len(str(problem.data["left"])) for problem in problems] == [2, 2, 2, 3, 3, 3, 5, 5]


def test_empty_sets_are_refused_in_one_sentence():
    found = family("addition")
    for levels, size in (([], 3), ([1], 0)):
        with pytest.raises(ForageError, match="A set of problems is not empty"):
            sets.problem_set(found, levels, size)
    with pytest.raises(ForageError, match="no problem of level 0 in the split 'held-out' with a share of 0 held out"):
        sets.problem_at(found, 0, 0, 0, "held-out", 0.0)
    with pytest.raises(ForageError, match="too few different problems of level 0"):
        sets.problem_set(found, [0], 30)
    with pytest.raises(ForageError, match="split 'train' or 'held-out'"):
        sets.problem_at(found, 0, 0, 0, "test")
    with pytest.raises(ForageError, match="0 or more, not -3"):
        sets.problem_at(found, 0, -3, 0)


def test_a_problem_and_its_solution_are_shown():
    text = sets.show_problem(family("addition"), 1, 3)
    problem = sets.problem_at(family("addition"), 1, 3, 0)
    assert text.startswith(problem.prompt) and text.endswith(f"<answer>{problem.answer}</answer>")
