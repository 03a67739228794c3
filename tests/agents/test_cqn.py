"""Coarse-to-fine Q-networks: zooming, losses and sequences by hand."""

import dataclasses
import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.agents.q_learning.cqn import CQN, of_path
from forage.core.types import DATASET, Batch, Clock, Experience, ForageError, Spec
from forage_papers.agents.q_learning.cqn_as import CQNAS, Planned

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

    def worked(state):
        network = state.network
        found = network.lying(jnp.array([[0.3, -1.0], [1.0, 0.0]]))
        best = network.greedy(network.torso.rows(SEEN), KEY)
        act = lambda explore, noise: TINY.act(state, (), SEEN[0], KEY, explore, noise)[0]  # noqa: E731
        return found, best, act(False, None), act(True, jnp.array([-30.0, 3.0]))

    found, best, still, noisy = small.compute(worked, state_of())
    assert found.index[0].tolist() == [[1, 0], [2, 0]] and found.index[1].tolist() == [[2, 1], [2, 1]]
    np.testing.assert_allclose(found.middle[0], [[0, 0], [0, -2 / 3]], atol=1e-6)
    np.testing.assert_allclose(found.action, [[2 / 9, -8 / 9], [8 / 9, 0]], atol=1e-6)
    assert best.index.tolist() == [[[2, 0]] * 2] * 2  # worth 0.3 and 0.7
    np.testing.assert_allclose(still, [16 / 9, -16 / 9], rtol=1e-5)
    # The noise goes to 8/9 - 3, which is cut, and to -8/9 + 0.3, in the ninth about -6/9.
    np.testing.assert_allclose(noisy, [-16 / 9, -12 / 9], rtol=1e-5)


@pytest.mark.parametrize("agent", [TINY, CQNAS(hidden_sizes=(4,), sequence=3)])
def test_hidden_layers_begin_orthogonal(agent):
    network = small.at_once(lambda: agent.network(KEY, PLANE))
    for stream in (network.advantage, network.state_value):
        weight, bias = stream.layers[0].weight, stream.layers[0].bias
        np.testing.assert_allclose(weight.T @ weight, np.eye(4), atol=1e-5)
        assert not bias.any()


def test_what_is_worth_the_same_is_drawn():
    state = small.at_once(lambda: TINY.init(KEY, PLANE))
    found = small.compute(
        lambda: jax.vmap(lambda key: TINY.act(state, (), SEEN[0], key, False)[0])(jax.random.split(KEY, 300))
    )
    counts = np.bincount(np.round((found[:, 0] / 2 + 1) * 4.5 - 0.5).astype(int), minlength=9)
    assert len(counts) == 9 and counts.min() > 12


def batch(source):
    """Two transitions, of which the second ends."""
    row = lambda *x: np.array([x])  # noqa: E731
    action = np.array([[[0.6, -2.0], [2.0, 0.0]]], np.float32)
    now = Experience(
        SEEN[None], action, row(0.5, 0.25).astype(np.float32), SEEN[None], row(False, True), row(False, False),
        row(*source), (),
    )  # fmt: skip
    return jax.device_put(Batch(now, np.ones(2, np.float32), np.zeros(2, np.int32)))


def test_its_losses_by_hand():
    def worked(state, own, shown):
        loss = lambda now: TINY.loss(state.network, state.target, now, KEY)[0]  # noqa: E731
        return *jax.tree.map(loss, (own, shown), is_leaf=lambda x: isinstance(x, Batch)), TINY.learn(
            state, own, CLOCK, KEY
        )

    own, shown, (after, metrics, error) = small.compute(worked, state_of(), batch((0, 0)), batch((0, DATASET)))
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


SEQUENCE = CQNAS(hidden_sizes=(4,), levels=2, intervals=3, atoms=3, low=-1.0, high=1.0, n_step=1, sequence=3)


def test_sequences_average_what_several_have_for_now():
    agent = dataclasses.replace(SEQUENCE, ensembling=float(np.log(2)))
    step = jax.jit(agent.played)
    hidden = agent.hidden(PLANE)
    done = []
    for number in range(4):
        # Sequence number n has n, 10 + n and 20 + n for its steps, in both dimensions.
        sequence = np.repeat(np.array([0.0, 10.0, 20.0]) + number, 2).astype(np.float32)
        action, hidden = step(jnp.asarray(sequence), hidden)
        done.append(action)
    assert isinstance(hidden, Planned) and hidden.count == 3
    # The oldest counts 1, the next 1/2, the newest 1/4; after three, the first is gone.
    by_hand = [0, (10 + 1 / 2) / 1.5, (20 + 11 / 2 + 2 / 4) / 1.75, (21 + 12 / 2 + 3 / 4) / 1.75]
    np.testing.assert_allclose(done, np.repeat(by_hand, 2).reshape(4, 2), rtol=1e-5)


def test_noise_on_a_sequence_is_done_as_it_is():
    """It moves an action by less than an interval, and by as much as it is; what leaves the box is cut."""

    def worked(noise):
        state, hidden = SEQUENCE.init(KEY, PLANE), SEQUENCE.hidden(PLANE)
        act = lambda explore: SEQUENCE.act(state, hidden, SEEN[0], KEY, explore, noise)[0]  # noqa: E731
        return act(False), act(True)

    noise = np.array([1.5, -1000.0], np.float32)
    still, noisy = small.compute(worked, noise)
    np.testing.assert_allclose(noisy, [still[0] + 2 * SEQUENCE.exploration_noise * noise[0], -2.0], rtol=1e-5)


@pytest.mark.thorough
def test_sequences_are_learned_of_and_steps_know_the_ones_before():
    def worked(key):
        network = SEQUENCE.network(key, PLANE)
        heads = tuple(jax.tree.map(lambda x: jax.random.normal(key, x.shape), head) for head in network.heads)
        network = equinox.tree_at(lambda n: n.heads, network, heads)
        middle = jnp.zeros((1, 6))
        moved = network.logits(SEEN[:1], middle.at[0, 2].set(0.5), 0) - network.logits(SEEN[:1], middle, 0)
        action = jnp.arange(12, dtype=jnp.float32).reshape(3, 2, 2) / 6
        ended = jnp.array([[False, False], [True, False], [False, False]])
        now = Experience(SEEN, action, SEEN, SEEN, ended, ended & False, ended, ())
        return moved, SEQUENCE.done(network, now)

    moved, done = small.compute(worked, KEY)
    change = np.abs(moved[0]).sum((1, 2))
    assert (change[:2] < 1e-5).all() and (change[2:] > 1e-4).all()  # of the second step, for it and the third
    first, second = np.arange(12).reshape(3, 2, 2).transpose(1, 0, 2) / 12
    np.testing.assert_allclose(done, [[*first[0], *first[1], *first[1]], second.reshape(-1)], rtol=1e-5)
    assert SEQUENCE.segment == 3 and dataclasses.replace(SEQUENCE, n_step=5).segment == 5


@pytest.mark.thorough
def test_what_is_refused():
    with pytest.raises(ForageError, match="low 5 is not below high 1"):
        CQN(low=5.0, high=1.0).check(PLANE)
    with pytest.raises(ForageError, match="raise learning_starts"):
        CQNAS(learning_starts=2).check(PLANE)
    with pytest.raises(ForageError, match="CQN needs a continuous, bounded action space"):
        CQN().check(dataclasses.replace(PLANE, action_space=spaces.Discrete(2)))
    path = TINY.network(KEY, PLANE).lying(jnp.zeros((1, 2)))
    assert of_path(jnp.zeros((1, 2, 2, 3, 3)), path).shape == (1, 2, 2, 3)
