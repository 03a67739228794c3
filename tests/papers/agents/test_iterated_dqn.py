"""i-DQN: the target of each value, the shift of the chain, and DQN as a chain of one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from small import at_once, compute

from forage.agents.q_learning.dqn import DQN, DQNState
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage_papers.agents.q_learning.iterated_dqn import IteratedDQN

SPEC = Spec("Table", spaces.Discrete(3), spaces.Discrete(2))
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
PLAIN = {"dueling": False, "n_step": 1, "hidden_sizes": (4,), "rollout_length": 1, "target_update_interval": 4}
AGENT = IteratedDQN(**PLAIN, chain=3, copy_interval=2, discount=0.5)


def batch(key):
    """Return transitions between three states; some end an episode."""
    keys = jax.random.split(key, 4)
    now, action, after = (jax.random.randint(k, (1, 8), 0, n) for k, n in zip(keys, (3, 2, 3), strict=False))
    ends = jax.random.bernoulli(keys[3], 0.3, (1, 8))
    experience = Experience(
        now, action, after.astype(jnp.float32), after, ends, jnp.zeros((1, 8), bool), jnp.zeros((1, 8), jnp.int32), ()
    )
    return Batch(experience, jnp.ones(8), jnp.arange(8))


def test_each_value_learns_from_the_one_before():
    state = at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    now = batch(jax.random.key(1))
    rows = lambda networks, seen: jax.vmap(lambda n: n.rows(seen[0]))(networks)  # noqa: E731
    q, later = compute(
        lambda: (rows(state.network, now.experience.observation), rows(state.target, now.experience.next_observation))
    )
    e = jax.tree.map(lambda x: np.asarray(x[0]), now.experience)
    target = e.reward + 0.5 * np.where(e.terminated, 0.0, later.max(-1))  # of the networks before, one for each
    error = np.abs(target - q[:, np.arange(8), e.action])
    loss, (found, _) = compute(AGENT.loss, state.network, state.target, now)
    np.testing.assert_allclose(loss, np.where(error < 1, error**2 / 2, error - 0.5).mean(1).sum(), rtol=1e-5)
    np.testing.assert_allclose(found, error.mean(0)[None], rtol=1e-5)
    # At first, what Q_2 and Q_3 learn from are Q_1 and Q_2.
    for before, learned in zip(jax.tree.leaves(state.target), jax.tree.leaves(state.network), strict=True):
        np.testing.assert_array_equal(before[1:], learned[:-1])


def test_the_chain_moves_on():
    learned, before = jnp.array([1.0, 2.0, 3.0]), jnp.array([10.0, 11.0, 12.0])
    move = jax.jit(AGENT.shift_chain)
    nothing, copied, moved = (move(learned, before, jnp.int32(count)) for count in (1, 2, 4))
    assert [x.tolist() for x in nothing] == [[1, 2, 3], [10, 11, 12]]
    assert [x.tolist() for x in copied] == [[1, 2, 3], [10, 1, 2]]
    assert [x.tolist() for x in moved] == [[2, 3, 3], [1, 2, 3]]


def test_a_chain_of_one_is_dqn():
    dqn = DQN(**PLAIN, double=False, discount=0.5)
    one = dataclasses.replace(AGENT, chain=1)
    alone = at_once(lambda: dqn.init(jax.random.key(0), SPEC))
    first = lambda tree: jax.tree.map(lambda x: x[None], tree)  # noqa: E731
    network = first(alone.network)
    chained = DQNState(network, first(alone.target), at_once(lambda: one.descent(1.0).init(network)), jnp.int32(0))
    learn = jax.jit(lambda alone, chained, batch: (
        dqn.learn(alone, batch, CLOCK, jax.random.key(0))[::2], one.learn(chained, batch, CLOCK, jax.random.key(0))[::2]
    ))  # fmt: skip
    for step in range(6):
        (alone, error), (chained, found) = learn(alone, chained, batch(jax.random.key(step)))
        np.testing.assert_allclose(found, error, rtol=1e-4, atol=1e-6)
    for part in ("network", "target"):
        for a, b in zip(jax.tree.leaves(getattr(alone, part)), jax.tree.leaves(getattr(chained, part)), strict=True):
            np.testing.assert_allclose(b[0], a, rtol=1e-4, atol=1e-6)


def test_each_value_is_followed_as_often_as_another():
    state = at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    act = lambda key: AGENT.act(state, ActInputs((), jnp.int32(1), key, explore=True))[0]  # noqa: E731
    actions, shares, q = compute(lambda: (
        jax.vmap(act)(jax.random.split(jax.random.key(1), 600)),
        AGENT.probabilities(state, jnp.int32(1), True),
        AGENT.each_value(state, jnp.int32(1)),
    ))  # fmt: skip
    assert shares[1] == pytest.approx(np.mean(q.argmax(1) == 1))
    assert np.mean(actions) == pytest.approx(shares[1], abs=0.08)


def test_what_is_refused():
    with pytest.raises(ForageError, match="no double targets, memory or noisy layers"):
        IteratedDQN(double=True)
    with pytest.raises(ForageError, match="moves on as a whole"):
        IteratedDQN(target_rate=0.1).check(SPEC)
    with pytest.raises(ForageError, match="values of its own kind; leave bins out"):
        IteratedDQN(bins=11)
