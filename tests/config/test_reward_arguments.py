"""Reward functions in the arguments of a training become options of its environment."""

from pathlib import Path

import pytest

from forage.config.reward_functions import model_of, name_function, names_functions, take_functions, text_options
from forage.core.errors import ForageError
from forage.environments.text.own import scoring
from forage.rewards.environment import EnvironmentReward

FILE = "class Part: pass\ndef score(): pass\nasync def judge(): pass\nmade = Part()\n"


def score(completions):
    return [0.0] * len(completions)


@pytest.fixture
def mine(tmp_path, monkeypatch) -> str:
    monkeypatch.setattr(scoring, "objects", {})
    (tmp_path / "mine.py").write_text(FILE)
    return str(tmp_path / "mine.py")


def test_functions_are_told_from_parts(mine):
    assert [names_functions(f"{mine}:{name}") for name in ("score", "judge", "made", "Part")] == [
        True,
        True,
        True,
        False,
    ]
    assert names_functions(f"{mine}:score,{mine}:judge") and not names_functions("rnd")
    assert take_functions(f"{mine}:score, {mine}:judge") == [f"{mine}:score", f"{mine}:judge"]
    assert take_functions(score) == [score] and take_functions([score, f"{mine}:judge"]) == [score, f"{mine}:judge"]
    assert [take_functions(one) for one in (None, "rnd", EnvironmentReward(), EnvironmentReward)] == [[], [], [], []]
    with pytest.raises(ForageError, match=r"Several rewards are functions, or their names .*, and 3 is neither"):
        take_functions([score, 3])
    with pytest.raises(ForageError, match="An empty list has no reward functions"):
        take_functions([])


def test_functions_become_options_of_the_environment(mine):
    functions, own = [score, f"{mine}:judge"], {"response": 9, "chat": False}
    found = text_options("text:a.jsonl", own, functions, (1, 0.5), "text:b.jsonl", None)
    name = f"{Path(__file__).resolve()}:score"
    assert found["response"] == 9 and found["reward_weights"] == [1, 0.5] and found["evaluate"] == "b.jsonl"
    assert found["rewards"][1] == f"{mine}:judge" and scoring.objects[found["rewards"][0]] is score
    assert found["rewards"][0] in (name, f"{__name__}:score")
    assert name_function(lambda: 0) == "object:function" and name_function(lambda: 1) == "object:function_2"
    assert text_options("CartPole-v1", {"gravity": 9}, [], None, None, mine) == {"gravity": 9}
    for functions, weights in (([score], None), ([], [1.0])):
        with pytest.raises(ForageError, match="judge answers to texts, and CartPole-v1 has none"):
            text_options("CartPole-v1", None, functions, weights, None, None)
    with pytest.raises(ForageError, match="given twice"):
        text_options("text:a.jsonl", {"rewards": "a:b"}, [score], None, None, None)


def test_the_tokenizer_is_the_model_s(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    assert text_options("text:addition", None, [], None, None, str(tmp_path)) == {"tokenizer": str(tmp_path)}
    assert (
        text_options("text:addition", {"tokenizer": "forage"}, [], None, None, str(tmp_path))["tokenizer"] == "forage"
    )
    assert not text_options("text:addition", None, [], None, None, "forage")
    assert model_of("grpo", {"model": "a"}) == "a" and model_of("grpo", None, {}) is None
