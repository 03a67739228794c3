"""Soft Q imitation learning: the contents of its batches, stop and resume, and refusals."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.config.resolve import from_config, resolve
from forage.core.ports import ActContext
from forage.core.types import AGENT, DATASET, Clock, ForageError
from forage.data import files
from forage.data.logged import Transitions
from forage_papers.memory.sqil import SQIL

OPTIONS = small.REPLAY | {"hidden_sizes": (8,)}


def write_file(path, count=40):
    """Write demonstrations with their numbers, from 1 on, as observations; one episode falls, the next is cut."""
    setup = resolve("ppo", "CartPole-v1", seeds=1)
    number = np.arange(1, count + 1)
    seen = np.repeat(number[:, None], 4, 1).astype(np.float32)
    data = Transitions(seen, number % 2, np.full(count, 7.0), seen + 0.5, number % 8 == 4, number % 8 == 0)
    files.write_data(path, data, {"spec": setup.config()["spec"]})
    return str(path)


@pytest.mark.parametrize(("share", "many"), [(0.5, 4), (0.25, 2), (1.0, 8)])
def test_demonstrations_are_worth_1_and_the_rest_0(share, many, tmp_path):
    memory = SQIL(demonstrations=write_file(tmp_path / "a.npz"), share=share, capacity=64)
    setup = resolve("dqn", "CartPole-v1", steps=400, seeds=1, memory=memory, agent_options=OPTIONS)
    learner = setup.learner()

    @jax.jit
    def draw():
        state = learner.agent.init(jax.random.key(0), setup.spec)
        example = learner.example(state, learner.behaviour.init(jax.random.key(0), learner.agent, setup.spec))
        ring = learner.memory.init(example, 2, 4, setup.spec, None)
        rollout = jax.tree.map(lambda x: jnp.zeros((4, 2, *x.shape), x.dtype), example)
        ring = learner.memory.add(
            ring, rollout._replace(reward=jnp.ones((4, 2)), truncated=jnp.ones((4, 2), bool)), Clock(jnp.int32(0), 1.0)
        )
        moment = ActContext(learner.agent, state, setup.spec, Clock(jnp.int32(8), jnp.float32(100)), jax.random.key(1))
        return learner.memory.sample(ring, 8, 3, moment)

    batch = jax.device_get(draw())
    shown = np.broadcast_to(np.arange(8) < many, (3, 8))
    np.testing.assert_array_equal(batch.experience.reward, shown)
    np.testing.assert_array_equal(batch.experience.source, np.where(shown, DATASET, AGENT))
    assert (batch.weight == 1).all()
    # Rows stay whole: what was done and seen next and whether it ended are those of the demonstration, or of the agent.
    found, number = batch.experience, batch.experience.observation[..., 0]
    assert (number[shown] > 0).all() and (number[~shown] == 0).all()
    assert (np.diff(number, axis=0)[:, :many] == 1).all()
    np.testing.assert_array_equal(found.action, np.where(shown, number % 2, 0))
    np.testing.assert_array_equal(found.next_observation[..., 3], np.where(shown, number + 0.5, 0))
    np.testing.assert_array_equal(found.terminated, shown & (number % 8 == 4))
    np.testing.assert_array_equal(found.truncated, np.where(shown, number % 8 == 0, True))
    assert share < 1 or (found.terminated.any() and found.truncated.any())


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    memory = SQIL(demonstrations=write_file(tmp_path / "a.npz"), capacity=64)
    setup = resolve("sac-discrete", "CartPole-v1", steps=160, seeds=[3, 7], memory=memory, agent_options=OPTIONS)
    runner = setup.runner()
    runner.begin()
    runner.advance(6)
    runner.save(tmp_path / "half.npz", {"steps": runner.steps})
    assert (np.asarray(runner.advance(6).metrics["updates"]) > 0).all()
    again = from_config(json.loads(json.dumps(setup.config()))).runner()
    again.load(tmp_path / "half.npz")
    again.advance(6)
    assert small.differing(runner.state, again.state) == []


def test_what_is_refused(tmp_path):
    data = write_file(tmp_path / "a.npz")

    def check_refused(words, agent, environment, memory, **options):
        with pytest.raises(ForageError, match=words):
            resolve(agent, environment, seeds=1, steps=4000, memory=memory, agent_options=options).runner()

    check_refused("name a file of them with --memory.demonstrations", "dqn", "CartPole-v1", SQIL())
    check_refused("PPO learns only from the rollout", "ppo", "CartPole-v1", SQIL(demonstrations=data))
    check_refused("SQIL needs an agent without memory", "dqn", "CartPole-v1", SQIL(demonstrations=data), gru_size=4)
    check_refused("holds transitions of CartPole-v1", "sac", "Pendulum-v1", SQIL(demonstrations=data))
    check_refused("share of sqil is from 0 to 1", "dqn", "CartPole-v1", SQIL(demonstrations=data, share=1.5))
