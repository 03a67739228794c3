"""D3S: its choice of answers and tokens, and stopping and resuming."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import collect, model, run_learn, setup_of  # pyrefly: ignore[missing-import]

from forage.core.types import Clock
from forage_papers.agents.language.d3s import D3S

OPTIONS = {"model": model(), "num_envs": 8, "group_size": 4, "rollout_length": 1}


def test_the_answers_that_vary_most_come_first_and_all_at_the_end():
    agent = D3S(**OPTIONS, answers=0.5)
    reward = jnp.array([[1.0, 0.5, 0.5, 0.0], [0, 0, 0, 1]])
    assert agent.answer_advantages(reward)[1].tolist()[0] == [1, 0, 0, 1]
    assert agent.answer_advantages(reward)[1][1].sum() == 2 and agent.answer_advantages(reward)[1][1, 3] == 1
    assert (D3S(**OPTIONS, answers=1.0).answer_advantages(reward)[1] == 1).all()


@pytest.mark.thorough
def test_with_all_answers_and_tokens_it_is_grpo():
    plain, state, batch = collect(setup_of(rollout_length=1), reward=[1, 0, 0, 0, 1, 1, 0, 0])
    agent = D3S(**OPTIONS, until=0.5)
    one = run_learn(plain, state, batch)[0].network
    late = Clock(jnp.int32(999), jnp.float32(1000))
    rate = plain.learning_rate
    assert agent.learning_rate == rate and agent.final_learning_rate == 1.0
    two = jax.jit(lambda state, batch: agent.learn(state, batch, late, jax.random.key(1)))(state, batch)[0].network
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(np.allclose(a, b, atol=1e-6)), one, two))
    early = run_learn(agent, state, batch)[0].network
    assert not jax.tree.all(jax.tree.map(lambda a, b: bool(np.allclose(a, b, atol=1e-6)), one, early))


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    check_resumed(tmp_path, D3S(**OPTIONS), "text:addition", 24, 40)
