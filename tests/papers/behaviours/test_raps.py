"""Actors within an episode of robust policy improvement, and the behaviour's refusals."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from behaviour_helpers import PENDULUM, begin, decide
from check_helpers import check
from small import compute

from forage.agents.policy_gradient.ppo import PPO
from forage.core.ports import ActContext
from forage.core.types import AGENT, GUIDE, Clock, ForageError
from forage_papers.agents.policy_gradient.rpi import RPI
from forage_papers.behaviours.raps import RAPS

SIZES = {"num_envs": 1, "rollout_length": 4, "hidden_sizes": (4,), "members": 2, "kept_rollouts": 1}


class ToldRPI(RPI):
    """Selects by the observation."""

    def select_policy(self, state, observation):
        return jnp.searchsorted(jnp.array([-0.5, 0.5]), observation[0]).astype(jnp.int32)


TAUGHT = ToldRPI(**SIZES, oracles=(lambda observation: jnp.ones(1), lambda observation: -jnp.ones(1)))


@pytest.mark.parametrize("pretraining", [0, 1000])
def test_episodes_are_the_learners_or_handed_over_once_for_good(pretraining):
    spec = dataclasses.replace(PENDULUM, horizon=5)
    behaviour = RAPS(pretraining=pretraining)

    shapes = jax.eval_shape(lambda: TAUGHT.init(jax.random.key(0), spec))
    state = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)

    def play():

        def step(hidden, key):
            observation = jax.random.normal(key, (2,))
            now = ActContext(TAUGHT, state, spec, Clock(jnp.int32(999), jnp.float32(1e6)), key)
            decision = decide(behaviour, (), hidden, observation, now)
            best = TAUGHT.select_policy(state, observation)
            return decision.hidden, (decision.policy_info, decision.source, decision.action, best)

        def episode(key):
            return jax.lax.scan(step, begin(behaviour, TAUGHT, spec), jax.random.split(key, 5))[1]

        return jax.vmap(episode)(jax.random.split(jax.random.key(1), 200))

    policy, source, action, best = compute(play)
    np.testing.assert_array_equal(source, np.where(policy < 2, GUIDE, AGENT))
    for number, does in ((0, 1.0), (1, -1.0)):
        assert (action[policy == number] == does).all() and (policy == number).any()
    kinds = {tuple(np.unique(episode)) for episode in policy}
    if pretraining:
        assert kinds == {(0,), (1,)}
        return
    assert kinds == {(2,), (0, 3), (1, 3), (2, 3)} and 60 < (policy == 2).all(1).sum() < 140
    over = (policy == 3).any(1)
    first = (policy == 3).sum(1)
    assert set(first[over]) == {1, 2, 3, 4}
    for episode, steps, selected in zip(policy[over], first[over], best[over], strict=True):
        assert (episode[:steps] == 3).all() and (episode[steps:] == selected[steps]).all()


def test_what_is_refused():
    with pytest.raises(ForageError, match="PPO has no oracles that could take over; rpi has"):
        check(RAPS(), PPO(), PENDULUM)
    with pytest.raises(ForageError, match=r"says of no end; give --behaviour\.latest"):
        check(RAPS(), TAUGHT, PENDULUM)
