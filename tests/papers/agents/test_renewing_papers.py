"""Networks and units reset between updates: measurements of activity outlast a reset."""

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from forage.core import prng
from forage.core.types import Batch, Clock, Experience, Spec
from forage_papers.agents.actor_critic.adaptive_ratio_sac import AdaptiveRatioSAC

SPEC = Spec("x", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (2,), np.float32))


def batch(spec):
    observation, no = jnp.ones((1, 5, 3)), jnp.zeros((1, 5), bool)
    action = jnp.ones((1, 5, 2)) if spec is SPEC else jnp.ones((1, 5), jnp.int32)
    experience = Experience(
        observation, action, jnp.ones((1, 5)), observation, no, no, jnp.zeros((1, 5), jnp.int32), ()
    )
    return Batch(experience, jnp.ones(5), jnp.arange(5))


def change(agent, spec, updates):
    """Return, for each update, the names of the state's fields that `reset_networks` changed, and its own metrics."""

    @jax.jit
    def update(state, key):
        learned, _, _ = agent.learn(state, batch(spec), Clock(jnp.int32(5), jnp.float32(100)), key)
        after, metrics = agent.reset_networks(learned, batch(spec), key, spec)
        same = jax.tree.map(lambda x, y: (x == y).all(), learned, after)
        return after, {name: jnp.array(jax.tree.leaves(part)).all() for name, part in same._asdict().items()}, metrics

    state, found = jax.jit(lambda: agent.init(prng.key(0), spec))(), []
    for number in range(updates):
        state, same, metrics = update(state, prng.key(number))
        assert int(state.updates) == number + 1
        found.append(({name for name, is_same in same.items() if not is_same}, metrics))
    return state, found


def test_what_is_known_of_activity_outlasts_a_reset():
    agent = AdaptiveRatioSAC(hidden_sizes=(8,), batch_size=5, reset_interval=2, check_interval=10, window=10)
    state, found = change(agent, SPEC, 3)
    assert "critics" in found[2][0] and "activity" not in found[2][0]
    assert float(state.activity.last) > 0 and float(state.activity.total) > 0
