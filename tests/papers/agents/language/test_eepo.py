"""Answers that a copy of the policy forgets before it writes others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_relatives as core
from test_grpo import collect, run_learn
from test_relatives import REWARD, same, setup_of
from tiers import repeat

from forage_papers.agents.language.eepo import EEPO, Entropies, forgetting_loss

test_resumed_is_as_if_never_stopped = repeat(core.test_resumed_is_as_if_never_stopped, ["eepo"])
core.OWN |= {"eepo": {"threshold": 99.0}}
test_bad_settings_are_one_sentence = repeat(
    core.test_bad_settings_are_one_sentence,
    [("eepo", {"group_size": 1, "num_envs": 8}, "2"), ("eepo", {"group_size": 3, "num_envs": 9}, "even")],
)


@pytest.mark.thorough
def test_sure_tokens_are_forgotten_most():
    """Of 1/2 and 3/4, -log(1 - p) is log 2 and log 4, its slope by log p is p / (1 - p); 1 is bounded."""
    now = jnp.log(jnp.float32([[0.5, 0.75], [1.0, 0.5]]))
    mask = np.array([[True, True], [False, True]])
    loss, slope = jax.value_and_grad(forgetting_loss)(now, mask)
    np.testing.assert_allclose(loss, (np.log(8) / 2 + np.log(2)) / 2, rtol=1e-5)
    np.testing.assert_allclose(slope, [[1 / 4, 3 / 4], [0, 1 / 2]], rtol=1e-5)
    assert np.isfinite(forgetting_loss(jnp.zeros((1, 1)), mask[:1, :1]))


@pytest.mark.thorough
def test_entropies_are_averaged_over_those_there_are():
    assert Entropies(jnp.zeros(3), jnp.int32(0)).mean == jnp.inf
    assert Entropies(jnp.float32([1, 2, 0]), jnp.int32(2)).mean == 1.5


@pytest.mark.thorough
def test_the_second_half_is_written_by_a_copy_that_forgot():
    agent, state, batch = collect(setup_of("eepo", forgetting_rate=1e4), reward=REWARD)
    assert isinstance(agent, EEPO)
    context = batch.experience.observation["context"][0]
    keys = jax.random.key_data(jax.random.split(jax.random.key(3), 8))
    write = jax.jit(lambda state: agent.write_answers(state, context, keys, jnp.ones((8, 6)), 6, True))
    unsure, sure = (state._replace(kept=Entropies(jnp.full(3, x), jnp.int32(1))) for x in (999.0, 0.0))
    (first, second), (usual, other) = (
        (np.asarray(told).reshape(2, 4, 6)[:, :2], np.asarray(told).reshape(2, 4, 6)[:, 2:])
        for told, _ in (write(unsure), write(sure))
    )
    assert same(first, usual) and not same(second, other)
    rows = agent.rows(batch)  # of whole groups, whose halves share a prompt as well
    score = jax.jit(lambda network: agent.score_tokens(network, state, rows)[0].sum())
    forgot = jax.jit(lambda state, rows: agent.forget(state, rows))(state, rows)
    assert score(forgot) < score(state.network)
    after, metrics, _ = run_learn(agent, sure, batch)
    assert metrics["forgot"] == 1 and after.kept.count == 2 and not same(after.network, state.network)
