"""CodeRL: outcomes, the critic's loss and returns of tokens by hand, and stopping and resuming."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import collect, run_learn
from test_relatives import setup_of

from forage.core.types import AGENT, Experience
from forage_papers.agents.language.selective.code_rl import AnswerClasses, critic_loss, outcome_classes


def rollout_with(truth, **info):
    """Return a rollout of one turn with these numbers."""
    nothing: Any = np.zeros((1, len(truth)))
    info = {name: np.float32([value]) for name, value in {"truth": truth, **info}.items()}
    source = np.full(nothing.shape, AGENT)
    return Experience(nothing, nothing, nothing, nothing, nothing > -1, nothing > 0, source, (), info=info)


def test_outcomes_are_four():
    given = {"format": [0, 1, 1, 1], "executed": [0, 0, 1, 1]}
    assert outcome_classes(rollout_with([0, 0, 0, 1], **given)).tolist() == [0, 1, 2, 3]
    assert outcome_classes(rollout_with([0, 0, 0.5, 1], format=given["format"])).tolist() == [0, 2, 2, 3]
    assert outcome_classes(rollout_with([np.nan, 1.0])).tolist() == [2, 3]


@pytest.mark.thorough
def test_the_critic_predicts_by_the_largest_output():
    """Of two outcomes the first answer has the largest outputs 1 and 3; its third token was not written."""
    logits = jnp.float32([[[1, 0], [0, 3], [9, 9]], [[2, 0], [0, 0], [0, 0]]])
    wrote = jnp.array([[True, True, False], [True, True, True]])
    items = AnswerClasses((), jnp.array([1, 1]), jnp.array([True, True]))  # type: ignore[arg-type]
    loss, accuracy = critic_loss(logits, wrote, items)
    np.testing.assert_allclose(loss, (np.log1p(np.exp(-2)) + np.log1p(np.exp(2))) / 2, rtol=1e-5)
    assert accuracy == 0.5
    alone = critic_loss(logits, wrote, items._replace(counts=jnp.array([True, False])))
    np.testing.assert_allclose(alone[0], np.log1p(np.exp(-2)), rtol=1e-5)


@pytest.mark.thorough
def test_returns_are_over_the_greedy_answer_and_by_the_critics_chance():
    agent, state, batch = collect(setup_of("code-rl"))
    truth = np.float32([[0, 1, 0, 0, 1, 0, 1, 0]])
    info = {"truth": truth, "format": np.float32([[1, 1, 0, 1, 1, 1, 1, 1]])}
    batch = batch._replace(experience=batch.experience._replace(info=info))
    lesson = agent.with_log_probabilities(state, agent.collect_answers(batch))
    found = agent.assign_credit(batch, lesson, jnp.asarray(truth.reshape(2, 4)))
    better = [0, 1.3, -0.7, 0, 0, -1.3, 0, -1.3]
    outcome = [2, 3, 0, 2, 3, 2, 3, 2]
    chance = np.asarray(lesson.more[1])[np.arange(8), :, outcome]
    np.testing.assert_allclose(found.advantage[:8], np.array(better)[:, None] * chance, rtol=1e-5)
    assert found.weight.tolist() == [0, 1, 1, 1] * 2 + [1, 1]
    after, metrics, _ = run_learn(agent, state, batch)
    assert {"critic_loss", "critic_accuracy", "reference_probability"} <= metrics.keys()
    changed = jax.tree.map(lambda a, b: not np.array_equal(a, b), after.kept.weights.head, state.kept.weights.head)
    assert changed


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    check_resumed(tmp_path, setup_of("code-rl").learner().agent, "text:addition", 24, 40)
