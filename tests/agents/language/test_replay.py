"""GRPO with older answers in a rollout: ratios to their recorded probabilities, and weights from the memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_grpo import collect, setup_of

from forage.agents.language.grpo import replay_advantages
from forage.core.types import Batch, Clock, Replay

CLOCK = Clock(jnp.int32(0), jnp.float32(1000))


def test_advantages_and_weights_are_the_memory_s_where_it_gives_some():
    replay = Replay(jnp.array([False, True, True]), jnp.array([jnp.nan, jnp.nan, 0.7]))
    batch = Batch(None, jnp.array([1.0, 1.0, 0.5]), jnp.arange(3), replay)
    advantage, weight, older = replay_advantages(batch, jnp.array([[1.0, -1.0]]), jnp.array([[1.0, 0.0]]))
    np.testing.assert_allclose(advantage, [1, -1, 0.7])
    np.testing.assert_allclose(weight, [1, 0, 0.5])
    assert older.tolist() == [False, True, True]


@pytest.mark.thorough
def test_older_answers_have_the_ratio_to_what_was_recorded_and_added_ones_their_weight():
    agent, state, batch = collect(setup_of(learning_rate=1e-3), reward=[1, 0, 0, 0, 1, 0, 0, 0])
    learn = jax.jit(lambda batch: agent.learn(state, batch, CLOCK, jax.random.key(1)))
    plain = learn(batch)[0].network

    def same(network):
        return jax.tree.all(jax.tree.map(lambda a, b: bool(np.allclose(a, b, atol=1e-6)), network, plain))

    nothing = jnp.full(8, jnp.nan)
    older = jnp.zeros(8, bool).at[0].set(True)
    # Recorded as it would be now: nothing changes
    assert same(learn(batch._replace(replay=Replay(older, nothing)))[0].network)
    # Recorded as much less probable: its ratio is beyond the bound, and it teaches nothing
    policy_info = batch.experience.policy_info
    less = policy_info._replace(log_probability=policy_info.log_probability.at[:, 0].add(-1.0))
    moved = batch._replace(experience=batch.experience._replace(policy_info=less), replay=Replay(older, nothing))
    after, metrics, _ = learn(moved)
    assert not same(after.network)
    assert metrics["first_ratio"] == 0 and metrics["sampler_gap"] < 1e-5
    # Answers that are added
    more = jax.tree.map(lambda x: jnp.concatenate([x, x[:, :4]], 1), batch.experience)
    added = Replay(jnp.arange(12) >= 8, jnp.concatenate([nothing, jnp.ones(4)]))
    weight = jnp.concatenate([jnp.ones(8), jnp.zeros(4)])
    rows = agent.rows(batch)

    def change(weight):
        network = learn(Batch(more, weight, jnp.arange(12), added))[0].network
        return np.asarray((agent.score_tokens(network, state, rows)[0] * rows.wrote).sum(1))

    silent, loud = change(weight), change(weight + jnp.arange(12) // 8 * 1.0)
    assert (loud[1:4] > silent[1:4]).all()  # wrong ones of the first group, which the added answers call good
