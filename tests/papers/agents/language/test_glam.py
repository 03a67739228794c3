"""GLAM chooses among given texts by their log-probabilities, and learns by PPO along turns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import collect, model, run_learn

from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.nn.language.generate import log_probabilities
from forage_papers.agents.language.turns.glam import GLAM, Turns

TEXTS = ("go north", "1", "22")


def setup_of(**options):
    given = {"model": model(), "num_envs": 4, "minibatches": 1, "epochs": 1, "actions": TEXTS} | options
    return resolve("glam", "text:guess", environment_options={"response": 12}, agent_options=given, steps=64, seeds=[0])


def test_the_loss_of_two_turns_by_hand(monkeypatch):
    """Two texts with probabilities 0.75 and 0.25, each chosen once; a third turn waits."""
    log_p = np.log(np.float32([[0.75, 0.25]] * 3))
    monkeypatch.setattr(GLAM, "score_turns", lambda *_: (log_p, np.float32([1.0, 2.0, 9.0])))
    # ratios 1.5, cut to 1.2, and 0.5, which is not cut for a positive advantage
    old = np.log(np.float32([0.5, 0.5, 0.5]))
    part = Turns(
        None, None, np.int32([0, 1, 0]), np.float32([2, 3, 9]), np.float32([0.5, 0, 9]), old, np.float32([1, 1, 0])
    )
    agent = GLAM(actions=TEXTS, entropy_coefficient=0.1)
    loss, metrics = jax.jit(lambda part: agent.objective(None, None, None, part))(part)
    policy = -(1.2 * 2 + 0.5 * 3) / 2
    value = ((0.7 - 2.5) ** 2 + (0.2 - 3.0) ** 2) / 2  # moved from 0.5 and 0 by at most 0.2
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    np.testing.assert_allclose([metrics["policy_loss"], metrics["value_loss"]], [policy, value], rtol=1e-5)
    np.testing.assert_allclose(loss, policy - 0.1 * entropy + 0.5 * value, rtol=1e-5)


@pytest.mark.thorough
def test_what_cannot_be_is_one_sentence():
    for options, says in (
        ({"actions": ("1",)}, "two different texts"),
        ({"actions": ("1", "one " * 9)}, "room for 12"),
    ):
        with pytest.raises(ForageError, match=says):
            setup_of(**options).runner()


@pytest.mark.thorough
def test_texts_are_scored_written_and_recognised():
    agent, state, batch = collect(setup_of())
    assert isinstance(agent, GLAM)
    context = batch.experience.observation["context"][0]
    scored = jax.jit(lambda c: agent.score_actions(state.network, state, c))(context)
    table, real = agent.table
    for number, text in enumerate(table):
        row = jnp.concatenate([context - 1, jnp.tile(text, (4, 1))], axis=1)
        there = jnp.concatenate([context > 0, jnp.tile(real[number], (4, 1))], axis=1)
        log_p = log_probabilities(state.network, jnp.maximum(row, 0), mask=there, allowed=state.known)[0]
        np.testing.assert_allclose(log_p[:, -len(text) :].sum(1), scored.scores[:, number], rtol=1e-4)
    lesson = agent.collect_turns(state, batch)
    found = agent.as_actions(state, 12)[lesson.chosen]
    wrote = np.asarray(lesson.weight) > 0
    np.testing.assert_array_equal(found[wrote], batch.experience.action.reshape(-1, 12)[wrote])
    kept = batch.experience.policy_info.log_probability[..., 0].reshape(-1)
    np.testing.assert_allclose(lesson.old[wrote], kept[wrote], rtol=1e-4)
    after, metrics, _ = run_learn(agent, state, batch)
    assert metrics["moved"] < 1e-5 and not jnp.array_equal(after.network.table, state.network.table)


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    agent = setup_of(rollout_length=4).learner().agent
    check_resumed(tmp_path, agent, "text:guess", 32, 64, environment_options={"response": 12})
