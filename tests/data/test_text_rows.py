"""Rows of recorded text: kinds, formats and faults, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forage.core.types import ForageError
from forage.data.text.rows import KINDS, extract_prompt, read_rows
from forage.data.text.source import is_text_data

USER, ASKED = {"role": "user", "content": "1+1?"}, {"role": "user", "content": "And 2+2?"}
TWO, FOUR = {"role": "assistant", "content": "2"}, {"role": "assistant", "content": "4"}
ALL = tuple(KINDS)


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"text": "a b"}, "text"),
        ({"messages": [USER, TWO]}, "messages"),
        ({"prompt": "1+1=", "completion": "2"}, "completion"),
        ({"prompt": [USER], "chosen": [TWO], "rejected": [FOUR]}, "preference"),
        ({"prompt": "1+1=", "completion": "3", "label": False, "by": "me"}, "label"),
        ({"prompt": "q", "completions": ["a", "b"], "labels": [True, False]}, "steps"),
        ({"prompt": "q", "level": 3}, "prompt"),
    ],
)
def test_a_kind_is_known_by_its_columns(row: dict[str, Any], kind: str) -> None:
    found = read_rows([row], ALL)
    assert (found.kind, found.rows) == (kind, [row])


def test_the_first_kind_that_fits_counts_and_other_columns_are_kept() -> None:
    found = read_rows([{"prompt": "q", "completion": "a", "level": 3}], ("prompt",))
    assert (found.kind, found.others, found.conversational) == ("prompt", ["completion", "level"], False)


def test_an_implicit_prompt_is_what_both_answers_begin_with() -> None:
    """The examples of TRL's `extract_prompt`: turns of dialogues, and texts, where a space belongs to the answers."""
    said = read_rows([{"chosen": [USER, TWO], "rejected": [USER, FOUR]}], ("preference",)).rows[0]
    assert said == {"prompt": [USER], "chosen": [TWO], "rejected": [FOUR]}
    text = extract_prompt({"chosen": "The sky is blue.", "rejected": "The sky is green."})
    assert text == {"prompt": "The sky is", "chosen": " blue.", "rejected": " green."}
    assert extract_prompt({"chosen": "ab", "rejected": "cd"})["prompt"] == ""


