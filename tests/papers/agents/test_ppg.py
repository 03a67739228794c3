"""PPG: the loss of the auxiliary phase by hand, when the phase comes, and refusals."""

import dataclasses

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from small import at_once, compute

from forage.agents.policy_gradient.ppo import PPO
from forage.core.types import AGENT, Batch, Clock, Experience, ForageError, Spec
from forage_papers.agents.policy_gradient.ppg import PPG, Phase

SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(3))
SIZES = {"num_envs": 2, "rollout_length": 3, "minibatches": 1, "hidden_sizes": (4,)}
AGENT_OF_TWO = PPG(**SIZES, policy_rollouts=2, auxiliary_minibatches=3, auxiliary_epochs=1, cloning=0.5)


def test_the_loss_of_the_auxiliary_phase_by_hand():
    state = at_once(lambda: AGENT_OF_TWO.init(jax.random.key(0), SPEC))
    before = equinox.tree_at(lambda n: n.actor.weight, state.network, 100 * state.network.actor.weight)
    seen, target = jax.random.normal(jax.random.key(2), (4, 3)), np.array([[1.0], [2.0], [-1.0], [9.0]], np.float32)
    counts = np.array([True, True, True, False])

    def compute_both(state, before):
        old = jax.vmap(before.distribution)(before.rows(seen)[0], seen)
        rows = Phase(seen, target, counts)
        found = AGENT_OF_TWO.auxiliary_loss((state.network, state.head), old, rows)
        features = jax.vmap(state.network.features)(seen)
        policies = [jax.nn.log_softmax(n.rows(seen)[0]) for n in (before, state.network)]
        return found, state.head(features), jax.vmap(state.network.value)(seen), policies

    (loss, metrics), auxiliary, value, (p, q) = compute(compute_both, state, before)
    kept = slice(0, 3)
    by_hand = [np.mean((x - target)[kept] ** 2) / 2 for x in (auxiliary, value)]
    by_hand.append(np.mean(np.sum(np.exp(p) * (p - q), 1)[kept]))
    found = [metrics[name] for name in ("auxiliary_loss", "auxiliary_value_loss", "auxiliary_kl")]
    np.testing.assert_allclose(found, by_hand, rtol=1e-5)
    np.testing.assert_allclose(loss, by_hand[0] + by_hand[1] + 0.5 * by_hand[2], rtol=1e-5)


@pytest.mark.thorough
def test_every_second_rollout_ends_with_an_auxiliary_phase():
    seen = jax.random.normal(jax.random.key(3), (4, 2, 3))
    no, action = np.zeros((3, 2), bool), np.zeros((3, 2), np.int32)
    rollout = Experience(
        seen[:3], action, np.ones((3, 2), np.float32), seen[1:], no, no, np.full_like(action, AGENT), ()
    )
    batch, clock = jax.device_put(Batch(rollout, jnp.ones(2), jnp.arange(2))), Clock(jnp.int32(6), jnp.float32(60))
    plain = PPO(**{field.name: getattr(AGENT_OF_TWO, field.name) for field in dataclasses.fields(PPO)})
    begin = at_once(lambda: AGENT_OF_TWO.init(jax.random.key(0), SPEC))
    make = lambda agent: jax.jit(lambda state: agent.learn(state, batch, clock, jax.random.key(4)))  # noqa: E731
    learn, learn_plain = make(AGENT_OF_TWO), make(plain)
    first, metrics, _ = learn(begin)
    second, later, _ = learn(first)
    after = learn_plain(first)[0]
    assert equinox.tree_equal(first.network, learn_plain(begin)[0].network, rtol=1e-6, atol=1e-7)
    assert equinox.tree_equal(first.head, begin.head) and not equinox.tree_equal(second.head, begin.head)
    assert not equinox.tree_equal(second.network, after.network, rtol=1e-4, atol=1e-5)
    assert metrics["auxiliary_loss"] == 0 < later["auxiliary_loss"]
    np.testing.assert_array_equal(second.phase.observation, np.stack([seen[:3]] * 2))


def test_minibatches_of_different_sizes_are_refused():
    with pytest.raises(
        ForageError, match="6 transitions of a rollout cannot be cut into 4 equal auxiliary_minibatches"
    ):
        dataclasses.replace(AGENT_OF_TWO, auxiliary_minibatches=4).check(SPEC)
