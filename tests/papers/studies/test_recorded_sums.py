"""Recorded sums of claims: rewards, pairs, and sums worked by parts."""

import json
from pathlib import Path

from forage.environments.text.families.addition import Addition
from forage.environments.text.sets import problem_at
from forage_papers.claims import recorded


def load_lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_recorded_sums_and_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    rows = load_lines(recorded.recorded_sums(40))
    right = [row for row in rows if row["reward"] == 1]
    assert 4 < len(right) < 36 and {row["reward"] for row in rows} == {0.0, 1.0}
    told = load_lines(recorded.sums_with_rewards(40))
    assert told[0]["prompt"] == rows[0]["prompt"].replace("\n", f" <rm_score>: {rows[0]['reward']:.2f} \n")
    pair = load_lines(recorded.paired_sums(5))[0]
    assert pair["chosen"] != pair["rejected"] and pair["chosen"].split("=")[0] == pair["rejected"].split("=")[0]
    problem = problem_at(Addition(), 2, 0, 100_000)
    assert (problem.data["left"], problem.data["right"]) == (852, 270)
    worked = "800+200=1000, 50+70=120, 2+0=2, 1000+120=1120, 1120+2=1122. <answer>1122</answer>"
    assert recorded.sum_by_parts(problem) == worked
    assert load_lines(recorded.worked_sums((2,), 1, by_parts=True)) == [
        {"prompt": f"{problem.prompt}\n", "completion": worked}
    ]
