"""A reward model as the judge of answers: scores of conversations by hand, and a run that is a reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from recorded_helpers import rows_of, write_model, write_rows

import forage
from forage.config.references import read_scorer
from forage.config.registry import choose_part
from forage.core.types import Experience, ForageError
from forage.nn.language.scorer import PretrainedScorer, text_scores
from forage.rewards.verifiers import scorer


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
