"""DDPG: one critic, a target without smoothing, and a policy that moves at every update."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from small import at_once, compute

from forage.agents.settings import DDPG
from forage.core.types import Batch, Clock, Experience, Spec

SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32))
CLOCK, KEY = Clock(jnp.int32(0), jnp.float32(100)), jax.random.key(0)
AGENT = DDPG(discount=0.5, hidden_sizes=(8,), polyak=0.1)


def critic_of(critics, slope, value):
    """Return critics with Q(s, a) = slope a + value for every s; valid for a > -10, so that relu(a + 10) is a + 10."""
    where = lambda c: (  # noqa: E731
        c.body.layers[0].weight, c.body.layers[0].bias, c.body.layers[1].weight, c.body.layers[1].bias,
    )  # fmt: skip
    first, first_bias, last, last_bias = map(np.zeros_like, where(critics))
    first[0, 3, 0], first_bias[0, 0], last[0, 0, 0], last_bias[0] = 1.0, 10.0, slope, value - 10 * slope
    return equinox.tree_at(where, critics, (first, first_bias, last, last_bias))


def test_one_critic_hears_the_target_policy_and_no_noise():
    state = at_once(lambda: AGENT.init(KEY, SPEC))
    assert {leaf.shape[0] for leaf in jax.tree.leaves(state.critics)} == {1}
    target_actor = jax.tree.map(np.zeros_like, state.target_actor)
    target_actor = equinox.tree_at(lambda a: a.head.bias, target_actor, np.array([np.arctanh(0.5)], np.float32))
    state = state._replace(
        critics=critic_of(state.critics, 1.0, 3.0),
        target_critics=critic_of(state.target_critics, 2.0, 5.0),
        target_actor=target_actor,
    )
    observation = np.zeros((1, 3, 3), np.float32)
    ends = np.array([[0, 1, 0]], bool), np.array([[0, 0, 1]], bool)
    action, reward = np.full((1, 3, 1), 0.25, np.float32), np.array([[1.0, 2.0, 4.0]], np.float32)
    e = Experience(observation, action, reward, observation, *ends, np.zeros((1, 3), np.int32), ())
    later, _, error = compute(AGENT.learn, state, Batch(e, jnp.ones(3), jnp.arange(3)), CLOCK, KEY)
    after = 0.5 * (2.0 * 0.5 + 5.0)  # nothing after an end, and as if nothing had happened after a cut
    np.testing.assert_allclose(error, np.abs(np.array([1 + after, 2, 4 + after]) - 3.25), rtol=1e-5)

    # The policy learned at the first update, and both targets moved.
    moved = lambda a, b: any(  # noqa: E731
        np.any(x != y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )
    assert moved(later.actor, state.actor) and moved(later.target_actor, state.target_actor)
    assert moved(later.target_critics, state.target_critics)
