"""PPO's relatives against hand-worked numbers: lost steps change no parameter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.agents.policy_gradient.appo import APPO
from forage.agents.policy_gradient.impala import IMPALA, PolicyInfo
from forage.agents.policy_gradient.ppo import PPO
from forage.core.types import AGENT, GONE, Batch, Clock, Experience, Spec
from forage_papers.agents.policy_gradient.mdpo import MDPO

SPEC = Spec("Table", spaces.Discrete(2), spaces.Discrete(2))
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
KEY = jax.random.key(1)


def rollout(observation, action, reward, next_observation, terminated, truncated, source):
    """Of one environment, as a batch."""
    column = lambda x, dtype: np.asarray(x, dtype)[:, None]  # noqa: E731
    experience = Experience(
        column(observation, jnp.int32), column(action, jnp.int32), column(reward, jnp.float32),
        column(next_observation, jnp.int32), column(terminated, bool), column(truncated, bool),
        column([source] * len(reward), jnp.int32), (),
    )  # fmt: skip
    return jax.device_put(Batch(experience, np.ones(1), np.zeros(1, jnp.int32)))


@pytest.mark.parametrize("agent", [PPO, MDPO, APPO, IMPALA])
def test_a_lost_step_changes_no_parameter(agent):
    """Any values in its row leave the parameters unchanged; the step before it is truncated."""
    shared = {"num_envs": 1, "rollout_length": 4, "hidden_sizes": (2,)}
    agent = agent(**shared) if agent is IMPALA else agent(**shared, minibatches=2, epochs=2)
    state = small.at_once(lambda: agent.init(jax.random.key(0), SPEC))
    learn = jax.jit(lambda batch: agent.learn(state, batch, CLOCK, KEY)[0].network)

    def run_learn(observation, action, reward, next_observation, source=GONE):
        batch = rollout([0, 0, 1, 0], [1, 0, 1, 1], [1, 2, 3, 4], [0, 1, 0, 1], [0] * 4, [0, 0, 1, 0], AGENT)
        e = batch.experience
        e = e._replace(
            observation=e.observation.at[2].set(observation),
            action=e.action.at[2].set(action),
            reward=e.reward.at[2].set(reward),
            next_observation=e.next_observation.at[2].set(next_observation),
            source=e.source.at[2].set(source),
            policy_info=PolicyInfo((), jnp.full((4, 1), -1.0)) if agent.corrects else (),
            version=jnp.zeros((4, 1), jnp.int32),
        )
        return jax.tree.leaves(learn(batch._replace(experience=e)))

    one, other = run_learn(1, 1, 3.0, 0), run_learn(0, 0, 99.0, 1)
    for x, y, before in zip(one, other, jax.tree.leaves(state.network), strict=True):
        np.testing.assert_array_equal(x, y)
        assert (x != before).any() or not before.any()
    heard = run_learn(0, 0, 99.0, 1, AGENT)
    assert any((x != y).any() for x, y in zip(one, heard, strict=True))
