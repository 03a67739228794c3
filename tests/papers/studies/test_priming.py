"""Texts to prime with show the wanted habits and no others, and their answers are right or wrong as asked."""

import json
from pathlib import Path

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.environments.text.families.countdown import Countdown
from forage.environments.text.sets import problem_at
from forage.evaluation.habits import Habits, habits
from forage_papers.studies.priming import PRIMES, trace, write_traces


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("prime", PRIMES)
def test_a_text_shows_the_habits_of_its_data_set(prime: str, wrong: bool) -> None:
    family = Countdown()
    for number in range(40):
        problem = problem_at(family, number % 4, 0, number)
        text = trace(problem, PRIMES[prime], np.random.default_rng(number), wrong)
        given, target = problem.data["numbers"], problem.data["target"]
        shown = habits(text, given, target)._asdict()
        expected = set(PRIMES[prime])
        assert {name for name, times in shown.items() if times} == expected, text
        verdict = family.verify(problem, text)
        assert verdict.format and verdict.truth == (not wrong), text
    assert set(Habits._fields) == set(PRIMES["all"])


def test_rows_to_prime_with_are_those_of_fine_tuning(tmp_path: Path) -> None:
    path = write_traces(tmp_path / "traces.jsonl", "all", count=3)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [set(row) for row in rows] == [{"prompt", "completion"}] * 3
    assert len({row["prompt"] for row in rows}) == 3
    with pytest.raises(ForageError, match="There are no texts 'al' to prime with"):
        write_traces(path, "al")
    with pytest.raises(ForageError, match="1 or more, not 0"):
        write_traces(path, count=0)