def test_shared_gpt_and_tools_as_json_are_read() -> None:
    row = {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yes"}], "tools": '[{"a": 1}]'}
    found = read_rows([row], ("messages",)).rows[0]
    assert found["messages"] == [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    assert found["tools"] == [{"a": 1}]


def test_the_same_rows_come_from_every_format(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "add"}}]}
    rows = [{"prompt": [USER, TWO, ASKED], "completion": [FOUR]}, {"prompt": [USER], "completion": [call, TWO]}]
    expected = read_rows(rows, ("completion",)).rows
    table = arrow.Table.from_pylist(rows)

    def write_stream(path: Path) -> None:
        with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)

    lines(tmp_path / "a.jsonl", *rows, "")
    (tmp_path / "a.json").write_text(json.dumps(rows))
    parquet.write_table(table, tmp_path / "a.parquet")
    cells = ['"' + json.dumps(row[name]).replace('"', '""') + '"' for row in rows for name in row]
    (tmp_path / "a.csv").write_text(f"prompt,completion\n{cells[0]},{cells[1]}\n{cells[2]},{cells[3]}\n")
    shards = tmp_path / "hub" / "data"
    shards.mkdir(parents=True)
    for number in (0, 1):
        parquet.write_table(table.slice(number, 1), shards / f"train-0000{number}-of-00002.parquet")
    parquet.write_table(table.slice(1, 1), shards / "test-00000-of-00001.parquet")
    saved = tmp_path / "saved" / "train"
    saved.mkdir(parents=True)
    write_stream(saved / "data-00000-of-00001.arrow")
    (saved / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (saved.parent / "dataset_dict.json").write_text('{"splits": ["train"]}')
    for name in ("a.jsonl", "a.json", "a.parquet", "a.csv", "hub", "saved", "saved/train"):
        assert read_rows(tmp_path / name, ("completion",)).rows == expected, name
    assert read_rows(tmp_path / "hub" / "test", ("completion",)).rows == expected[1:]
    assert [is_text_data(tmp_path / name) for name in ("a.jsonl", "hub", "saved", "a.csv")] == [True, True, True, False]
    with pytest.raises(ForageError, match=r"has no split 'tset'\. Did you mean 'test'"):
        read_rows(tmp_path / "hub" / "tset", ("completion",))


@pytest.mark.parametrize(
    ("row", "kind", "says"),
    [
        ('{"text": ', "text", "line 2 is no JSON (expecting value)"),
        ("[1]", "text", "line 2 is no JSON object"),
        ({"txt": "b"}, "text", "line 2 has no text"),
        ({"text": " "}, "text", "line 2 has an empty text"),
        ({"text": 3}, "text", "line 2 has no text as text"),
        ({"messages": "hi"}, "messages", "line 2 has no list of messages as messages"),
        ({"messages": []}, "messages", "line 2 has no message in messages"),
        ({"messages": [USER]}, "messages", "line 2 has no message of the assistant in messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages", "line 2 has a message of the role 'robot' in"),
        ({"messages": [{"content": "x"}]}, "messages", "line 2 has a message without a role in messages"),
        ({"messages": [USER, {"role": "assistant", "content": ""}]}, "messages", "an empty message of the assistant"),
        ({"messages": [USER, {"role": "assistant", "content": 4}]}, "messages", "whose content is no text"),
        ({"messages": [USER, TWO], "tools": "["}, "messages", "line 2 has tools that are no JSON"),
        (
            {"prompt": "a", "chosen": "b", "rejected": "b"},
            "preference",
            "has the same answer as chosen and as rejected",
        ),
        ({"prompt": "a", "chosen": "b"}, "preference", "line 2 has no rejected"),
        (
            {"prompt": [USER], "chosen": "b", "rejected": "c"},
            "preference",
            "a text as chosen, a text as rejected, mess",
        ),
        ({"prompt": [USER], "chosen": [TWO], "rejected": [FOUR]}, "preference", "has messages, and the first row a te"),
        ({"chosen": "ab", "rejected": "abc"}, "preference", "of which one begins the other"),
        ({"prompt": "a", "completion": "b", "label": "so"}, "label", "has the label 'so', which is neither true nor f"),
        (
            {"prompt": "a", "completions": ["b"], "labels": []},
            "steps",
            "has 1 completions and another number of labels",
        ),
    ],
)
def test_a_faulty_row_is_named_with_its_line(tmp_path: Path, row: Any, kind: str, says: str) -> None:
    good = {
        "text": {"text": "a"},
        "messages": {"messages": [USER, TWO]},
        "preference": {"prompt": "p", "chosen": "c", "rejected": "r"},
        "label": {"prompt": "p", "completion": "c", "label": 1},
        "steps": {"prompt": "p", "completions": ["c"], "labels": [1]},
    }[kind]
    with pytest.raises(ForageError) as error:
        read_rows(lines(tmp_path / "x.jsonl", good, row), (kind,))
    assert says in str(error.value) and "x.jsonl has a row that cannot be read: line 2 " in str(error.value)


def test_faults_are_told_together_and_not_all(tmp_path: Path) -> None:
    with pytest.raises(ForageError) as error:
        read_rows(lines(tmp_path / "x.jsonl", {"text": "a"}, *["{"] * 8), ("text",))
    assert "has 8 rows that cannot be read: line 2 " in str(error.value)
    assert str(error.value).endswith("; and 3 more. Mend or remove them.")


def test_another_kind_names_who_learns_from_it(tmp_path: Path) -> None:
    pairs = lines(tmp_path / "p.jsonl", {"prompt": "a", "chosen": "b", "rejected": "c"})
    with pytest.raises(ForageError, match=r"sft learns from rows with messages or text, and those of .* have prompt, "):
        read_rows(pairs, ("messages", "text"), "sft")
    with pytest.raises(ForageError, match="has no rows"):
        read_rows(lines(tmp_path / "none.jsonl"), ALL)
    with pytest.raises(ForageError, match="There is no file"):
        read_rows(tmp_path / "absent.jsonl", ALL)
