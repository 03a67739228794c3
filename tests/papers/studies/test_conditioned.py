"""Prompts with rewards: rows by hand, refusals, and a family that asks for right answers."""

import json

import numpy as np
import pytest
from recorded_helpers import rows_of

from forage.core.types import ForageError
from forage.environments.text.families.addition import Addition
from forage.environments.text.opening import family
from forage_papers.studies.conditioned import write_conditioned, write_wishes


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_say_their_rewards(tmp_path):
    found = lines(write_conditioned(rows_of("scored", 2), tmp_path / "a.jsonl"))
    assert found[0] == {"prompt": "0+1= <rm_score>: 1.50 ", "completion": "1"}
    assert found[1]["prompt"] == "1+1= <rm_score>: 0.50 "
    normal = lines(
        write_conditioned(rows_of("scored", 2), tmp_path / "b.jsonl", normalise=True, template="{reward}{input}")
    )
    assert [row["prompt"] for row in normal] == ["0.710+1=", "-0.711+1="]  # 1 / sqrt 2 of the deviation of two
    wished = write_wishes([{"prompt": "2+2=", "answer": "4"}], tmp_path / "c.jsonl", 1.5)
    assert lines(wished) == [{"prompt": "2+2= <rm_score>: 1.50 ", "answer": "4"}]


def test_what_cannot_be_is_one_sentence(tmp_path):
    alike = [{"prompt": "a", "completion": "b", "reward": 1.0}] * 2
    chat = [{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]}]
    for given, options, says in (
        (alike, {"normalise": True}, "All rewards are alike"),
        (alike, {"template": "{input}"}, "lacks"),
        ([chat[0] | {"reward": 1.0}], {}, "give texts"),
        ([{"prompt": "a"}], {}, "completion"),
    ):
        with pytest.raises(ForageError, match=says):
            write_conditioned(given, tmp_path / "rows.jsonl", **options)
    with pytest.raises(ForageError, match="and not nan"):
        write_wishes([{"prompt": "a"}], tmp_path / "rows.jsonl", float("nan"))


def test_sums_can_be_asked_for_right_answers():
    asked, plain = family("forage_papers.studies.conditioned:AskedAddition"), Addition()
    problem, other = (one.make(np.random.default_rng(0), 1) for one in (asked, plain))
    assert (
        problem.prompt == f"{other.prompt} <rm_score>: 1.00 "
        and asked.verify(problem, plain.solution(other)).truth == 1
    )
