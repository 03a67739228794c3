"""Answers chosen at test time: orders worked by hand, shares and random ones, and a run by the command."""

import json
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from recorded_helpers import rows_of, write_model, write_rows
from test_asking import SMALL, run

import forage
from forage.cli.entry import run as command
from forage.core.types import ForageError
from forage.evaluation.passing import choosing
from forage.nn.language.scorer import text_scores
from forage.runs.run import Run
from forage.studies.asking import LoadedRun, ask, problems_of
from forage.studies.choosing import Candidates, Majority, answer_rows, choose, make_chooser

_ = SMALL, run  # the run of test_asking, as a fixture


def test_what_most_answers_say_is_tried_first():
    told = Candidates((), [], ["7", None, "3", "7", "3", "3", "9"], None, None)  # type: ignore[arg-type]
    # One of 3, of 7 and of 9, then the others of 3 and 7, and last what says nothing
    assert Majority().order(told).tolist() == [2, 0, 6, 4, 5, 3, 1]


def test_the_first_answers_of_an_order_are_compared_with_random_ones():
    """Two problems with 1 and 2 right answers of 4: at random 3/8 and (1/2 + 5/6) / 2, in order 1/2 and 1/2, then 1."""
    right = np.array([[[1, 0, 0, 0], [0, 0, 1, 1]]], bool)
    found = choosing(right, resamples=100)
    assert found.ks == [1, 2, 4]
    np.testing.assert_allclose(found.chosen.value, [0.5, 0.5, 1])
    np.testing.assert_allclose(found.random.value, [3 / 8, 2 / 3, 1])
    np.testing.assert_allclose(found.difference.value, [1 / 8, -1 / 6, 0])
    assert "at random" in str(found) and found.data()["chosen"]["value"] == [0.5, 0.5, 1]


def test_rules_that_are_none_are_refused():
    for name in ("best", "most", "majority:x", "forage.studies.choosing:Candidates"):
        with pytest.raises(ForageError, match="no rule"):
            make_chooser(name, None)  # type: ignore[arg-type]


@pytest.mark.thorough
@pytest.mark.parametrize("rule", ["majority", "certainty"])
def test_answers_are_chosen_by_the_command(run, rule, capsys):
    command(["evaluate", str(run), "--pass", "4", "--choose", rule, "--episodes", "5", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["rule"] == rule and said["k"] == [1, 2, 4] and said["seeds"] == 2
    kept = json.loads((run / "choose.json").read_text())
    assert kept.pop("seeds") == [0, 1] and all(said[name] == kept[name] for name in said.keys() & kept.keys())
    # All of the answers are the same set in any order
    assert said["chosen"]["value"][-1] == said["random"]["value"][-1]


@pytest.mark.thorough
def test_the_best_answer_is_by_a_reward_model(tmp_path):
    given: dict[str, Any] = {"model": write_model(tmp_path / "model"), "seeds": [0], "display": "quiet"}
    rows = write_rows(tmp_path / "rows.jsonl", rows_of("preference"))
    judge = forage.train("reward-model", data=rows, directory=tmp_path / "judge", batch_size=4, steps=2, **given)
    given |= {"environment_options": {"response": 8, "tokenizer": given["model"]}, "evaluation_episodes": 2}
    sizes = {"num_envs": 8, "group_size": 4, "steps": 8}
    policy = forage.train("grpo", "text:addition", directory=tmp_path / "run", **sizes, **given)
    assert choose(policy.directory, f"best:{judge.directory}", 3, problems=2).choosing.drawn == 3
    loaded = LoadedRun.from_run(Run(policy.directory))
    environment = loaded.environment(4)
    try:
        chooser = make_chooser(f"best:{judge.directory}", environment.spec)
        problem = problems_of(environment, 1, 0)
        heard = ask(loaded.agent, loaded.states[0], environment, problem, 4)
        told = Candidates(answer_rows(heard, 0), heard.texts[0], [], loaded.agent, loaded.states[0])  # type: ignore[arg-type]
        model, score = chooser.model, []  # type: ignore[attr-defined]
        for context, action in zip(heard.context[0], heard.action[0], strict=True):
            whole = np.concatenate([context, action])
            text = whole[whole > 0][None] - 1  # without padding, and alone
            score.append(float(text_scores(model.weights, model.head, jnp.asarray(text), jnp.asarray(text) >= 0)[0]))
        assert chooser.order(told).tolist() == sorted(range(4), key=lambda n: -score[n])
    finally:
        environment.close()
