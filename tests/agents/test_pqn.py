"""PQN: its targets by hand, and one step towards them."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from small import compute, first_state

from forage.agents.q_learning.pqn import PQN
from forage.core.types import GONE, Batch, Clock, Experience, ForageError, Spec

STATES = 4
SPEC = Spec("Table", spaces.Discrete(STATES), spaces.Discrete(2))
MASKED = spaces.Dict({"observation": spaces.Discrete(STATES), "action_mask": spaces.MultiBinary(2)})
Q = np.array([[1.0, 2.0], [4.0, 3.0], [0.0, 8.0], [6.0, 5.0]], np.float32)
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
AGENT = PQN(
    discount=0.5, trace_lambda=0.5, num_envs=1, rollout_length=3, epochs=1, minibatches=1, hidden_sizes=(STATES,),
    layer_norm=False, optimiser="sgd", learning_rate=0.3, max_gradient_norm=1e6,
)  # fmt: skip


def table(spec):
    """Return a state of a network with the one-hot state as features, so that its last layer is the table of Q."""
    state = first_state(AGENT, spec)
    where = lambda n: (n.torso.body.layers[0].weight, n.advantage.layers[0].weight)  # noqa: E731
    network = jax.tree.map(np.zeros_like, state.network)
    return state._replace(network=equinox.tree_at(where, network, (np.eye(STATES), Q)))


def rollout(terminated=(0, 0, 0), truncated=(0, 0, 0), source=(0, 0, 0)):
    """States 0, 1, 2 and 3 by actions 1, 0, 0, with rewards 1, 2, 3."""
    column = lambda x, dtype: np.array(x, dtype)[:, None]  # noqa: E731
    return Experience(
        column([0, 1, 2], np.int32), column([1, 0, 0], np.int32), column([1, 2, 3], np.float32),
        column([1, 2, 3], np.int32), column(terminated, bool), column(truncated, bool), column(source, np.int32), (),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        # From the last: 3 + 0.5 * 6; 2 + 0.5 (0.5 * 8 + 0.5 * 6); 1 + 0.5 (0.5 * 4 + 0.5 * 5.5)
        ({}, [1 + 0.5 * (2 + 2.75), 5.5, 6]),
        ({"terminated": (0, 1, 0)}, [1 + 0.5 * (2 + 1), 2, 6]),  # nothing after
        ({"truncated": (0, 1, 0)}, [1 + 0.5 * (2 + 3), 2 + 0.5 * 8, 6]),  # the value of what it led to
    ],
)
def test_targets_by_hand(ends, expected):
    found = compute(AGENT.targets, table(SPEC).network, rollout(**ends))
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)


def test_masked_actions_are_not_hoped_for_and_ends_without_actions_are_finite():
    e = rollout(terminated=(0, 0, 1))
    see = lambda o, masks: {"observation": o, "action_mask": np.array(masks, np.int8)[:, None]}  # noqa: E731
    e = e._replace(next_observation=see(e.next_observation, [[1, 1], [1, 0], [0, 0]]))
    found = compute(AGENT.targets, table(Spec("Masked", MASKED, SPEC.action_space)).network, e)
    np.testing.assert_allclose(found[:, 0], [1 + 0.5 * (2 + 0.5 * 2.75), 2 + 0.5 * (0 + 1.5), 3], rtol=1e-6)


def test_one_step_goes_towards_the_targets_where_there_is_something_to_learn():
    state = table(SPEC)
    batch = Batch(rollout(source=(0, 0, GONE)), jnp.ones(1), jnp.arange(1))
    later, _, error = compute(AGENT.learn, state, batch, CLOCK, jax.random.key(0))
    target = np.array([1 + 0.5 * (2 + 2.75), 5.5])
    np.testing.assert_allclose(error, [np.abs(target - [2, 4]).sum() / 3], rtol=1e-5)
    moved = later.network.advantage.layers[0].weight - Q
    np.testing.assert_allclose(moved[0], [0, 0.3 * (target[0] - 2) / 2], rtol=1e-5)  # the mean of two transitions
    np.testing.assert_allclose(moved[1], [0.3 * (target[1] - 4) / 2, 0], rtol=1e-5)
    np.testing.assert_allclose(moved[2:], 0, atol=1e-7)


def test_minibatches_that_do_not_fit_are_refused():
    with pytest.raises(ForageError, match="cannot cut 512 transitions into 7 equal minibatches"):
        PQN(minibatches=7).check(SPEC)
