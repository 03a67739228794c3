"""Coarse-to-fine Q-networks: zooming, losses and sequences by hand."""

import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import small
from gymnasium import spaces

from forage.core.ports import ActInputs
from forage.core.types import DATASET, Batch, Clock, Experience, Spec
from forage_papers.agents.q_learning.cqn import CQN

small.keep_compiled()
KEY, CLOCK = jax.random.key(0), Clock(jnp.int32(0), jnp.float32(100))
PLANE = Spec("Plane", spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Box(-2.0, 2.0, (2,), np.float32))
TINY = CQN(
    hidden_sizes=(4,), levels=2, intervals=3, atoms=3, low=-1.0, high=1.0, n_step=1, discount=0.5, imitation=2.0,
    margin=0.5, learning_starts=8,
)  # fmt: skip
SEEN = np.array([[0.3, -0.2], [0.1, 0.9]], np.float32)
# Probabilities of returns -1, 0 and 1: of three intervals, in two dimensions; at both levels alike.
SHARES = np.array([
    [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.2, 0.3, 0.5]],
    [[0.1, 0.1, 0.8], [0.4, 0.3, 0.3], [0.3, 0.4, 0.3]],
])  # fmt: skip


@functools.cache
def state_of():
    state = small.at_once(lambda: TINY.init(KEY, PLANE))
    logits = np.log(SHARES)
    value = logits.mean(1)  # of both streams, as their sum is V + A - mean A
    where = lambda n: (n.advantage.layers[-1].bias, n.state_value.layers[-1].bias)  # noqa: E731
    network = equinox.tree_at(
        where, state.network, (logits.reshape(-1).astype(np.float32), value.reshape(-1).astype(np.float32))
    )
    return jax.device_put(state._replace(network=network, target=network))


def test_zooming_by_hand():
    """Intervals of [-1, 1] in thirds, and of these in thirds: 0.3 is in the last ninth of the middle third."""

    def work_out(state):
        network = state.network
        found = network.lying(jnp.array([[0.3, -1.0], [1.0, 0.0]]))
        best = network.greedy(network.torso.rows(SEEN), KEY)
        act = lambda explore, noise: TINY.act(state, ActInputs((), SEEN[0], KEY, explore, noise))[0]  # noqa: E731
        return found, best, act(False, None), act(True, jnp.array([-30.0, 3.0]))

    found, best, still, noisy = small.compute(work_out, state_of())
    assert found.index[0].tolist() == [[1, 0], [2, 0]] and found.index[1].tolist() == [[2, 1], [2, 1]]
    np.testing.assert_allclose(found.middle[0], [[0, 0], [0, -2 / 3]], atol=1e-6)
    np.testing.assert_allclose(found.action, [[2 / 9, -8 / 9], [8 / 9, 0]], atol=1e-6)
    assert best.index.tolist() == [[[2, 0]] * 2] * 2  # worth 0.3 and 0.7
    np.testing.assert_allclose(still, [16 / 9, -16 / 9], rtol=1e-5)
    # The noise goes to 8/9 - 3, which is cut, and to -8/9 + 0.3, in the ninth about -6/9.
    np.testing.assert_allclose(noisy, [-16 / 9, -12 / 9], rtol=1e-5)


def test_what_is_worth_the_same_is_drawn():
    state = small.at_once(lambda: TINY.init(KEY, PLANE))
    found = small.compute(
        lambda: jax.vmap(lambda key: TINY.act(state, ActInputs((), SEEN[0], key, False))[0])(jax.random.split(KEY, 300))
    )
    counts = np.bincount(np.round((found[:, 0] / 2 + 1) * 4.5 - 0.5).astype(int), minlength=9)
    assert len(counts) == 9 and counts.min() > 12


def batch(source):
    """Return two transitions; the second ends its episode."""
    row = lambda *x: np.array([x])  # noqa: E731
    action = np.array([[[0.6, -2.0], [2.0, 0.0]]], np.float32)
    now = Experience(
        SEEN[None], action, row(0.5, 0.25).astype(np.float32), SEEN[None], row(False, True), row(False, False),
        row(*source), (),
    )  # fmt: skip
    return jax.device_put(Batch(now, np.ones(2, np.float32), np.zeros(2, np.int32)))


def test_its_losses_by_hand():
    def work_out(state, own, shown):
        loss = lambda now: TINY.loss(state.network, state.target, now, KEY)[0]  # noqa: E731
        return *jax.tree.map(loss, (own, shown), is_leaf=lambda x: isinstance(x, Batch)), TINY.learn(
            state, own, CLOCK, KEY
        )

    own, shown, (after, metrics, error) = small.compute(work_out, state_of(), batch((0, 0)), batch((0, DATASET)))
    # Of what follows, 0.5 + 0.5 z, by dimension: intervals 2 and 0; after the end all is 0.25.
    goals = [[[0, 0.2 + 0.15, 0.15 + 0.5], [0, 0.1 + 0.05, 0.05 + 0.8]], [[0, 0.75, 0.25]] * 2]
    paths = [[[1, 0], [2, 0]], [[2, 1], [2, 1]]]
    each, divergence = np.zeros(2), np.zeros(2)
    for row, path in enumerate(paths):
        for level in path:
            for dimension, interval in enumerate(level):
                goal, share = np.array(goals[row][dimension]), SHARES[dimension, interval]
                each[row] -= np.sum(goal * np.log(share)) / 4
                divergence[row] -= np.sum(goal[1:] * np.log(share[1:] / goal[1:])) / 4
    np.testing.assert_allclose(own, each.mean(), rtol=1e-4)
    np.testing.assert_allclose(error, divergence, rtol=1e-4)
    assert after.updates == 1 and np.isfinite(metrics["loss"])
    # The second one is a demonstration: both levels take interval 2 and interval 1.
    behind, worth = 0.0, SHARES @ np.array([-1, 0, 1])
    for dimension, interval in enumerate((2, 1)):
        for other in range(3):
            order = np.cumsum(SHARES[dimension, interval]) - np.cumsum(SHARES[dimension, other])
            gap = 0.5 - worth[dimension, interval] + worth[dimension, other]
            behind += (np.maximum(order, 0).sum() + max(gap, 0)) / 6
    np.testing.assert_allclose(shown - own, 2 * behind, rtol=1e-3)
