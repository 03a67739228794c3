"""Families of reasoning-gym, if it is installed; otherwise one sentence names the missing library."""

import importlib.util
import inspect
import re
import sys

import pytest

from forage.core.errors import ForageError
from forage.environments.text import reasoning_gym, sets
from forage.environments.text.guard import Guard
from forage.environments.text.opening import family
from forage.environments.text.problems import Verdict

HERE = importlib.util.find_spec("reasoning_gym") is not None
needed = pytest.mark.skipif(not HERE, reason="reasoning-gym is not installed: pip install 'forage-rl[reasoning-gym]'")


def test_without_the_library_one_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ForageError, match=r"pip install 'forage-rl\[reasoning-gym\]'"):
        family("reasoning-gym:chain_sum")


@needed
def test_problems_come_by_name_level_and_seed():
    found = family("reasoning-gym:chain_sum")
    assert found.name == "reasoning-gym:chain_sum" and len(found.levels) > 5 and not found.bounded
    problem = sets.problem_at(found, 2, 3, 4)
    assert problem == sets.problem_at(found, 2, 3, 4) != sets.problem_at(found, 2, 3, 5)
    assert found.verify(problem, found.solution(problem)) == Verdict(True, 1.0)
    assert found.verify(problem, f"<answer>{int(problem.answer) + 1}</answer>").truth < 0.5
    assert found.verify(problem, problem.answer) == Verdict(False, 0.0)
    assert len(sets.problem_at(found, 8, 3, 4).prompt) > len(sets.problem_at(found, 0, 3, 4).prompt)
    with pytest.raises(ForageError, match="another problem of the same seed"):
        found.verify(problem._replace(prompt="other"), found.solution(problem))


@needed
def test_a_verifier_of_the_library_that_crashes_costs_a_sample():
    found = family("reasoning-gym:prime_factorization")
    problem = sets.problem_at(found, 0, 0, 0)
    with Guard(found) as guard:
        assert guard.verify(problem, found.solution(problem)) == Verdict(True, 1.0)
        assert "raised ValueError" in guard.verify(problem, "<answer>two</answer>").failure


@needed
def test_what_cannot_be_had_is_refused_in_one_sentence():
    with pytest.raises(ForageError, match=r"no family named 'chain_sun'\. Did you mean 'reasoning-gym:chain_sum'"):
        family("reasoning-gym:chain_sun")
    with pytest.raises(ForageError, match="runs answers as Python, which Forage never does; Forage's own"):
        family("reasoning-gym:countdown")
    found = family("reasoning-gym:knight_swap")
    with pytest.raises(ForageError, match="cannot make problems of knight_swap at its level 0"):
        sets.problem_at(found, 0, 0, 0)
    found = family("reasoning-gym:graph_color")
    with pytest.raises(ForageError, match="judges answers and has none of its own"):
        found.solution(sets.problem_at(found, 0, 0, 0))


@needed
def test_families_that_are_taken_run_no_answer_as_python():
    running = set()
    for title, (made, _) in reasoning_gym.library().DATASETS.items():
        text = inspect.getsource(made.score_answer)
        if re.search(r"(?<!\w)(eval|exec|parse_expr|sympify)\((?!entry)", text):
            running.add(title)
    taken = set(reasoning_gym.library().DATASETS) - set(reasoning_gym.REFUSED)
    assert len(running) > 5 and not running & taken
