"""An ensemble of categorical agents: its one target by hand, and the member that acts."""

import dataclasses

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces
from small import at_once, compute

from forage.agents.q_learning.c51 import C51
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage_papers.agents.q_learning.ensemble_c51 import EnsembleC51

SPEC = Spec("Table", spaces.Discrete(2), spaces.Discrete(2))
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
PLAIN = {"discount": 0.5, "dueling": False, "n_step": 1, "hidden_sizes": (2,), "atoms": 3, "low": -1.0, "high": 1.0}
AGENT = EnsembleC51(**PLAIN, members=2, double=False)
# Probabilities of returns -1, 0 and 1, by member and action, in state 1. Of the first member action 0 is best, and on
# average action 1.
AFTER = np.array([[[0.1, 0.5, 0.4], [0.2, 0.5, 0.3]], [[0.6, 0.2, 0.2], [0.0625, 0.0625, 0.875]]])
TAKEN = np.array([[0.5, 0.25, 0.25], [0.125, 0.375, 0.5]])  # by member, of action 0 in state 0


def table(network, numbers):
    """Return the members with this table of logits as last layers: member state action atom."""
    network = jax.tree.map(np.zeros_like, network)
    where = lambda n: (n.torso.body.layers[0].weight, n.advantage.layers[0].weight)  # noqa: E731
    return equinox.tree_at(where, network, (np.stack([np.eye(2)] * 2), numbers.reshape(2, 2, 6)))


def state_of():
    state = at_once(lambda: AGENT.init(jax.random.key(0), SPEC))
    online, target = np.zeros((2, 2, 2, 2, 3), np.float32)
    online[:, 0, 0], online[:, 1] = np.log(TAKEN), np.log(AFTER[::-1])
    target[:, 1] = np.log(AFTER)
    return jax.device_put(state._replace(network=table(state.network, online), target=table(state.network, target)))


def batch(learners):
    row = lambda x, dtype: np.array([[x]], dtype)  # noqa: E731
    now = Experience(
        row(0, np.int32), row(0, np.int32), row(0.5, np.float32), row(1, np.int32), row(False, bool), row(False, bool),
        row(0, np.int32), np.array([[learners]]),
    )  # fmt: skip
    return jax.device_put(Batch(now, np.ones(1, np.float32), np.zeros(1, np.int32)))


def test_all_members_learn_from_the_average():
    state = state_of()
    loss = lambda learners: AGENT.loss(state.network, state.target, batch(learners))  # noqa: E731
    (both, (divergence, _)), (second, _) = compute(lambda: (loss((True, True)), loss((False, True))))
    mean = AFTER.mean(0)[1]  # atoms -1, 0, 1 go to 0, 0.5 and 1
    goal = np.array([0, mean[0] + mean[1] / 2, mean[1] / 2 + mean[2]])
    each = -(goal * np.log(TAKEN)).sum(1)
    np.testing.assert_allclose([both, second], [each.sum(), each[1]], rtol=1e-4)
    np.testing.assert_allclose(divergence, [[each.mean() + (goal[1:] * np.log(goal[1:])).sum()]], rtol=1e-4)


def test_one_member_is_followed_in_an_episode_and_all_without_exploring():
    state = state_of()

    def episode(key):
        first, hidden, learners = AGENT.act(state, ActInputs(AGENT.init_hidden(SPEC), jnp.int32(1), key, explore=True))
        again, hidden, _ = AGENT.act(state, ActInputs(hidden, jnp.int32(1), jax.random.fold_in(key, 1), explore=True))
        return first, again, hidden.head, learners, AGENT.action_values(state, hidden, jnp.int32(1))

    rare = dataclasses.replace(AGENT, mask_probability=0.25)
    keys = jax.random.split(jax.random.key(1), 400)
    (first, again, head, learners, values), some, shares, still = compute(lambda: (
        jax.vmap(episode)(keys),
        jax.vmap(lambda key: rare.act(state, ActInputs(rare.init_hidden(SPEC), jnp.int32(1), key, True))[2])(keys),
        AGENT.probabilities(state, jnp.int32(1), False),
        AGENT.act(state, ActInputs(AGENT.init_hidden(SPEC), jnp.int32(1), jax.random.key(0), explore=False))[0],
    ))  # fmt: skip
    # Online, the second member is the one that holds action 0 for the best.
    np.testing.assert_array_equal(first, 1 - head)
    np.testing.assert_array_equal(again, first)
    assert 0.4 < head.mean() < 0.6 and learners.all() and 0.2 < some.mean() < 0.3
    worth = AFTER[::-1] @ np.array([-1, 0, 1])
    np.testing.assert_allclose(values, worth[head], rtol=1e-4, atol=1e-6)
    assert still == 1 and shares.tolist() == [0, 1]


def test_one_member_is_c51():
    one = dataclasses.replace(AGENT, members=1, double=True)
    alone = C51(**PLAIN, double=True)
    state = state_of()
    first = lambda tree: jax.tree.map(lambda x: x[:1], tree)  # noqa: E731
    single = lambda tree: jax.tree.map(lambda x: x[0], tree)  # noqa: E731
    ((loss, (error, _)), (expected, (right, _))) = compute(lambda: (
        one.loss(first(state.network), first(state.target), batch((True,))),
        alone.loss(single(state.network), single(state.target), batch((True,))),
    ))  # fmt: skip
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(error, right, rtol=1e-4, atol=1e-6)


def test_data_sets_teach_all_members_and_what_is_refused():
    state, now = state_of(), batch((True, True))
    unmasked = now._replace(experience=now.experience._replace(policy_info=()))
    learn = jax.jit(lambda now: AGENT.learn(state, now, CLOCK, jax.random.key(0))[1]["loss"])
    np.testing.assert_allclose(learn(unmasked), learn(now))
    with pytest.raises(ForageError, match="follows one member in each episode"):
        AGENT.probabilities(state, jnp.int32(1), True)
    with pytest.raises(ForageError, match="leave count_dormant out"):
        check(dataclasses.replace(AGENT, count_dormant=True), SPEC)
