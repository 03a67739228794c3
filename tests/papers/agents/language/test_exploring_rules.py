"""Bonuses of critics that disagree and answers that are forgotten, by hand; and a teacher who steps back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import collect, model, run_learn
from test_relatives import REWARD, same, setup_of

from forage.core.types import Clock
from forage_papers.agents.language.cde import CDE, critic_bonus, draw_subsets
from forage_papers.agents.language.eepo import EEPO, Entropies, forgetting_loss
from forage_papers.agents.language.kdrl import KDRL, teacher_mask


def test_disagreement_is_paid_up_to_a_share_of_the_advantage():
    found = critic_bonus(jnp.float32([[3.0, -3.0, 0.3]]), jnp.float32([[1.0, 4.0, 4.0]]), 3.0, 0.5)
    np.testing.assert_allclose(found, [[0.5, 1.0, 0.1]], rtol=1e-6)


def test_sure_tokens_are_forgotten_most():
    """Of 1/2 and 3/4, -log(1 - p) is log 2 and log 4, its slope by log p is p / (1 - p); 1 is bounded."""
    now = jnp.log(jnp.float32([[0.5, 0.75], [1.0, 0.5]]))
    mask = np.array([[True, True], [False, True]])
    loss, slope = jax.value_and_grad(forgetting_loss)(now, mask)
    np.testing.assert_allclose(loss, (np.log(8) / 2 + np.log(2)) / 2, rtol=1e-5)
    np.testing.assert_allclose(slope, [[1 / 4, 3 / 4], [0, 1 / 2]], rtol=1e-5)
    assert np.isfinite(forgetting_loss(jnp.zeros((1, 1)), mask[:1, :1]))


def test_entropies_are_averaged_over_those_there_are():
    assert Entropies(jnp.zeros(3), jnp.int32(0)).mean == jnp.inf
    assert Entropies(jnp.float32([1, 2, 0]), jnp.int32(2)).mean == 1.5


def test_a_teacher_is_heard_where_he_is_needed():
    right = np.array([[True, False], [False, False]])
    assert teacher_mask(right, "none").tolist() == [[1, 1], [1, 1]]
    assert teacher_mask(right, "response").tolist() == [[0, 1], [1, 1]]
    assert teacher_mask(right, "group").tolist() == [[0, 0], [1, 1]]


@pytest.mark.thorough
def test_each_head_learns_from_its_own_share():
    drawn = np.asarray(draw_subsets(jax.random.key(0), 3, 8, 0.5))
    assert drawn.shape == (8, 3) and drawn.sum(0).tolist() == [4, 4, 4]
    assert draw_subsets(jax.random.key(0), 3, 8, 1.0).all()


@pytest.mark.thorough
def test_the_second_half_is_written_by_a_copy_that_forgot(tmp_path):
    agent, state, batch = collect(setup_of("eepo", forgetting_rate=1e4), reward=REWARD)
    assert isinstance(agent, EEPO)
    context = batch.experience.observation["context"][0]
    keys = jax.random.key_data(jax.random.split(jax.random.key(3), 8))
    write = jax.jit(lambda state: agent.write_answers(state, context, keys, jnp.ones((8, 6)), 6, True))
    unsure, sure = (state._replace(kept=Entropies(jnp.full(3, x), jnp.int32(1))) for x in (9.0, 0.0))
    (first, second), (usual, other) = (
        (np.asarray(told).reshape(2, 4, 6)[:, :2], np.asarray(told).reshape(2, 4, 6)[:, 2:])
        for told, _ in (write(unsure), write(sure))
    )
    assert same(first, usual) and not same(second, other)
    rows = agent.rows(batch)
    score = jax.jit(lambda network: agent.score_tokens(network, state, rows)[0].sum())
    forgot = jax.jit(lambda state, rows: agent.forget(state, rows))(state, rows)
    assert score(forgot) < score(state.network)
    after, metrics, _ = run_learn(agent, sure, batch)
    assert metrics["forgot"] == 1 and after.kept.count == 2 and not same(after.network, state.network)
    check_resumed(tmp_path, agent, "text:addition", 24, 40)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["cde", "kdrl"])
def test_they_learn_and_resume(name, tmp_path):
    kdrl = {"teacher": model(1), "masked": "group"}
    agent = setup_of(name, **kdrl).learner().agent if name == "kdrl" else CDE(model=model(), num_envs=8, subset=0.5)
    check_resumed(tmp_path, agent, "text:addition", 24, 40)


@pytest.mark.thorough
def test_the_teacher_steps_back():
    agent, state, batch = collect(setup_of("kdrl", teacher=model(1)), reward=REWARD)
    assert isinstance(agent, KDRL)
    teach = jax.jit(lambda steps: agent.learn(state, batch, Clock(steps, jnp.float32(1e6)), jax.random.key(0))[1])
    found = [teach(jnp.int32(8 * n)) for n in (1, 41, 200)]
    np.testing.assert_allclose([one["teacher_weight"] for one in found], [5e-3, 3e-3, 1e-3], rtol=1e-5)
