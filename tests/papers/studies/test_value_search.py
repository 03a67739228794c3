"""Beam search by a critic: beams by hand, with a writer of digits, and of a run."""

from typing import Any

import numpy as np
import pytest
from recorded_helpers import rows_of, write_model, write_rows

import forage
from forage.core.types import ForageError
from forage_papers.studies.value_search import Beam, run_search, search, select_beams


class Digits:
    """Writes the digits 1 and 2 in turn, ends after two of them, and values a text as a number."""

    def __init__(self, sign: int = 1):
        self.sign, self.asked = sign, 0

    def write(self, prompts: list[Any], told: list[tuple[int, ...]]) -> Any:
        self.asked += len(told)
        texts = [(*text, 1 + n % 2) for n, text in enumerate(told)]
        values = [self.sign * float("".join(map(str, text))) for text in texts]
        return texts, np.array([len(text) == 2 for text in texts]), np.array(values)


def test_the_best_unfinished_beams_go_on():
    found = [Beam((1,), 0.1), Beam((2,), 0.9), Beam((3,), 0.5), Beam((4,), 0.7)]
    best, done = select_beams(found, np.array([False, True, False, False]), 2)
    assert [beam.tokens for beam in best] == [(4,), (3,)] and [beam.tokens for beam in done] == [(2,)]


def test_the_answer_of_the_highest_value_is_found():
    writer = Digits()
    assert run_search(writer, [np.zeros(1)] * 2, 2, 5) == [(2, 2)] * 2
    assert writer.asked == 2 * (2 + 4)  # two steps of the prompt, and two of each of the two beams
    assert run_search(Digits(-1), [np.zeros(1)], 2, 5) == [(1, 1)]
    assert run_search(Digits(), [np.zeros(1)], 2, 1) == [()]  # none has ended after one step


@pytest.mark.thorough
def test_a_run_is_searched(tmp_path):
    given: dict[str, Any] = {"data": write_rows(tmp_path / "rows.jsonl", rows_of("scored"))}
    given |= {"model": write_model(tmp_path / "model"), "batch_size": 4, "steps": 4, "seeds": [0], "display": "quiet"}
    options = {"environment_options": {"response": 8, "tokenizer": str(tmp_path / "model")}}
    run = forage.train("oreo", "text:addition", directory=tmp_path / "run", evaluation_episodes=2, **given, **options)
    found = search(run.directory, problems=3, width=2, steps=3, separator="a")
    assert len(found.searched) == 1 and found.problems == 3 and 0 <= found.searched[0] <= 1
    with pytest.raises(ForageError, match="give another separator"):
        search(run.directory, problems=2, separator="no such text")
    other = forage.train("sft", "text:addition", directory=tmp_path / "sft", evaluation_episodes=2, **given, **options)
    with pytest.raises(ForageError, match="name a run of oreo or ppo-language"):
        search(other.directory, problems=2)
