"""Bonuses of critics that disagree, and a teacher whose weight falls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import collect, model
from test_relatives import REWARD, setup_of

from forage.core.types import Clock
from forage_papers.agents.language.cde import CDE, critic_bonus, draw_subsets
from forage_papers.agents.language.kdrl import KDRL, teacher_mask


def test_disagreement_is_paid_up_to_a_share_of_the_advantage():
    found = critic_bonus(jnp.float32([[3.0, -3.0, 0.3]]), jnp.float32([[1.0, 4.0, 4.0]]), 3.0, 0.5)
    np.testing.assert_allclose(found, [[0.5, 1.0, 0.1]], rtol=1e-6)


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
@pytest.mark.parametrize("name", ["cde", "kdrl"])
def test_resumed_is_as_if_never_stopped(name, tmp_path):
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
