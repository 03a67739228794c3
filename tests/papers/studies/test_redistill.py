"""A run's answers as rows: prompts, answers and rewards, and the right ones alone."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.environments.text.environment import TextEnvironment
from forage.studies.asking import AnswerScores
from forage_papers.studies import redistill


def test_right_answers_are_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = TextEnvironment("addition", 4)
    loaded = SimpleNamespace(states=[()], agent=None, environment=lambda rows: environment)
    scores = np.array([[1.0, 0.0], [0.0, 0.0]]), *[np.ones((2, 2))] * 2
    heard = AnswerScores(*scores, [["a", "b"], ["c", ""]], *[np.ones((2, 2, 1), int)] * 2)  # type: ignore
    monkeypatch.setattr(redistill, "Run", lambda directory: None)
    monkeypatch.setattr(redistill.LoadedRun, "from_run", lambda run: loaded)
    monkeypatch.setattr(redistill, "ask", lambda *given, **more: heard)
    given: Any = {"problems": 2, "answers": 2}

    def rows(**more: Any) -> list[dict[str, Any]]:
        path = redistill.write_answers("runs/some", tmp_path / "answers.jsonl", **given, **more)
        return [json.loads(line) for line in path.read_text().splitlines()]

    (only,) = rows()
    assert (only["completion"], only["reward"]) == ("a", 1.0) and "+" in only["prompt"]
    assert [(row["completion"], row["reward"]) for row in rows(right=False)] == [("a", 1), ("b", 0), ("c", 0)]
    heard = heard._replace(truth=np.zeros((2, 2)))
    with pytest.raises(ForageError, match="no right answer to 2 problems"):
        rows()
    with pytest.raises(ForageError, match="has the seeds 0 to 0, and no 1"):
        rows(member=1)
