"""Rows that were given in Python: as prompts, as recorded text and for evaluation, kept with the run."""

import json
import types
from pathlib import Path
from typing import Any

import pytest

import forage
from forage.config.reward_functions import find_moved_prompts
from forage.core.errors import ForageError
from forage.loop.host.starts import HostStarts
from forage.runs import kept_rows

ROWS = [{"prompt": f"Compute {n} + 1.", "answer": str(n + 1)} for n in range(5)]


class Columns:
    """A data set of Hugging Face's, as far as rows are read of it."""

    column_names = ("prompt", "answer")

    def __init__(self, rows):
        self.to_list = lambda: rows


def test_rows_are_lists_and_data_sets():
    for given in (ROWS, tuple(ROWS), Columns(ROWS), (row for row in ROWS)):
        assert kept_rows.read_argument(given, "data") == ROWS
    streamed = types.SimpleNamespace(column_names=["prompt"])
    assert kept_rows.read_argument("text:addition", "data") is kept_rows.read_argument({"a": 1}, "data") is None
    with pytest.raises(TypeError):
        kept_rows.read_argument(streamed, "data")
    with pytest.raises(ForageError, match=r"environment has the splits train, test; give one, as in data\['train'\]"):
        kept_rows.read_argument({"train": Columns(ROWS), "test": Columns([])}, "environment")
    with pytest.raises(
        ForageError, match="The list for evaluation has rows that can be written as JSON, and one cannot"
    ):
        kept_rows.write_lines([{"prompt": object()}], "evaluate")


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([], {}, "^The list of prompts has no rows"),
        ([{"text": "a"}], {}, "and those of The list of prompts have text; sft learns"),
        (["a"], {}, "not a list, whose entries would be prompts if they were dictionaries"),
        ([ROWS[0], "a"], {}, "line 2 is no JSON object"),
        (ROWS, {}, "has prompts, and no function judges the answers"),
        (ROWS, {"evaluate": [{"answer": "3"}], "rewards": len}, "those of The list for evaluation have answer"),
        (
            None,
            {"data": ROWS},
            "^The data has prompts, to which grpo writes the answers itself; they are an environment",
        ),
    ],
)
def test_wrong_rows_are_told_of_in_a_sentence(rows, options, words, tmp_path):
    with pytest.raises(ForageError, match=words):
        forage.train("grpo", rows, steps=8, directory=tmp_path / "run", display="quiet", **options)


def test_prompts_are_found_where_a_run_was_moved(tmp_path):
    (tmp_path / "prompts.jsonl").write_text("{}")
    config: dict[str, Any] = {
        "environment": {"id": "text:/former/prompts.jsonl", "options": {"evaluate": "/former/held-out.jsonl"}}
    }
    found = find_moved_prompts(config, tmp_path)["environment"]
    assert found == {"id": f"text:{tmp_path / 'prompts.jsonl'}", "options": {"evaluate": "/former/held-out.jsonl"}}
    assert (
        find_moved_prompts({"environment": {"id": "text:addition"}}, tmp_path)["environment"]["id"] == "text:addition"
    )


def test_every_row_begins_one_group_in_a_pass():
    starts: Any = types.SimpleNamespace(environment=types.SimpleNamespace(pass_length=5), seed=3, order=(-1, ()))
    numbers = [HostStarts.number_in_pass(starts, group) for group in range(15)]
    passes = [numbers[:5], numbers[5:10], numbers[10:]]
    assert all(sorted(one) == [0, 1, 2, 3, 4] for one in passes) and passes[0] != passes[1]
    assert HostStarts.number_in_pass(starts, 7) == numbers[7]  # also when a run is resumed
    starts.environment.pass_length = 0
    assert HostStarts.number_in_pass(starts, 7) is None


asked: list[list[str]] = []


def judge(prompts, completions, answer, **others):
    asked.append(list(prompts))
    return [float(right in said) for right, said in zip(answer, completions, strict=True)]


@pytest.mark.thorough
def test_prompts_in_python_are_trained_on_and_kept(tmp_path: Path) -> None:
    asked.clear()
    given: dict[str, Any] = {"num_envs": 4, "group_size": 2, "seeds": [1], "evaluation_episodes": 1}
    run = forage.train(
        "grpo",
        Columns(ROWS),
        rewards=judge,
        evaluate=ROWS[:1],
        steps=20,
        evaluation_every=20,
        environment_options={"response": 8},
        directory=tmp_path / "run",
        display="quiet",
        **given,
    )
    groups = [prompts[place] for prompts in asked if len(prompts) == 4 for place in (0, 2)]
    assert set(groups[:5]) == set(groups[5:10]) == {row["prompt"] for row in ROWS}
    kept = [json.loads(line) for line in (tmp_path / "run" / "prompts.jsonl").read_text().splitlines()]
    assert kept == ROWS and run.config["environment"]["id"] == f"text:{tmp_path / 'run' / 'prompts.jsonl'}"
    (tmp_path / "run").rename(tmp_path / "moved")
    assert forage.resume(tmp_path / "moved", steps=24, display="quiet").config["steps"] == 24
