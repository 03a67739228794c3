"""A run's files can be read back, or one sentence reports the damage."""

import json

import pytest

from forage.core import records
from forage.core.errors import ForageError
from forage.runs.curve import CurveRows

CONFIG = {
    "agent": {"part": "ppo"},
    "environment": {"id": "CartPole-v1"},
    "steps": 10,
    "seeds": [0],
    "sweep": {},
    "spec": {"name": "a", "observation_space": {}, "action_space": {}, "reward_names": [], "horizon": None},
}
EVALUATION = {"members": [{"seed": 0}, {"seed": 1}], "return": [1.5, None], "episodes": 3}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b'"x"',
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' * 80 + b"1" + b"}" * 80,
    ],
)
def test_a_file_that_is_no_record_is_a_sentence(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(ForageError, match=r"a\.json cannot be read: "):
        records.read_record(tmp_path / "a.json")
    with pytest.raises(ForageError, match=r"is not a whole run: it has no b\.json"):
        records.read_record(tmp_path / "b.json")
    with pytest.raises(ForageError, match="cannot be read"):
        records.read_record(tmp_path)


@pytest.mark.parametrize(
    "damage", [b"", b"nonsense", b'{"steps', b"{'steps\": 2}", b"\xff\x00", b"[1]", b'{"steps": "2"}', b"[" * 9999]
)
def test_a_damaged_line_costs_that_line(tmp_path, damage):
    lines = [json.dumps({"steps": step, "return": [1.0]}).encode() for step in range(5)]
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"\n".join([*lines[:2], damage, *lines[3:]]) + b"\n")
    rows, damaged = records.read_lines(path, records.wrong_point)
    assert [row["steps"] for row in rows] == [0, 1, 3, 4] and damaged == [3]
    assert CurveRows(path).drop_after(3) == [3]
    assert [json.loads(line)["steps"] for line in path.read_text().splitlines()] == [0, 1, 3]
    path.write_bytes(b"\n".join(lines) + b'\n{"steps": 5, "ret')  # what a crash leaves
    assert len(records.read_lines(path, records.wrong_point)[0]) == 5
    assert CurveRows(path).drop_after(9) == []


@pytest.mark.parametrize(
    ("row", "good"),
    [
        ({"steps": 1, "return": [1.0, None]}, True),
        ({"steps": 1, "return": [1, 2], "seconds": 0.5, "loss": [float("nan"), 1], "sample": "text"}, True),
        ({"steps": 1, "return": [1.0]}, False),
        ({"steps": 1}, False),
        ({"return": [1.0, 2.0]}, False),
        ({"steps": -1, "return": [1.0, 2.0]}, False),
        ({"steps": True, "return": [1.0, 2.0]}, False),
        ({"steps": float("nan"), "return": [1.0, 2.0]}, False),
        ({"steps": 1, "return": "12"}, False),
        ({"steps": 1, "return": ["1", 2]}, False),
        ({"steps": 1, "return": [1.0, 2.0], "loss": [1]}, False),
        ({"steps": 1, "return": [1.0, 2.0], "seconds": "x"}, False),
        ({"steps": 1, "return": [1.0, 2.0], "x": {}}, False),
    ],
)
def test_points_have_a_value_for_each_member(row, good):
    assert (records.wrong_point(row, 2) == "") is good


@pytest.mark.parametrize(
    "change",
    [
        {"agent": "ppo"},
        {"agent": {"part": 3}},
        {"memory": []},
        {"environment": "CartPole-v1"},
        {"environment": {"id": 3}},
        {"environment": {"id": "a", "options": [1]}},
        {"environment": {"id": "a", "wrap": "x"}},
        {"steps": "10"},
        {"steps": float("inf")},
        {"seeds": []},
        {"seeds": ["<script>", 1]},
        {"seeds": 3},
        {"sweep": []},
        {"sweep": {"a": []}},
        {"sweep": {"a": ["x"]}},
        {"spec": []},
        {"spec": CONFIG["spec"] | {"name": 3}},
        {"spec": CONFIG["spec"] | {"horizon": "x"}},
        {"spec": CONFIG["spec"] | {"reward_names": None}},
        {"spec": CONFIG["spec"] | {"action_space": []}},
        {"parent": "x"},
        {"ends": {"random": "x"}},
        {"history": {}},
    ],
)
def test_a_configuration_of_other_kinds_is_told(change):
    assert records.wrong_config(CONFIG) == "" and records.wrong_config(CONFIG | change)


@pytest.mark.parametrize(
    "change",
    [
        {"members": {}},
        {"members": [{"seed": "x"}, {"seed": 1}]},
        {"members": [{"seed": 0}]},
        {"members": "x"},
        {"members": [{"seed": 0, "learning_rate": "x"}, {"seed": 1}]},
        {"return": [1.0, "2"]},
        {"return": 3},
        {"episodes": "many"},
        {"steps": None},
        {"actions": 3},
        {"choice": "greedy"},
        {"cut": "x"},
        {"no_reward": 0.5},
        {"episode_lengths": 3},
    ],
)
def test_an_evaluation_of_other_kinds_is_told(change):
    assert records.wrong_evaluation(EVALUATION) == "" and records.wrong_evaluation(EVALUATION | change)


def test_events_and_conversations_of_other_kinds_are_told():
    stopped = {"steps": 1, "event": "stopped", "reason": "x"}
    assert not records.wrong_event(stopped) and not records.wrong_event(
        {"steps": 1, "event": "changed", "settings": {}}
    )
    for row in (
        stopped | {"reason": 3},
        {"steps": 1},
        {"steps": 1, "event": "extended", "to": 3},
        stopped | {"settings": {"a": 1}},
    ):
        assert records.wrong_event(row)
    one = {"said": [["prompt", "a"]], "reward": 1.0, "verdict": "", "reference": ""}
    assert not records.wrong_texts({"steps": 1, "members": [[one]]})
    for members in (None, [one], [[{"said": [["a"]]}]], [[one | {"said": [[1, 2]]}]], [[{"said": []}]]):
        assert records.wrong_texts({"steps": 1, "members": members})


def test_texts_do_not_steer_a_terminal(tmp_path):
    evil = "a\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202eb\x7f\x00"
    shown = "a\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\r\\u202eb\\x7f\\x00"
    assert (
        records.printable(evil) == shown and records.printable("tab\tand\nline é ∑ 日本") == "tab\tand\nline é ∑ 日本"
    )
    for text in (json.dumps({evil: [evil, {"x": evil}]}), json.dumps({evil: [evil, {"x": evil}]}, ensure_ascii=False)):
        assert records.parse_json(text) == {shown: [shown, {"x": shown}]}
    (tmp_path / "history.jsonl").write_text(json.dumps({"steps": 1, "reason": evil}) + "\n")
    assert records.read_lines(tmp_path / "history.jsonl")[0] == [{"steps": 1, "reason": shown}]
