"""Coarse-to-fine Q-networks: zooming, losses and sequences by hand."""

import dataclasses

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.core.ports import ActInputs
from forage.core.types import Clock, Experience, ForageError, Spec
from forage_papers.agents.q_learning.cqn import CQN, of_path
from forage_papers.agents.q_learning.cqn_as import CQNAS, SequencePlans

small.keep_compiled()
KEY, CLOCK = jax.random.key(0), Clock(jnp.int32(0), jnp.float32(100))
PLANE = Spec("Plane", spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Box(-2.0, 2.0, (2,), np.float32))
TINY = CQN(
    hidden_sizes=(4,), levels=2, intervals=3, atoms=3, low=-1.0, high=1.0, n_step=1, discount=0.5, imitation=2.0,
    margin=0.5, learning_starts=8,
)  # fmt: skip
SEEN = np.array([[0.3, -0.2], [0.1, 0.9]], np.float32)


@pytest.mark.parametrize("agent", [TINY, CQNAS(hidden_sizes=(4,), sequence=3)])
def test_hidden_layers_begin_orthogonal(agent):
    network = small.at_once(lambda: agent.network(KEY, PLANE))
    for stream in (network.advantage, network.state_value):
        weight, bias = stream.layers[0].weight, stream.layers[0].bias
        np.testing.assert_allclose(weight.T @ weight, np.eye(4), atol=1e-5)
        assert not bias.any()


SEQUENCE = CQNAS(hidden_sizes=(4,), levels=2, intervals=3, atoms=3, low=-1.0, high=1.0, n_step=1, sequence=3)


def test_sequences_average_what_several_have_for_now():
    agent = dataclasses.replace(SEQUENCE, ensembling=float(np.log(2)))
    step = jax.jit(agent.executed_action)
    hidden = agent.init_hidden(PLANE)
    done = []
    for number in range(4):
        # Sequence number n has n, 10 + n and 20 + n for its steps, in both dimensions.
        sequence = np.repeat(np.array([0.0, 10.0, 20.0]) + number, 2).astype(np.float32)
        action, hidden = step(jnp.asarray(sequence), hidden)
        done.append(action)
    assert isinstance(hidden, SequencePlans) and hidden.count == 3
    # The oldest counts 1, the next 1/2, the newest 1/4; after three, the first is gone.
    by_hand = [0, (10 + 1 / 2) / 1.5, (20 + 11 / 2 + 2 / 4) / 1.75, (21 + 12 / 2 + 3 / 4) / 1.75]
    np.testing.assert_allclose(done, np.repeat(by_hand, 2).reshape(4, 2), rtol=1e-5)


def test_noise_on_a_sequence_is_done_as_it_is():
    """It moves an action by less than an interval, and by its own size; an action outside the box is clipped."""

    def work_out(noise):
        state, hidden = SEQUENCE.init(KEY, PLANE), SEQUENCE.init_hidden(PLANE)
        act = lambda explore: SEQUENCE.act(state, ActInputs(hidden, SEEN[0], KEY, explore, noise))[0]  # noqa: E731
        return act(False), act(True)

    noise = np.array([1.5, -1000.0], np.float32)
    still, noisy = small.compute(work_out, noise)
    np.testing.assert_allclose(noisy, [still[0] + 2 * SEQUENCE.exploration_noise * noise[0], -2.0], rtol=1e-5)


@pytest.mark.thorough
def test_sequences_are_learned_of_and_steps_know_the_ones_before():
    def work_out(key):
        network = SEQUENCE.network(key, PLANE)
        heads = tuple(jax.tree.map(lambda x: jax.random.normal(key, x.shape), head) for head in network.heads)
        network = equinox.tree_at(lambda n: n.heads, network, heads)
        middle = jnp.zeros((1, 6))
        moved = network.logits(SEEN[:1], middle.at[0, 2].set(0.5), 0) - network.logits(SEEN[:1], middle, 0)
        action = jnp.arange(12, dtype=jnp.float32).reshape(3, 2, 2) / 6
        ended = jnp.array([[False, False], [True, False], [False, False]])
        now = Experience(SEEN, action, SEEN, SEEN, ended, ended & False, ended, ())
        return moved, SEQUENCE.batch_actions(network, now)

    moved, done = small.compute(work_out, KEY)
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
