"""A reward model as the judge of answers: scores of conversations by hand, and a run that is a reward."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from recorded_helpers import WORDS, rows_of, write_model, write_rows

import forage
from forage.config.references import read_scorer
from forage.config.registry import choose_part
from forage.core.types import Experience, ForageError
from forage.nn.language.scorer import PretrainedScorer, StepEnds, step_logits, step_scores, text_scores
from forage.rewards.verifiers import scorer
from forage.rewards.verifiers.scorer import Scorer


def test_the_last_answer_is_paid_the_score_of_the_whole_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two turns; of the second conversation the first turn is the last. A score is the sum of a text's tokens."""
    context = jnp.array([[[0, 3], [0, 4]], [[3, 5], [0, 0]]])
    action = jnp.array([[[5, 0], [6, 2]], [[7, 1], [0, 0]]])
    reward = jnp.array([[0.0, 0.5], [1.0, 0.0]])
    rest: Any = dict.fromkeys(("next_observation", "terminated", "truncated", "source", "policy_info"), ())
    experience = Experience({"context": context}, action, reward, **rest)

    def add_tokens(network: Any, head: Any, tokens: Any, there: Any) -> Any:
        return jnp.sum(jnp.where(there, tokens + 1, 0), -1).astype(float)

    monkeypatch.setattr(scorer, "text_scores", add_tokens)
    model: Any = PretrainedScorer("a model", weights=object(), head=jnp.ones(2))
    found = scorer.Scorer(model, weight=2.0, own=10.0).relabel((), experience)
    np.testing.assert_allclose(found.reward, [[0, 2 * (4 + 6 + 2) + 5], [2 * (3 + 5 + 7 + 1) + 10, 0]])


def test_a_directory_among_rewards_is_a_reward_model(tmp_path: Path) -> None:
    choice = choose_part("rewards", str(tmp_path))
    assert (choice.name, choice.options) == ("scorer", {"judge": str(tmp_path)})
    with pytest.raises(ForageError, match="A reward model is a run of reward-model or a directory of one, and nowhere"):
        read_scorer("nowhere")


@pytest.mark.thorough
def test_a_run_and_its_export_are_one_reward(tmp_path: Path) -> None:
    model, data = write_model(tmp_path / "model"), write_rows(tmp_path / "pairs.jsonl", rows_of("preference"))
    run = forage.train(
        "reward-model", data=data, model=model, steps=4, batch_size=4, seeds=1, learning_rate=1e-2,
        directory=tmp_path / "judge", display="quiet",
    )  # fmt: skip
    forage.export(run.directory, tmp_path / "exported")
    tokens = jnp.array([[5, 6, 7, 0], [9, 8, 0, 0]])
    one, two = (
        text_scores(*read_scorer(str(path)), tokens, tokens > 0) for path in (run.directory, tmp_path / "exported")
    )
    np.testing.assert_allclose(one, two, rtol=1e-6)
    with pytest.raises(ForageError, match="is a reward model, which writes no text"):
        forage.chat(run.directory)
    learned = forage.train(
        "grpo", "text:addition", rewards=str(run.directory), model=model, steps=16, seeds=1, num_envs=8, group_size=4,
        environment_options={"tokenizer": model, "context": 24, "response": 8}, evaluation_episodes=2,
        directory=tmp_path / "learned", display="quiet",
    )  # fmt: skip
    assert np.isfinite(learned.rows[-1]["reward"][0]) and learned.rows[-1]["reward"][0] != 0


def test_steps_end_at_separators_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens: 0 a, 1 a line break, 2 `b` with a line break, 3 the end. A token's logit of right is its number."""
    ends = StepEnds(*map(np.array, ([False, True, True, False], [False, True, False, True], [False] * 3 + [True])), 1)

    def logits(network: Any, head: Any, tokens: Any, there: Any) -> Any:
        return jnp.stack([jnp.zeros(tokens.shape), tokens.astype(float)], -1)

    monkeypatch.setattr("forage.nn.language.scorer.step_logits", logits)
    tokens = jnp.array([[1, 0, 1, 2, 0, 3], [0, 2, 1, 1, 3, 0], [0, 1, 0, 0, 0, 0], [0, 3, 0, 0, 0, 0]])
    answer = jnp.array([[0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1], [0, 1, 0, 0, 0, 0]], bool)
    network: Any = object()
    score, steps = step_scores(network, jnp.zeros((2, 2)), tokens, answer, answer, ends)
    assert steps.astype(int).tolist() == [
        [0, 0, 1, 1, 0, 1],  # a line break, one within a token, and the end
        [0, 1, 0, 0, 0, 0],  # empty lines and an end behind a line break end no step
        [0, 1, 0, 0, 0, 1],  # cut
        [0, 1, 0, 0, 0, 0],  # nothing but its end
    ]
    right = 1 / (1 + np.exp(-np.array([0.0, 1.0, 2.0])))
    np.testing.assert_allclose(score[0, jnp.array([2, 3, 5])], right[[1, 2, 1]], rtol=1e-6)  # the end as a separator
    found = {rule: scorer.join_steps(score[:2], steps[:2], rule).tolist() for rule in scorer.STEPS}
    expected = {
        "min": [right[1], right[2]],
        "last": [right[1], right[2]],
        "mean": [(2 * right[1] + right[2]) / 3, right[2]],
        "product": [right[1] ** 2 * right[2], right[2]],
    }
    for rule, numbers in expected.items():
        np.testing.assert_allclose(found[rule], numbers, rtol=1e-6)
    assert scorer.join_steps(score[:1], jnp.zeros((1, 6), bool), "min").tolist() == [0]


def test_a_tokenizer_says_which_tokens_end_a_step() -> None:
    ends = StepEnds.from_tokenizer(WORDS, "\n", WORDS.ends)
    assert ends.separator == WORDS.encode("\n")[0] and ends.ending.sum() >= 1 and ends.stop.sum() == len(WORDS.ends)
    assert StepEnds.from_tokenizer(WORDS, "a\n", WORDS.ends).separator is None


@pytest.mark.thorough
def test_a_run_of_steps_and_its_export_are_one_reward(tmp_path: Path) -> None:
    model, data = write_model(tmp_path / "model"), write_rows(tmp_path / "steps.jsonl", rows_of("steps"))
    run = forage.train(
        data=data, model=model, steps=6, batch_size=4, seeds=1, learning_rate=3e-2, directory=tmp_path / "judge",
        display="quiet",
    )  # fmt: skip
    assert "process-reward" in run.title and run.rows[-1]["loss"][0] < run.rows[0]["loss"][0]
    forage.export(run.directory, tmp_path / "exported")
    tokens = jnp.array([[5, 6, 7, 0], [9, 8, 0, 0]])
    one, two = (
        step_logits(*read_scorer(str(path)), tokens, tokens > 0) for path in (run.directory, tmp_path / "exported")
    )
    np.testing.assert_allclose(one, two, rtol=1e-6)
    said = json.loads((tmp_path / "exported" / "config.json").read_text())
    assert said["architectures"] == ["LlamaForTokenClassification"] and len(said["id2label"]) == 2
    learned = forage.train(
        "grpo", "text:addition", rewards=Scorer(str(run.directory), steps="mean"), model=model, steps=16, seeds=1,
        environment_options={"tokenizer": model, "context": 24, "response": 8}, evaluation_episodes=2, num_envs=8,
        group_size=4, directory=tmp_path / "learned", display="quiet",
    )  # fmt: skip
    assert 0 < learned.rows[-1]["reward"][0] < 1
